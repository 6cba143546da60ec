"""The files that the lint tests look at."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files(suffixes, folders=("src", "tests", "bench", "scripts"), root=ROOT):
    """Files below the folders with one of the suffixes, sorted, as paths relative to the root."""
    found = []
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.suffix in suffixes and path.is_file():
                found.append(path.relative_to(root))
    return sorted(found)


def report(violations):
    """Prints one violation a line; the exit status of the test."""
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations")
    return 1 if violations else 0
