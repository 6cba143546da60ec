"""web/dist/index.html is what web/ builds: no source has changed since, and the page asks no other host."""

import hashlib
import re
import sys

from sources import ROOT, report

WEB = ROOT / "web"
PAGE = WEB / "dist" / "index.html"
BYTES_MAX = 200_000
LINES_MAX = 200
COLUMNS_MAX = 130

# As in web/sources.ts.
TOP_FILES = [
    "index.html", "one_file.ts", "package-lock.json", "package.json", "sources.ts", "tsconfig.json", "vite.config.ts",
]


def source_paths(web):
    below = [path.relative_to(web).as_posix() for path in (web / "src").rglob("*") if path.is_file()]
    return sorted(TOP_FILES + below, key=lambda path: path.encode())


def sources_hash(web):
    total = hashlib.sha256()
    for path in source_paths(web):
        content = hashlib.sha256((web / path).read_bytes()).hexdigest()
        total.update(f"{path}\0{content}\n".encode())
    return total.hexdigest()


def page_violations(page, expected_hash):
    if f'<meta name="soli-sources" content="{expected_hash}">' not in page:
        yield "web/dist/index.html is not of these sources: run npm ci && npm run build in web/, and commit it"
    if len(page.encode()) > BYTES_MAX:
        yield f"web/dist/index.html has {len(page.encode())} bytes; {BYTES_MAX} are allowed"
    # xmlns is a name and is never asked for; preact tells SVG and MathML by theirs.
    for url in re.findall(r"https?://[^\s\"'`)]*", page):
        if not url.startswith("http://www.w3.org/"):
            yield f"web/dist/index.html names another host: {url}"
    if re.search(r"<script[^>]*\ssrc=|<link[^>]*\shref=\"(?!data:)|@import|sourceMappingURL", page):
        yield "web/dist/index.html is not one file: it loads another"
    if "Content-Security-Policy" not in page:
        yield "web/dist/index.html has no Content-Security-Policy"


def source_violations(web):
    for path in source_paths(web):
        if not path.endswith((".ts", ".tsx", ".css")):
            continue
        text = (web / path).read_text(encoding="utf-8")
        lines = text.split("\n")
        if len(lines) - 1 > LINES_MAX:
            yield f"web/{path}: {len(lines) - 1} lines; {LINES_MAX} are allowed: split it"
        for number, line in enumerate(lines, start=1):
            if len(line) > COLUMNS_MAX or line != line.rstrip():
                yield f"web/{path}:{number}: longer than {COLUMNS_MAX} columns, or blanks at its end"
        if re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", text):
            yield f"web/{path}: makes markup or code of text; texts of models are set as text"


def test_that_it_finds_what_it_should():
    good = '<meta http-equiv="Content-Security-Policy"><meta name="soli-sources" content="1">'
    assert not list(page_violations(good, "1"))
    for bad in (
        good.replace('"1"', '"2"'), good + "x" * BYTES_MAX, good + '"https://example.com/a.js"',
        good + '<script src="a.js">', good + '<link rel="icon" href="a">', good.replace("Content-", ""),
    ):
        assert len(list(page_violations(bad, "1"))) == 1, bad


def main():
    test_that_it_finds_what_it_should()
    page = PAGE.read_text(encoding="utf-8")
    return report(list(page_violations(page, sources_hash(WEB))) + list(source_violations(WEB)))


if __name__ == "__main__":
    sys.exit(main())
