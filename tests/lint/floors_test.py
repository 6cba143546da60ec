"""A folder of src/ includes only itself and folders on lower floors."""

import pathlib
import re
import sys
import tempfile

from sources import ROOT, files, report

FLOORS = [
    {"base"},
    {"io"},
    {"format", "kernels"},
    {"ops"},
    {"model"},
    {"experts"},
    {"engine", "observe"},
    {"serve", "train", "plan"},
    {"cli"},
]
FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders}
# What the build makes, as if it lay in src/.
GENERATED = {"kernels/quant/weight_types-inl.h"}  # cmake/weight_types.cmake
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def violations_of(path, text, root):
    """What is wrong with the includes of one file; path is relative to the root, src/<folder>/..."""
    folder = path.parts[1]
    if folder not in FLOOR_OF:
        yield f"{path}: the folder src/{folder} has no floor (tests/lint/floors_test.py)"
        return
    for match in INCLUDE.finditer(text):
        included = match.group(1)
        line = text.count("\n", 0, match.start()) + 1
        target = included.split("/")[0]
        if ".." in included.split("/"):
            yield f'{path}:{line}: "{included}" climbs with ..; write it from src/'
        elif included not in GENERATED and not (root / "src" / included).is_file():
            yield f'{path}:{line}: "{included}" is no file of src/; write it from src/, or with <>'
        elif target != folder and FLOOR_OF.get(target, len(FLOORS)) >= FLOOR_OF[folder]:
            yield (
                f'{path}:{line}: {folder} (floor {FLOOR_OF[folder]}) includes "{included}"'
                f" (floor {FLOOR_OF.get(target, 'unknown')})"
            )


def check(root):
    violations = []
    for path in files({".cc", ".h"}, folders=("src",), root=root):
        if len(path.parts) < 3:
            violations.append(f"{path}: lies outside of the floors; move it into a folder")
            continue
        violations += violations_of(path, (root / path).read_text(encoding="utf-8"), root)
    return violations


def test_that_it_finds_what_it_should():
    """A small house with one room for every way to go wrong."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        house = {
            "src/base/result.h": "",
            "src/engine/engine.h": '#include "base/result.h"\n#include "engine/sampler.h"\n',
            "src/engine/sampler.h": '#include "observe/trace.h"\n',  # the same floor, another folder
            "src/observe/trace.h": '  #  include "engine/engine.h"\n',
            "src/base/check.h": '#include "engine/engine.h"\n#include "../base/result.h"\n#include "gone.h"\n',
            "src/attic/box.h": "",
            "src/io/list.h": f'#include "{min(GENERATED)}"\n',  # is there, but on a higher floor
        }
        for path, text in house.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        found = check(root)
    expected = ["src/attic/box.h:", "src/base/check.h:1:", "src/base/check.h:2:", "src/base/check.h:3:"]
    expected += ["src/engine/sampler.h:1:", "src/io/list.h:1: io (floor 1) includes", "src/observe/trace.h:1:"]
    assert len(found) == len(expected), found
    for violation, start in zip(found, expected):
        assert violation.startswith(start), (violation, start)


if __name__ == "__main__":
    test_that_it_finds_what_it_should()
    sys.exit(report(check(ROOT)))
