"""`soli profile`: every figure of a report equals a recount from the trace of the same run."""

import json
import sqlite3
import subprocess
import sys

from program import DEMO, GOLDEN, ROOT, CliTest, main

RECOUNT = ROOT / "tests" / "observe" / "recount_profile.py"
TEXTS = ROOT / "tests" / "data"


class RecountTest(CliTest):
    def setUp(self):
        self.work = self.folder()
        self.report, self.trace = self.work / "report.json", self.work / "trace.sqlite"

    def texts(self, n_characters, begin=0):
        folder = self.folder()
        for name in ("code_python", "math", "prose_en"):
            (folder / f"{name}.txt").write_text((TEXTS / f"{name}.txt").read_text()[begin : begin + n_characters])
        return folder

    def profile(self, model, data, *arguments):
        outcome = self.run_ok("profile", model, "--data", data, "--json", "--trace", self.trace, "--trace-overwrite",
                              *arguments)  # fmt: skip
        self.report.write_bytes(outcome.out)
        return outcome.json

    def recount(self, status, *arguments):
        command = [sys.executable, "-B", RECOUNT, self.report, self.trace, *arguments]
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def test_every_figure(self):
        self.profile(DEMO, self.texts(1500), "--window", "64", "--trace-logits")
        self.assertIn("all agree", self.recount(0))

    def test_one_domain_of_another_family_and_a_choice_that_is_steered(self):
        data = self.texts(600)
        for path in ("math.txt", "prose_en.txt"):
            (data / path).unlink()
        self.profile(GOLDEN / "mixtral" / "model.gguf", data, "--window", "40", "--trace-logits")
        self.recount(0)
        self.profile(DEMO, self.texts(600), "--steer", "relative_threshold=0.4", "--window", "50", "--parallel", "1")
        self.assertIn("none of logits", self.recount(0))

    def test_drift(self):
        saved = self.work / "saved.json"
        self.run_ok("profile", DEMO, "--data", self.texts(500, 2000), "--save", saved)
        self.profile(DEMO, self.texts(500), "--against", saved)
        self.recount(0, "--against", saved)
        self.assertIn("drift_bits", self.recount(1))

    def test_another_trace_and_other_figures_are_found(self):
        report = self.profile(DEMO, self.texts(400), "--window", "64")
        report["all"]["layers"][1]["stability"] *= 1 + 1e-6
        report["domains"][0]["total"]["batches"][2]["batches"] += 1
        self.report.write_text(json.dumps(report))
        found = self.recount(1)
        self.assertIn("report.all.layers[1].stability", found)
        self.assertIn("report.domains[0].total.batches[2].batches", found)
        self.assertIn("2 differ", found)
        self.report.write_text(json.dumps({"format": "x"}))
        self.recount(2)

    def test_the_trace_says_which_window_of_which_domain_a_request_was(self):
        report = self.profile(DEMO, self.texts(400), "--window", "64")
        rows = sqlite3.connect(self.trace).execute("SELECT * FROM windows ORDER BY request").fetchall()
        self.assertEqual(len(rows), report["all"]["windows"])
        counts = {domain["name"]: domain["windows"] for domain in report["domains"]}
        for name, n in counts.items():
            self.assertEqual([row[2] for row in rows if row[1] == name], list(range(n)))
        self.assertEqual({row[3] for row in rows}, {1})  # BOS is not counted
        self.run_ok("trace", "stats", self.trace)
        # Another command has no windows.
        self.run_ok("run", DEMO, "-p", "a", "-n", "1", "--trace", self.trace, "--trace-overwrite")
        tables = sqlite3.connect(self.trace).execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        self.assertNotIn(("windows",), tables)


if __name__ == "__main__":
    main()
