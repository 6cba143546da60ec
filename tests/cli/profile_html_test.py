"""`soli profile --html`: a page that needs nothing else, whose numbers are those of --json."""

import base64
import hashlib
import html.parser
import json
import re
import struct
import zlib

from program import DEMO, ERROR, ROOT, CliTest, main, soli

TEXTS = ROOT / "tests" / "data"
HOSTILE = "<script>alert(1)</script> & \"x\" 'y' \u202e"
ONE_SIDED, TWO_SIDED = 254, 127  # numbers of the last colour, and of the one in the middle


class Page(html.parser.HTMLParser):
    """What of a page the tests look at. Cells and rows need no end tags."""

    VOID = {"meta", "br", "link", "img"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.ids = [], [], []
        self.scripts, self.tables, self.images = [], [], {}
        self.headings = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "table":
            self.tables.append({**attributes, "rows": [], "caption": ""})
        elif tag == "tr":
            self.tables[-1]["rows"].append({**attributes, "cells": []})
        elif tag in ("th", "td"):
            self.tables[-1]["rows"][-1]["cells"].append({**attributes, "tag": tag, "text": ""})
        elif tag == "script":
            self.scripts.append({**attributes, "text": ""})
        elif tag == "svg":
            self.svg = attributes
        elif tag == "image":
            self.images.setdefault(self.svg["class"], []).append({**self.svg, **attributes})
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts[-1]["text"] += data
        elif "caption" in self.open:
            self.tables[-1]["caption"] += data
        elif "table" in self.open and self.tables[-1]["rows"] and self.tables[-1]["rows"][-1]["cells"]:
            self.tables[-1]["rows"][-1]["cells"][-1]["text"] += data
        if "h1" in self.open:
            self.headings.append(data)

    def report(self):
        return json.loads(next(s["text"] for s in self.scripts if s.get("id") == "report"))


def pixels_of(address):
    """Width, rows of colour numbers, and the palette of a PNG in an address; every checksum is looked at."""
    png = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length)[0] == zlib.crc32(kind + data)
        chunks[kind] = data
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[row * (width + 1) : (row + 1) * (width + 1)] for row in range(height)]
    assert all(row[0] == 0 for row in rows)
    return [list(row[1:]) for row in rows], len(chunks[b"PLTE"]) // 3


class HtmlTest(CliTest):
    def texts(self, **texts):
        folder = self.folder()
        for name, text in texts.items():
            (folder / f"{name}.txt").write_text(text)
        return folder

    def usual_texts(self, n=3000):
        return self.texts(**{name: (TEXTS / f"{name}.txt").read_text()[:n] for name in ("math", "prose_en")})

    def profile(self, data, *arguments):
        """The JSON that is printed, and the page."""
        path = self.folder() / "profile.html"
        arguments = ["--window", "64", *arguments, "--html", path, "--json"]
        printed = self.run_ok("profile", DEMO, "--data", data, *arguments).json
        self.text = path.read_text(encoding="utf-8")
        return printed, Page(self.text)

    def check_number(self, text, value):
        """As people see it: four digits."""
        if value is None:
            self.assertEqual(text, "–")
        elif isinstance(value, bool):
            self.assertEqual(text, "yes" if value else "no")
        elif isinstance(value, str):
            self.assertEqual(text, value)
        elif isinstance(value, int):
            self.assertEqual(int(text), value)
        elif isinstance(value, float):
            self.assertAlmostEqual(float(text), value, delta=abs(value) * 5.1e-4)
        else:
            keys = ("p", "sample", "permuted") if "p" in value else ("layer", "expert", "share")
            values = value if isinstance(value, list) else [value[key] for key in keys]
            for part, number in zip(re.split(" to |, ", text), values, strict=True):
                self.check_number(part, number)

    def check_rows(self, table, of_row):
        """Each cell under a key is the figure of that name, of what the row is about."""
        keys = [cell.get("data-key") for cell in table["rows"][0]["cells"]]
        self.assertGreater(len(keys), 3)
        for row in table["rows"][1:]:
            figures = of_row(row)
            for key, cell in zip(keys[1:], row["cells"][1:], strict=True):
                with self.subTest(key=key, row=row["cells"][0]["text"]):
                    self.check_number(cell["text"].rstrip("\n"), figures[key])

    def test_numbers_are_those_of_the_json(self):
        printed, page = self.profile(self.usual_texts())
        self.assertEqual(page.report(), printed)
        targets = {"all": printed["all"], **{str(d): domain for d, domain in enumerate(printed["domains"])}}

        def figures_of(row):
            target = targets[row["data-target"]]
            if "data-layer" not in row:
                return target["total"]
            return next(layer for layer in target["layers"] if layer["layer"] == int(row["data-layer"]))

        tables = {}
        for table in page.tables:
            tables.setdefault(table["class"], []).append(table)
        for kind, n in {"verdicts": 1, "figures": 3}.items():
            self.assertEqual(len(tables[kind]), n)
            for table in tables[kind]:
                self.check_rows(table, figures_of)
        shown = {cell.get("data-key") for cell in tables["figures"][0]["rows"][0]["cells"]} - {None}
        of_json = {key for key, value in printed["all"]["total"].items() if key not in ("batches", "positions")}
        self.assertEqual(shown, of_json)
        for kind in ("positions", "batches"):
            (table,) = tables[kind]
            bins = iter([bin for target in targets.values() for bin in target["total"][kind]])
            self.check_rows(table, lambda row: next(bins))
            self.assertIsNone(next(bins, None))
        self.assertEqual(len(tables["calls"]), 3)
        for table in tables["calls"]:
            for row, layer in zip(table["rows"][1:], targets[table["data-target"]]["layers"], strict=True):
                self.assertEqual([int(cell["text"]) for cell in row["cells"]], [layer["layer"], *layer["calls"]])

    def test_the_colours_of_the_maps_are_the_shares(self):
        printed, page = self.profile(self.usual_texts())
        targets = {"all": printed["all"], **{str(d): domain for d, domain in enumerate(printed["domains"])}}
        fair = lambda target: [[n * len(l["calls"]) / l["calls_total"] for n in l["calls"]] for l in target["layers"]]
        most = max(1, *(share for target in targets.values() for row in fair(target) for share in row))
        of_all = fair(printed["all"])
        differences = {name: [[s - a for s, a in zip(*rows)] for rows in zip(fair(target), of_all)]
                       for name, target in targets.items()}  # fmt: skip
        widest = max(abs(value) for rows in differences.values() for row in rows for value in row)
        maps = page.images["heat"]
        self.assertEqual([m["data-kind"] for m in maps], ["share"] + ["share", "difference"] * 2)
        for image in maps:
            rows, n_colours = pixels_of(image["href"])
            self.assertEqual(n_colours, ONE_SIDED + 1)
            is_share = image["data-kind"] == "share"
            values = fair(targets[image["data-target"]]) if is_share else differences[image["data-target"]]
            for row, of_layer in zip(rows, values, strict=True):
                for pixel, value in zip(row, of_layer, strict=True):
                    wanted = ONE_SIDED * (value / most) ** 0.5 if is_share else TWO_SIDED * (1 + value / widest)
                    self.assertLessEqual(abs(pixel - wanted), 0.5 + 1e-6)

    def test_it_needs_nothing_else_and_is_the_same_again(self):
        data = self.usual_texts()
        _, page = self.profile(data)
        first = self.text
        self.profile(data)
        self.assertEqual(self.text, first)
        self.assertIsNone(re.search(r"https?:", self.text))
        for tag, attributes in page.tags:
            self.assertNotIn(tag, ("link", "iframe", "object", "embed", "base", "form"))
            for name, value in attributes.items():
                self.assertFalse(name.startswith("on"), f"{tag} {name}")
                if name in ("src", "href", "action"):
                    self.assertRegex(value, r"^(#[a-z]+|data:image/png;base64,[A-Za-z0-9+/=]+)$")
        (code,) = [script for script in page.scripts if "type" not in script]
        digest = base64.b64encode(hashlib.sha256(code["text"].encode()).digest()).decode()
        policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
        self.assertIn(f"script-src 'sha256-{digest}'", policy, "kContentPolicy of profile_page_assets.cc")
        self.assertIn("default-src 'none'", policy)

    def test_who_does_not_see_it_can_read_it(self):
        _, page = self.profile(self.usual_texts())
        self.assertEqual(len(page.ids), len(set(page.ids)))
        targets = {a["href"][1:] for tag, a in page.tags if tag == "a"}
        self.assertGreater(len(targets), 6)
        self.assertLessEqual(targets, set(page.ids))
        for tag, attributes in page.tags:
            if tag == "svg" and attributes.get("aria-hidden") != "true":
                self.assertEqual(attributes["role"], "img")
                for name in attributes["aria-labelledby"].split():
                    self.assertIn(name, page.ids)
        self.assertTrue(all(table["caption"] for table in page.tables))
        self.assertEqual(sum(tag == "h1" for tag, _ in page.tags), 1)
        self.assertEqual(sum(tag == "figure" for tag, _ in page.tags), sum(tag == "figcaption" for tag, _ in page.tags))
        self.assertIn(("html", {"lang": "en"}), page.tags)
        for part in ("prefers-color-scheme: dark", "@media print"):
            self.assertTrue(part in self.text, part)

    def test_names_are_text_whatever_they_are(self):
        data = self.folder()
        for name in ("a", HOSTILE.replace("/", "")):
            (data / f"{name}.txt").write_text((TEXTS / "math.txt").read_text()[:1500])
        printed, page = self.profile(data)
        self.assertIn(HOSTILE.replace("/", ""), [domain["name"] for domain in printed["domains"]])
        self.assertEqual(page.report(), printed)
        self.assertFalse("<script>alert" in self.text)
        self.assertEqual(len(page.scripts), 2)
        shown = "&lt;script&gt;alert(1)&lt;script&gt; &amp; &quot;x&quot; &#39;y&#39; \ufffd"
        self.assertTrue(shown in self.text)
        before_json = self.text[: self.text.index('<script type="application/json"')]
        self.assertFalse("\u202e" in before_json)

    def test_drift_one_domain_and_a_policy(self):
        saved = self.folder() / "saved.json"
        _, page = self.profile(self.texts(math=(TEXTS / "math.txt").read_text()[:2000]), "--save", saved)
        self.assertNotIn("drift", page.ids)
        self.assertTrue("With one domain there are none" in self.text)
        self.assertTrue("the model&#39;s own routing" in self.text)
        _, page = self.profile(self.usual_texts(), "--against", saved, "--steer", "k=1")
        self.assertIn("drift", page.ids)
        self.assertIn("layer-drift-title", page.ids)
        self.assertIn("experts_per_token", self.text[: self.text.index("<nav")])
        self.assertTrue("There are no such pairs" in self.text)

    def test_wrong_paths(self):
        data, folder = self.usual_texts(300), self.folder()
        profile = ["profile", DEMO, "--data", data, "--html"]
        self.check(soli(*profile, folder / "no" / "x.html"), ERROR, "no")
        self.check(soli(*profile, folder), ERROR, folder)
        self.check(soli(*profile, DEMO), ERROR, "--html", "it is the model")
        text = (data / "math.txt").read_text()
        self.check(soli(*profile, data / "math.txt"), ERROR, "--html", "--data reads", "would be written over")
        self.assertEqual((data / "math.txt").read_text(), text)
        out = folder / "x"
        self.check(soli(*profile, out, "--out-csv", out), ERROR, "--html", "--out-csv", "would be written over")
        self.check(soli(*profile, out, "--save", out), ERROR, "--save", "--html", "would be written over")
        saved = folder / "saved.json"
        self.run_ok(*profile[:-1], "--save", saved)
        self.check(soli(*profile, saved, "--against", saved), ERROR, "--html", "--against reads")
        self.check(soli(*profile, "/dev/full"), ERROR, "/dev/full")
        self.assertIn("--html", self.run_ok("profile", "--help").text)
        self.assertIn("--html", self.run_ok("completion", "bash").text)


if __name__ == "__main__":
    main()
