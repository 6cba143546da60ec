"""What soli trace does with files that are no trace: each way to be none has an error of its own."""

import array
import math
import struct

from program import DEMO, ERROR, main, soli
from traces import GREEDY, Trace, TraceTest, change


def circling(data, levels=6, width=300):
    """A database whose list of tables goes on for ever, nearly: pages of it that all have the same page below them."""
    size = struct.unpack(">H", data[16:18])[0]
    n_pages = len(data) // size
    n_cells = struct.unpack(">H", data[103:105])[0]
    cells = struct.unpack(f">{n_cells}H", data[108 : 108 + 2 * n_cells])
    harmless = next(cell for cell in cells if b"sqlite_autoindex" in data[cell : cell + 60])

    def leaf(which):
        head = b"\x0d\0\0" + struct.pack(">HHB", len(which), min(cells), 0) + struct.pack(f">{len(which)}H", *which)
        return head.ljust(min(cells), b"\0") + data[min(cells) : size]

    def inner(children, begin=b""):
        last = children[-1]
        content = b"".join(struct.pack(">IB", child, 1 + i % 100) for i, child in enumerate(children[:-1]))
        first = size - len(content)
        n = len(children) - 1
        pointers = struct.pack(f">{n}H", *range(first, size, 5))
        head = begin + b"\x05\0\0" + struct.pack(">HHBI", n, first, 0, last) + pointers
        return head.ljust(first, b"\0") + content

    whole, rest, first_inner = n_pages + 1, n_pages + 2, n_pages + 3
    pages = [leaf(cells), leaf([harmless])]
    pages += [inner([first_inner + i + 1] * width) for i in range(levels - 1)] + [inner([rest] * width)]
    count = struct.pack(">I", n_pages + len(pages))
    return inner([whole] + [first_inner] * 5, data[:28] + count + data[32:100]) + data[size:] + b"".join(pages)


class HostileTest(TraceTest):
    def setUp(self):
        self.path = self.trace("run", DEMO, *GREEDY)

    def refused(self, path, *parts):
        export = ["export", path, "--format", "npz", "-o", self.folder() / "o"]
        for command in (["stats", path], ["show", path], export):
            outcome = self.check(soli("trace", *command), ERROR, path, *parts)
            self.assertLess(len(outcome.message), 2000)

    def changed(self, *statements):
        path = self.folder() / "changed"
        path.write_bytes(self.path.read_bytes())
        change(path, *statements)
        return path

    def test_files_that_are_no_database(self):
        folder = self.folder()
        (folder / "empty").write_bytes(b"")
        (folder / "text").write_text("x" * 5000)
        self.refused(folder / "none", "cannot open")
        self.refused(folder / "empty", "is empty")
        self.refused(folder / "text", "is no SQLite database")
        self.refused(folder, "directory")
        self.refused(DEMO, "is no SQLite database")

    def test_files_that_are_cut_or_damaged(self):
        data = self.path.read_bytes()
        cut = self.folder() / "cut"
        for size in (50, 100, 4096, len(data) // 2, len(data) - 32768):
            cut.write_bytes(data[:size])
            self.refused(cut)
        for offset in range(0, len(data), 4999):
            damaged = bytearray(data)
            damaged[offset : offset + 16] = b"\xff" * 16
            cut.write_bytes(damaged)
            outcome = soli("trace", "stats", cut)
            self.assertIn(outcome.status, (0, ERROR), f"offset {offset}: {outcome.message}")

    def test_databases_that_are_no_trace(self):
        self.refused(self.changed("DROP TABLE meta"), "no trace")
        self.refused(self.changed("DROP TABLE tokens"), "no table 'tokens'")
        self.refused(self.changed("DROP TABLE requests", "CREATE VIEW requests AS SELECT 1"), "no table 'requests'")
        self.refused(self.changed("ALTER TABLE tokens ADD COLUMN x"), "table 'tokens' is another")
        self.refused(self.changed("UPDATE meta SET value = 'x' WHERE key = 'format'"), "no trace")

    def test_other_versions_and_impossible_meta(self):
        def meta(key, value):
            return self.changed(("UPDATE meta SET value = ? WHERE key = ?", (value, key)))

        self.refused(meta("version", "2"), "a trace of version 2; this soli reads version 1")
        for key, value in (
            ("version", "x"), ("k", "0"), ("k", "17"), ("k", "1e3"), ("k", "99999999999999999999"),
            ("n_experts", "-1"), ("n_experts", "65536"), ("n_layers", "9"), ("logits", "2"), ("sample", "nan"),
            ("moe_layers", ""), ("moe_layers", "0,0"), ("moe_layers", "1,"), ("ended", "yes"), ("n_dropped", "-5"),
            ("moe_layers", ",".join(str(i) for i in range(5000))),
        ):
            self.refused(meta(key, value))
        self.refused(self.changed("DELETE FROM meta WHERE key = 'k'"), "meta has no 'k'")
        self.refused(meta("model", "x" * (2 << 20)), "too long")
        many = [("INSERT INTO meta VALUES (?, '')", (f"k{i}",)) for i in range(100)]
        self.refused(self.changed(*many), "too many rows")

    def test_rows_that_disagree_with_the_shape(self):
        where = " WHERE request = 1 AND position = 3"
        at = "request 1, position 3"
        size = len(Trace(self.path).layers) * Trace(self.path).k
        blob = lambda code, values: array.array(code, values).tobytes()
        n = Trace(self.path).n_experts
        for column, value, part in (
            ("ids", b"", at), ("ids", blob("h", [0] * (size + 1)), at), ("ids", "text", "not a blob"),
            ("ids", blob("h", [n] + [-1] * (size - 1)), f"expert {n} cannot be here"),
            ("ids", blob("h", [-2] + [-1] * (size - 1)), "expert -2"),
            ("ids", blob("h", [0, 0] + [-1] * (size - 2)), "expert 0 cannot be here"),
            ("ids", blob("h", [-1, 0] + [-1] * (size - 2)), "expert 0 cannot be here"),
            ("weights", b"x" * 7, at), ("weights", blob("f", [math.nan] * size), "not all finite"),
            ("token", -1, "token -1"), ("token", 1 << 40, at), ("token", "x", "not an integer"),
            ("cached", 7, "cached 7"), ("position", -1, "position -1"), ("position", 1 << 50, "cannot be"),
            ("request", -4, "request -4"),
        ):
            with self.subTest(column=column, value=value):
                self.refused(self.changed((f"UPDATE tokens SET {column} = ?" + where, (value,))), part)
        logits = self.changed(("UPDATE tokens SET logits = ?" + where, (b"abcd",)))
        self.run_ok("trace", "stats", logits)
        with_logits = "UPDATE meta SET value = '1' WHERE key = 'logits'"
        logits = self.changed(with_logits, ("UPDATE tokens SET logits = ?" + where, (b"abcd",)))
        self.check(soli("trace", "stats", logits), ERROR, f"{at}: logits have 4 bytes")
        self.refused(self.changed(("UPDATE tokens SET ids = zeroblob(20000000)" + where,)))

    def test_requests_that_cannot_be(self):
        path = self.changed("UPDATE requests SET n_prompt = -1")
        self.check(soli("trace", "stats", path), ERROR, path, "request 1 cannot be")
        path = self.changed("UPDATE requests SET policy = x'00'")
        self.check(soli("trace", "stats", path), ERROR, path, "policy of requests is a blob, not text")

    def test_what_a_view_or_a_trigger_would_do_is_not_done(self):
        path = self.changed("CREATE VIEW v AS SELECT * FROM tokens", "CREATE INDEX i ON tokens(token)")
        self.run_ok("trace", "stats", path)

    def test_a_tree_that_leads_in_circles_comes_to_an_end(self):
        path = self.folder() / "circling"
        path.write_bytes(circling(self.path.read_bytes()))
        self.refused(path, "takes far more steps to read than its size can need")

    def test_one_that_was_never_ended_says_so(self):
        path = self.changed("UPDATE meta SET value = '0' WHERE key = 'ended'")
        self.assertIn("still written, or its writer was killed", self.run_ok("trace", "stats", path).text)
        self.assertFalse(self.run_ok("trace", "stats", path, "--json").json["ended"])


if __name__ == "__main__":
    main()
