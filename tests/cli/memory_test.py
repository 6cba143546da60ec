"""Models larger than their memory: the same text, what is told about it, and what is refused."""

import json
import re
import unittest

from program import DEMO, DONE, ERROR, GOLDEN, USAGE, CliTest, main, soli

PROMPT = ["-p", "The captain looked at the sea", "-n", "40", "--temp", "0", "-c", "128"]
MIXED = GOLDEN / "qwen3moe-mix-q4_k_m" / "model.gguf"  # experts of several forms


def least_of(model, *arguments):
    message = soli("run", model, *arguments, "--memory", "1MiB").message
    return int(re.search(r"at least (\d+)B", message).group(1))


class TiersTest(CliTest):
    def run_json(self, *arguments):
        return self.run_ok("run", DEMO, *PROMPT, "--json", *arguments).json

    def test_any_memory_gives_the_same_tokens(self):
        whole = self.run_json()
        self.assertTrue(whole["memory"]["all_in_memory"])
        least = least_of(DEMO, *PROMPT)
        for more in (0, 2 << 20, 6 << 20):
            for prefetch in ("off", "always", "auto"):
                with self.subTest(more=more, prefetch=prefetch):
                    part = self.run_json("--memory", f"{least + more}B", "--prefetch", prefetch)
                    self.assertFalse(part["memory"]["all_in_memory"])
                    self.assertLess(part["memory"]["slots"], part["memory"]["experts"])
                    self.assertLessEqual(part["memory"]["planned_bytes"], least + more)
                    self.assertEqual(part["tokens"], whole["tokens"])
                    self.assertLessEqual(sum(part["memory_in_use_bytes"].values()), least + more)

    def test_every_policy_and_layer_count(self):
        tokens = self.run_json()["tokens"]
        least = least_of(DEMO, *PROMPT)
        for policy in ("auto", "lru", "lfu", "least-stale", "shares"):
            run = self.run_json("--memory", f"{least + (4 << 20)}B", "--cache-policy", policy, "--prefetch-layers", 2)
            self.assertEqual(run["tokens"], tokens)
            self.assertEqual(run["memory"]["policy"], policy)

    def test_the_report_counts(self):
        least = least_of(DEMO, *PROMPT)
        run = self.run_json("--memory", f"{least + (4 << 20)}B", "--memory-report", "--routing", "--io-depth", 3)
        report = run["memory_report"]
        total = report["total"]
        self.assertEqual(report["tokens"], run["computed_tokens"])
        self.assertEqual(run["memory"]["io_depth"], 3)
        self.assertEqual(total["calls"], total["hits"] + total["late_prefetches"] + total["demand_misses"])
        for key in ("calls", "hits", "demand_misses", "demanded_bytes"):
            self.assertEqual(total[key], sum(layer[key] for layer in report["layers"]), key)
        self.assertGreater(total["demand_misses"], 0)
        self.assertLessEqual(report["hit_rate"], report["belady_hit_rate"] + 1e-9)
        text = self.run_ok("run", DEMO, *PROMPT, "--memory", f"{least + (4 << 20)}B", "--memory-report")
        self.assertIn("Memory report", text.text)
        self.assertIn("a cache that knew the future", text.text)
        self.assertIn("slots for 64 experts", text.message)

    def test_a_report_without_tiers_says_so(self):
        self.assertIsNone(self.run_json("--memory-report")["memory_report"])
        text = self.run_ok("run", DEMO, *PROMPT, "--memory-report").text
        self.assertIn("all weights are in memory", text)

    def test_experts_of_several_forms(self):
        ids = ["--token-ids", "1,2,3,4,5,6,7,8", "-c", "64"]
        outcome = soli("logits", MIXED, *ids, "--out", "/dev/null", "--memory", "1MiB")
        least = re.search(r"at least (\d+B)", self.check(outcome, ERROR).message).group(1)
        folder = self.folder()
        self.run_ok("logits", MIXED, *ids, "--out", folder / "whole")
        self.run_ok("logits", MIXED, *ids, "--out", folder / "part", "--memory", least)
        self.assertEqual((folder / "whole").read_bytes(), (folder / "part").read_bytes())

    def test_bench_tells_what_was_read(self):
        least = least_of(DEMO, *PROMPT)
        arguments = ["--prompt", "16", "--sequences", "1,4", "--generate", "8", "--repetitions", "1", "-c", "128"]
        bench = self.run_ok("bench", DEMO, *arguments, "--memory", f"{least + (8 << 20)}B", "--json").json
        self.assertFalse(bench["memory"]["all_in_memory"])
        for figures in bench["decode"]:
            self.assertGreater(figures["disk_bytes_per_step"], 0)
            self.assertLess(figures["expert_hit_rate"], 1)
        text = self.run_ok("bench", DEMO, *arguments, "--memory", f"{least + (8 << 20)}B").text
        self.assertIn("experts from the disk", text)

    def test_sweep_of_a_model_and_of_a_trace(self):
        folder = self.folder()
        arguments = ["--memory-sweep", "--generate", "6", "-c", "128", "--json"]
        outcome = self.run_ok("bench", DEMO, *arguments, "--svg", folder / "sweep.svg")
        points = outcome.json["points"]
        self.assertEqual({point["policy"] for point in points}, {"auto", "lru", "lfu", "least-stale", "shares"})
        self.assertEqual(points[-1]["slot_share"], 1)
        self.assertEqual(points[-1]["hit_rate"], 1)
        self.assertEqual(points[-1]["bytes_per_token"], 0)
        self.assertLess(points[0]["hit_rate"], 1)
        self.assertTrue(all(point["tokens_per_s"] > 0 for point in points))
        self.assertIn("</svg>", (folder / "sweep.svg").read_text())
        least = least_of(DEMO, *PROMPT)
        self.run_ok("run", DEMO, *PROMPT, "--memory", f"{least}B", "--access-trace", folder / "trace")
        replayed = self.run_ok("bench", DEMO, "--memory-sweep", "--replay", folder / "trace", "--json").json
        for bound in replayed["in_hindsight"]:
            for point in replayed["points"]:
                if point["slots"] == bound["slots"]:
                    self.assertLessEqual(point["hit_rate"], bound["belady_hit_rate"] + 1e-9)
        text = self.run_ok("bench", DEMO, "--memory-sweep", "--replay", folder / "trace", "--cache-policy", "lru").text
        self.assertIn("Belady", text)
        self.check(soli("bench", DEMO, "--memory-sweep", "--replay", DEMO), ERROR, DEMO)
        self.check(soli("run", DEMO, *PROMPT, "--access-trace", folder / "none"), ERROR, "--access-trace")
        self.check(soli("bench", DEMO, "--svg", folder / "x.svg"), USAGE, "--memory-sweep")
        self.check(soli("bench", DEMO, "--memory-sweep", "--generate", "1"), ERROR, "--generate 1", "needs 2")

    def test_heat_is_saved_and_warms_up(self):
        heat = self.folder() / "heat.json"
        memory = f"{least_of(DEMO, *PROMPT) + (4 << 20)}B"
        arguments = ["run", DEMO, *PROMPT, "--memory", memory, "--heat", heat, "--json"]
        first = self.check(soli(*arguments), DONE, "is not there yet")
        saved = json.loads(heat.read_text())
        self.assertEqual((saved["format"], saved["n_layers"], saved["n_experts"]), ("soli-heat", 4, 16))
        second = self.check(soli(*arguments, "--memory-report"), DONE, "hottest experts read")
        self.assertEqual(first.json["tokens"], second.json["tokens"])
        heat.write_text(heat.read_text().replace("soli-heat", "other"))
        self.check(soli(*arguments), ERROR, heat, "format")
        self.check(soli("run", DEMO, *PROMPT, "--heat", heat), DONE, "all experts are in memory")
        self.check(soli("run", DEMO, *PROMPT, "--heat", DEMO), ERROR, "it is the model")

    def test_lossy_ways_are_labelled_and_measured(self):
        folder = self.folder()
        for name, kind, seed in (("model", "F32", 3), ("twin", "Q4_0", 3), ("stranger", "Q4_0", 4)):
            arguments = ["--preset", "tiny", "--experts", 32, "--type", kind, "--seed", seed]
            self.run_ok("synth", *arguments, "-o", folder / f"{name}.gguf")
        model, twin = folder / "model.gguf", folder / "twin.gguf"
        text = folder / "text"
        text.write_text("some words that follow one another, and others that do not " * 20)
        arguments = ["--text", text, "--window", 64, "--max-tokens", 300, "-b", 1, "--parallel", 1]
        message = self.check(soli("eval", model, *arguments, "--memory", "1MiB"), ERROR).message
        memory = ["--memory", f"{int(re.search(r'at least ([0-9]+)B', message).group(1)) + (1 << 20)}B"]
        exact = self.run_ok("eval", model, *arguments, *memory, "--json").json
        self.assertTrue(exact["memory"]["exact"])
        for lossy in (["--prefer-cached", 2], ["--twin", twin], ["--prefer-cached", 2, "--twin", twin]):
            with self.subTest(lossy=lossy):
                outcome = self.run_ok("eval", model, *arguments, *memory, *lossy, "--against", "exact", "--json")
                self.assertIn("LOSSY", outcome.message)
                result = outcome.json
                self.assertFalse(result["memory"]["exact"])
                self.assertAlmostEqual(result["exact"]["nats_per_token"], exact["nats_per_token"], places=12)
                self.assertEqual(result["divergence"]["positions"], result["tokens"])
                self.assertGreater(result["divergence"]["mean_kl"], 0)
                self.assertGreaterEqual(result["divergence"]["largest_kl"], result["divergence"]["p99_kl"])
                self.assertGreater(result["divergence"]["top_agreement"], 0.5)
                self.assertLess(result["expert_bytes_read"], result["exact"]["expert_bytes_read"])
                self.assertEqual(result["moved_share"] > 0, "--prefer-cached" in lossy)
                if "--prefer-cached" not in lossy:  # which may leave nothing to twins
                    self.assertGreater(result["twin_share"], 0)
        ids = ["--token-ids", "1,2,3", "-c", 64, "-b", 1, "--greedy", 4]
        stranger = ["--twin", folder / "stranger.gguf"]
        self.check(soli("logits", model, *ids, *memory, *stranger), ERROR, "not this model's")
        self.check(soli("logits", model, *ids, *memory, "--twin", DEMO), ERROR, DEMO, "is not a twin of")
        self.check(soli("logits", model, *ids, *memory, "--twin", model), ERROR, "no smaller")
        self.check(soli("logits", model, *ids, "--twin", folder / "none"), ERROR, "--twin", folder / "none")
        self.check(soli("logits", model, *ids, "--twin", twin), DONE, "the answers are exact")
        self.check(soli("eval", model, *arguments, "--against", "exact"), ERROR, "--against", "exact already")
        self.check(soli("eval", model, *arguments, "--prefer-cached", "0.5"), USAGE, "--prefer-cached")

    def test_wrong_options(self):
        wrong = {
            "--memory": ("automatic", "is not an amount of memory"),
            "--cache-policy": ("fifo", "is not one of auto,lru,lfu,least-stale,shares"),
            "--prefetch": ("sometimes", "is not one of auto,off,always"),
            "--prefetch-layers": ("3", "3"),
            "--io-depth": ("65", "65"),
        }
        for flag, (value, part) in wrong.items():
            with self.subTest(flag=flag):
                self.check(soli("run", DEMO, "-p", "x", flag, value), USAGE, flag, part)

    def test_auto_is_the_default_and_is_told(self):
        outcome = self.run_ok("run", DEMO, *PROMPT)
        self.assertRegex(outcome.message, r"memory: .* planned of .* \(nine tenths of what .* has left\)")
        self.check(soli("run", DEMO, *PROMPT, "--memory", "auto"), DONE, "nine tenths")


if __name__ == "__main__":
    main()
