"""`soli dissect`: its changes recounted with `soli eval` and policies, its errors and intervals with plain Python."""

import csv
import math
import subprocess

from program import DEMO, ERROR, GOLDEN, INTERRUPTED, ROOT, USAGE, CliTest, environment, interrupt_when_handled
from program import main, program, soli

DATA = ROOT / "tests" / "data"
WINDOWS = ["--window", "32", "--parallel", "4"]
SHORT = [*WINDOWS, "--max-tokens", "124"]
N_LAYERS, N_EXPERTS = 4, 16  # of the demo model


def student_t3(t):
    """Distribution function of Student's t with three degrees of freedom."""
    u = t / math.sqrt(3)
    return 0.5 + (u / (1 + u * u) + math.atan(u)) / math.pi


class DissectTest(CliTest):
    def texts(self):
        folder = self.folder()
        for name in ("code_python", "prose_en"):
            (folder / f"{name}.txt").write_bytes((DATA / f"{name}.txt").read_bytes()[:4000])
        return folder

    def dissect(self, *arguments):
        return self.run_ok("dissect", DEMO, *SHORT, *arguments, "--json").json

    def nats(self, text, policy, n_tokens=124):
        """Sum over the first tokens of a text as `soli eval` has it, steered by a policy file."""
        path = self.folder() / "policy.toml"
        path.write_text(policy)
        arguments = [*WINDOWS, "--max-tokens", n_tokens, "--policy", path, "--json"]
        result = self.run_ok("eval", DEMO, "--text", text, *arguments).json
        return result["nats_per_token"] * result["tokens"]

    def windows(self, text, policy):
        """Nats and tokens of each of the four windows: what each has more than those before it."""
        sums = [self.nats(text, policy, 31 * n) for n in range(1, 5)]
        return [a - b for a, b in zip(sums, [0] + sums[:-1])]

    def test_without_an_expert_of_a_layer(self):
        folder = self.texts()
        report = self.dissect("--data", folder)
        self.assertEqual(len(report["experts"]), N_LAYERS * N_EXPERTS)
        expert = report["experts"][2 * N_EXPERTS + 5]
        self.assertEqual((expert["layer"], expert["expert"]), (2, 5))
        text = folder / "prose_en.txt"
        exact = self.windows(text, "")
        without = self.windows(text, "[[layers]]\nlayers = 2\nmask = [5]\n")
        cell = expert["domains"][1]
        self.assertEqual(cell["name"], "prose_en")
        changes = [b - a for a, b in zip(exact, without)]
        self.assertAlmostEqual(cell["change"], sum(changes) / 124, places=9)
        residuals = [change - sum(changes) / 4 for change in changes]
        error = math.sqrt(sum(r * r for r in residuals) * 4 / 3) / 124
        self.assertAlmostEqual(cell["error"], error, places=9)
        tail = 1 - student_t3((cell["high"] - cell["change"]) / cell["error"])
        self.assertAlmostEqual(tail, 0.025 / (2 * N_LAYERS * N_EXPERTS), places=8)
        self.assertAlmostEqual(cell["high"] + cell["low"], 2 * cell["change"], places=9)

    def test_calls_are_those_of_the_model_as_it_is(self):
        report = self.dissect("--data", self.texts())
        for domain in range(2):
            for layer in range(N_LAYERS):
                experts = report["experts"][layer * N_EXPERTS : (layer + 1) * N_EXPERTS]
                calls = sum(expert["domains"][domain]["calls"] for expert in experts)
                self.assertEqual(calls, 2 * (124 + 4), "two experts for each position, BOS included")

    def test_nothing_but_an_expert_over_all_layers(self):
        folder = self.texts()
        report = self.dissect("--data", folder, "--over", "all", "--mode", "only")
        self.assertEqual([expert["layer"] for expert in report["experts"]], ["all"] * N_EXPERTS)
        others = [e for e in range(N_EXPERTS) if e != 3]
        policy = f"experts_per_token = 1\nmask = {others}\n"
        text = folder / "code_python.txt"
        change = (self.nats(text, policy) - self.nats(text, "")) / 124
        self.assertAlmostEqual(report["experts"][3]["domains"][0]["change"], change, places=9)
        self.assertNotIn("missed_by_nobody", report)

    def test_a_policy_is_kept_beside_it(self):
        folder = self.texts()
        text = folder / "prose_en.txt"
        steer = ["--steer", "mask=[1]", "--steer", "temperature=2"]
        report = self.dissect("--text", text, "--over", "all", *steer)
        base = "temperature = 2\nmask = [1]\n"
        change = (self.nats(text, "temperature = 2\nmask = [1, 4]\n") - self.nats(text, base)) / 124
        self.assertAlmostEqual(report["experts"][4]["domains"][0]["change"], change, places=9)
        self.assertEqual(report["experts"][1]["domains"][0]["change"], 0, "it was masked before")

    def test_the_tolerance_decides_who_is_missed(self):
        text = DATA / "prose_en.txt"
        everyone = self.dissect("--text", text, "--over", "all", "--tolerance", "100")
        nobody = self.dissect("--text", text, "--over", "all", "--tolerance", "0")
        self.assertEqual(len(everyone["missed_by_nobody"]), N_EXPERTS)
        missed = [e for e in nobody["experts"] if e["domains"][0]["high"] <= 0]
        self.assertEqual(len(nobody["missed_by_nobody"]), len(missed))
        needed = [e["expert"] for e in nobody["experts"] if e["domains"][0]["low"] > 0]
        self.assertEqual(sorted(e["expert"] for e in nobody["domains"][0]["needs"]), needed)

    def test_one_window_tells_nothing_for_certain(self):
        arguments = ["--text", DATA / "prose_en.txt", "--over", "all", "--max-tokens", "20", "--json"]
        report = self.run_ok("dissect", DEMO, *WINDOWS, *arguments).json
        self.assertEqual(report["domains"][0]["needs"], [])
        self.assertEqual(report["missed_by_nobody"], [])
        self.assertIsNone(report["experts"][0]["domains"][0]["error"])

    def test_csv_and_text_show_the_same(self):
        path = self.folder() / "losses.csv"
        arguments = ["dissect", DEMO, *SHORT, "--data", self.texts(), "--over", "all"]
        text = self.run_ok(*arguments, "--csv", path).text
        report = self.run_ok(*arguments, "--json").json
        with path.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        self.assertEqual(len(rows), 2 * N_EXPERTS)
        for row in rows:
            domain = 0 if row["domain"] == "code_python" else 1
            cell = report["experts"][int(row["expert"])]["domains"][domain]
            self.assertEqual((float(row["change"]), float(row["error"])), (cell["change"], cell["error"]))
            self.assertEqual(int(row["calls"]), cell["calls"])
        thousandths = [f"{1000 * e['domains'][1]['change']:.0f}" for e in report["experts"]]
        line = [line for line in text.splitlines() if line.startswith("prose_en")][-1]
        self.assertEqual([float(x) for x in line.split()[1:]], [float(x) for x in thousandths])

    def test_interrupted_domains_are_left_out(self):
        command = [program(), "dissect", str(DEMO), "--data", str(DATA), "--max-tokens", "100000", "--json"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        _, err = interrupt_when_handled(child)
        self.assertEqual(child.returncode, INTERRUPTED, err)
        self.assertIn(b"interrupted before the first domain", err)

    def test_refusals(self):
        text = DATA / "prose_en.txt"
        dense = GOLDEN / "llama-dense" / "model.gguf"
        self.check(soli("dissect", dense, "--text", text), ERROR, dense, "no layer with experts")
        self.check(soli("dissect", DEMO), USAGE, "--text FILE or --data DIR")
        self.check(soli("dissect", DEMO, "--text", text, "--mode", "with"), USAGE, "--mode", "without,only")
        self.check(soli("dissect", DEMO, "--text", text, "--over", "some"), USAGE, "--over", "layer,all")
        self.check(soli("dissect", DEMO, "--text", text, "--tolerance", "-1"), USAGE, "--tolerance")
        folder = self.folder()
        self.check(soli("dissect", DEMO, "--text", text, "--csv", folder), ERROR, folder)
        self.check(soli("dissect", DEMO, "--text", text, "--csv", DEMO), ERROR, DEMO)
        rest = ["--steer", f"mask={list(range(1, N_EXPERTS))}"]
        self.check(soli("dissect", DEMO, "--text", text, *rest), ERROR, "expert 0", "masked")


if __name__ == "__main__":
    main()
