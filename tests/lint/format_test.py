"""clang-format would change nothing (.clang-format). Skipped where clang-format is not installed."""

import shutil
import subprocess
import sys

from sources import ROOT, files, report

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt


def main():
    program = shutil.which("clang-format")
    if program is None:
        print("clang-format is not installed (apt-get install clang-format): the format was not checked")
        return SKIPPED
    violations = []
    for path in files({".cc", ".h"}):
        run = subprocess.run(
            [program, "--dry-run", "-Werror", str(path)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            place = (run.stderr.splitlines() or ["clang-format failed"])[0]
            violations.append(f"{path}: run clang-format -i {path} ({place})")
    return report(violations)


if __name__ == "__main__":
    sys.exit(main())
