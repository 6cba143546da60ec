"""Length and plain manners of the source files."""

import re
import sys

from sources import ROOT, files, report

LINES_MAX = 500
COLUMNS_MAX = 120

# Files that are longer than LINES_MAX, each with its present length. An entry must follow the file down and
# leave with it; the list may only shrink.
LONG_FILES = {}

# Spelled in halves, so that this file passes its own test.
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + "XX|HA" + "CK)\\b")
CLIMBING_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](\.\./|[^">]*/\.\./)')


def length_violations(name, n_lines):
    allowed = LONG_FILES.get(name)
    if allowed is None and n_lines > LINES_MAX:
        yield f"{name}: {n_lines} lines; {LINES_MAX} are allowed: split it"
    elif allowed is not None and n_lines > allowed:
        yield f"{name}: grew from {allowed} to {n_lines} lines; the list of long files may only shrink"
    elif allowed is not None and n_lines <= LINES_MAX:
        yield f"{name}: has {n_lines} lines now; take it off LONG_FILES (tests/lint/source_test.py)"
    elif allowed is not None and n_lines < allowed:
        yield f"{name}: shrank to {n_lines} lines; lower its entry in LONG_FILES (tests/lint/source_test.py)"


def line_violations(name, lines):
    for number, line in enumerate(lines, start=1):
        place = f"{name}:{number}"
        if len(line) > COLUMNS_MAX:
            yield f"{place}: {len(line)} columns; {COLUMNS_MAX} are allowed"
        if "\t" in line:
            yield f"{place}: a tab; write \\t in a string and spaces elsewhere"
        if line != line.rstrip():
            yield f"{place}: blanks or a carriage return at the end"
        if UNFINISHED.search(line):
            yield f"{place}: a note of unfinished work; finish it, or file an issue"
        if CLIMBING_INCLUDE.match(line):
            yield f"{place}: an include climbs with ..; write it from src/ or tests/"


def check(name, text):
    lines = text.split("\n")
    violations = list(length_violations(name, len(lines) - 1)) + list(line_violations(name, lines))
    if not text.endswith("\n"):
        violations.append(f"{name}: has no end of line at its end")
    if name.endswith(".h") and not name.endswith("-inl.h") and "#pragma once" not in lines:
        violations.append(f"{name}: a header without #pragma once")
    return violations


def test_that_it_finds_what_it_should():
    good = "#pragma once\n\nint main();\n"
    assert not check("src/base/a.h", good)
    bad = {
        "long": "\n" * (LINES_MAX + 1),
        "wide": "x" * (COLUMNS_MAX + 1) + "\n",
        "tab": "\tint x;\n",
        "blank": "int x; \n",
        "carriage return": "int x;\r\n",
        "unfinished": "// " + "TO" + "DO: later\n",
        "climbs": '#include "../base/check.h"\n',
        "no last line": "int x;",
    }
    for what, text in bad.items():
        assert len(check("src/base/a.cc", text)) == 1, what
    assert len(check("src/base/a.h", "int x;\n")) == 1, "no #pragma once"


def main():
    test_that_it_finds_what_it_should()
    violations = []
    names = set()
    for path in files({".cc", ".h", ".py", ".sh"}):
        names.add(str(path))
        violations += check(str(path), (ROOT / path).read_bytes().decode("utf-8"))
    violations += [f"{name}: is gone; take it off LONG_FILES" for name in LONG_FILES if name not in names]
    return report(violations)


if __name__ == "__main__":
    sys.exit(main())
