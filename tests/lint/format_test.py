"""clang-format would change nothing (.clang-format). Skipped where clang-format is not installed."""

import shutil
import subprocess
import sys

from sources import ROOT, files, report

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
TOGETHER = 50  # files of one process, whose start takes longer than a file


def main():
    program = shutil.which("clang-format")
    if program is None:
        print("clang-format is not installed (apt-get install clang-format): the format was not checked")
        return SKIPPED
    violations = []
    paths = [str(path) for path in files({".cc", ".h"})]
    for begin in range(0, len(paths), TOGETHER):
        command = [program, "--dry-run", "-Werror", *paths[begin : begin + TOGETHER]]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            places = [line for line in run.stderr.splitlines() if "error: " in line] or ["clang-format failed"]
            violations += [f"run clang-format -i: {place}" for place in places]
    return report(violations)


if __name__ == "__main__":
    sys.exit(main())
