"""`soli bench`: what it counts agrees with `soli inspect`, and what cannot be measured is refused."""

import subprocess

from program import DEMO, DONE, ERROR, GOLDEN, INTERRUPTED, USAGE, CliTest
from program import environment, interrupt_when_handled, main, program, soli

DENSE = GOLDEN / "qwen3-dense" / "model.gguf"
SHORT = ["--generate", "3", "--repetitions", "2"]
ARITHMETICS = ("f32", "bf16", "int8")
QUICK = [*SHORT, "--prompt", "5,9", "--sequences", "1,4"]
RATES = ["bytes_per_s", "operations_per_s", "bandwidth_share", "peak_share"]  # of a phase: these do not add up
PROMPT_TOKENS = 16  # of a sequence that decodes


class BenchTest(CliTest):
    def bench(self, model, *arguments):
        return self.run_ok("bench", model, *arguments, "--json").json

    def inspect(self, model):
        return self.run_ok("inspect", model, "--json", "--tensors").json

    def all_experts(self):
        """A model of which every token calls every expert."""
        path = self.folder() / "all.gguf"
        arguments = ["--experts", "4", "--experts-per-token", "4", "--type", "Q8_0"]
        self.run_ok("synth", "--preset", "tiny", *arguments, "-o", path)
        return path

    def test_json(self):
        shown = self.bench(DEMO, *QUICK, "-t", "2", "--act", "f32", "--kv", "f32")
        self.assertEqual(shown["soli"], self.run_ok("--version").text.split()[1])
        self.assertEqual((shown["model"], shown["architecture"]), (str(DEMO), "qwen3moe"))
        self.assertEqual(shown["file_bytes"], DEMO.stat().st_size)
        self.assertEqual((shown["threads"], shown["activations"], shown["kv"]), (2, "f32", "f32"))
        self.assertEqual(shown["repetitions"], 2)
        self.assertGreater(shown["load_s"], 0)
        self.assertEqual([entry["tokens"] for entry in shown["prefill"]], [5, 9])
        self.assertEqual([entry["sequences"] for entry in shown["decode"]], [1, 4])
        self.assertIsNone(shown["ceilings"])
        self.assertIsNone(shown["void"])
        self.assertEqual(shown["probe"], [])
        for entry in shown["prefill"] + shown["decode"]:
            figure = entry["tokens_per_s"]
            self.assertGreater(figure["min"], 0)
            self.assertLessEqual(figure["min"], figure["median"])
            self.assertLessEqual(figure["median"], figure["max"])
        for entry in shown["decode"]:
            self.assertEqual((entry["prompt"], entry["generate"]), (PROMPT_TOKENS, 3))
            for name in ("min", "median", "max"):
                total = entry["steps_per_s"][name] * entry["sequences"]
                self.assertAlmostEqual(entry["tokens_per_s"][name], total, delta=1e-6 * total)

    def test_bytes_and_operations_where_every_weight_takes_part(self):
        for model in (DENSE, self.all_experts()):
            with self.subTest(model=model):
                inspected = self.inspect(model)
                shape = inspected["shape"]
                tensors = {tensor["name"]: tensor for tensor in inspected["tensors"]}
                embedding_row = tensors["token_embd.weight"]["bytes"] // shape["vocabulary"]
                matrices = [tensor for tensor in tensors.values() if len(tensor["dimensions"]) > 1]
                head = shape["hidden_size"] * shape["vocabulary"]
                weights = sum(self.elements(tensor) for tensor in matrices)
                weights -= head if "output.weight" in tensors else 0  # the embedding is no product
                shown = self.bench(model, *QUICK)
                for entry in shown["decode"]:
                    n = entry["sequences"]
                    self.assertEqual(
                        entry["touched_bytes_per_step"],
                        inspected["active_per_token"]["bytes"] + (n - 1) * embedding_row,
                    )
                    positions = sum(PROMPT_TOKENS + 1 + step for step in range(3)) / 3  # the step's own included
                    self.assertEqual(
                        entry["kv_bytes_per_step"], n * positions * inspected["kv_bytes_per_position"]["f16"]
                    )
                for entry in shown["prefill"]:  # the head sees the last token only
                    n = entry["tokens"]
                    self.assertAlmostEqual(entry["operations_per_token"], 2 * (weights - head + head / n), places=6)

    @staticmethod
    def elements(tensor):
        product = 1
        for dimension in tensor["dimensions"]:
            product *= dimension
        return product

    def test_the_experts_of_a_step_count_once(self):
        active = self.inspect(DEMO)["active_per_token"]["bytes"]
        everything = self.inspect(DEMO)["nominal"]["bytes"]
        one, many = (entry["touched_bytes_per_step"] for entry in self.bench(DEMO, *QUICK)["decode"])
        self.assertEqual(one, active)
        self.assertGreater(many, one)
        self.assertLess(many, min(4 * one, everything))

    def test_the_work_is_the_same_in_every_run_and_chunking(self):
        def counted(*arguments):
            work = ["--generate", "3", "--prompt", "none", "--sequences", "4", *arguments]
            (entry,) = self.bench(DEMO, *work)["decode"]
            return entry["touched_bytes_per_step"], entry["kv_bytes_per_step"]

        expected = counted("--repetitions", "2", "-t", "1")
        self.assertEqual(counted("--repetitions", "2", "-t", "2"), expected)
        self.assertEqual(counted("--repetitions", "1"), expected)
        # Sequences that are ready wait for no prompt: they are further on when the last one has been read.
        self.assertGreater(counted("--repetitions", "1", "-b", "4")[1], expected[1])

    def probed(self, model, *arguments):
        """Whether shares are to be believed depends on what else this machine does; the counts do not."""
        outcome = soli("bench", model, *arguments, "--probe", "--seconds", "0.02", "--json")
        shown = outcome.json
        self.check(outcome, DONE if shown["void"] is None else ERROR)
        self.assertEqual("the figures are void" in outcome.message, shown["void"] is not None)
        return shown

    def test_phases_add_up_to_the_step(self):
        for model in (DENSE, DEMO, self.all_experts()):
            with self.subTest(model=model):
                shown = self.probed(model, *QUICK)
                kinds = [(entry["work"], entry.get("tokens", entry.get("sequences"))) for entry in shown["probe"]]
                self.assertEqual(kinds, [("prefill", 5), ("prefill", 9), ("decode", 1), ("decode", 4)])
                for entry in shown["probe"]:
                    *phases, step = entry["per_step"]
                    names = [phase["phase"] for phase in phases]
                    self.assertEqual(names, ["attention", "router", "experts", "head", "other"])
                    self.assertEqual((step["phase"], step["time_share"]), ("step", 1))
                    for name in step.keys() - {"phase", *RATES}:
                        total = sum(phase[name] for phase in phases)
                        self.assertAlmostEqual(total, step[name], delta=1e-9 * step[name], msg=name)

    def test_probe_and_figures_count_the_same(self):
        shown = self.probed(DEMO, *QUICK)
        repetitions = shown["repetitions"]
        for figures, entry in zip(shown["prefill"], shown["probe"][:2]):
            step = entry["per_step"][-1]
            self.assertEqual(entry["steps"], repetitions)
            positions = range(1, figures["tokens"] + 1)
            attended = sum(2 * 4 * 4 * (64 + 64) * n for n in positions)  # 4 layers, 4 heads of 64
            operations = sum(step[f"{kind}_operations"] for kind in ARITHMETICS) - attended
            self.assertEqual(operations, figures["tokens"] * figures["operations_per_token"])
        for figures, entry in zip(shown["decode"], shown["probe"][2:]):
            step = entry["per_step"][-1]
            self.assertEqual(entry["steps"], repetitions * figures["generate"])
            self.assertAlmostEqual(step["weight_bytes"], figures["touched_bytes_per_step"], delta=0.5)
            self.assertEqual(step["kv_bytes"], figures["kv_bytes_per_step"])

    def test_shares_are_of_the_ceilings_of_the_run(self):
        shown = self.probed(DEMO, *QUICK)
        ceilings = shown["ceilings"]
        for name in ("read_bytes_per_s", *(f"{kind}_operations_per_s" for kind in ARITHMETICS)):
            medians = [ceilings[when][name]["all_threads"]["median"] for when in ("before", "after")]
            self.assertEqual(ceilings[name], max(medians))
        for entry in shown["probe"]:
            for phase in entry["per_step"]:
                seconds = phase["seconds"]
                moved = (phase["weight_bytes"] + phase["kv_bytes"]) / seconds if seconds else 0
                self.assertAlmostEqual(phase["bandwidth_share"], moved / ceilings["read_bytes_per_s"])
                at_peak = sum(
                    phase[f"{kind}_operations"] / ceilings[f"{kind}_operations_per_s"] for kind in ARITHMETICS
                )
                self.assertAlmostEqual(phase["peak_share"], at_peak / seconds if seconds else 0)
        most = max(phase[f"{kind}_share"] for entry in shown["probe"] for phase in entry["per_step"]
                   for kind in ("bandwidth", "peak"))  # fmt: skip
        if most > 1:
            self.assertIn(" % of the ", shown["void"])

    def test_text_of_the_probe(self):
        outcome = soli("bench", DEMO, *QUICK, "--probe", "--seconds", "0.01")
        for part in ("ceilings", "before", "after", "prefill 5", "decode of 4", "router", "head", "step", "share"):
            self.assertIn(part, outcome.text)
        self.assertEqual("VOID: " in outcome.text, outcome.status == ERROR, outcome.text)

    def test_watching(self):
        shown = self.bench(DEMO, "--watching", "--pairs", "5")
        self.assertEqual((shown["model"], shown["isa"]), (str(DEMO), self.bench(DEMO, *QUICK)["isa"]))
        watching = shown["watching"]
        self.assertEqual((watching["pairs"], watching["block_tokens"], watching["confidence"]), (5, 32, 0.95))
        self.assertLess(0, watching["time_ratio_low"])
        self.assertLessEqual(watching["time_ratio_low"], watching["time_ratio"])
        self.assertLessEqual(watching["time_ratio"], watching["time_ratio_high"])
        for name in ("with_tokens_per_s", "without_tokens_per_s"):
            self.assertLess(0, watching[name]["min"])
            self.assertLessEqual(watching[name]["min"], watching[name]["median"])
        text = self.run_ok("bench", DEMO, "--watching", "--pairs", "2", "-c", "90").text
        parts = ("time with / without", "95 % confidence", "2 pairs of 32 tokens", "with the recorder")
        for part in (str(DEMO), *parts):
            self.assertIn(part, text)

    def test_the_watcher_may_be_the_meter_of_experts(self):
        for watcher in ("recorder", "meter"):
            with self.subTest(watcher=watcher):
                arguments = ("bench", DEMO, "--watching", "--watcher", watcher, "--pairs", "2")
                self.assertEqual(self.run_ok(*arguments, "--json").json["watching"]["watcher"], watcher)
                self.assertIn(f"tokens/s with the {watcher} ", self.run_ok(*arguments).text)
        self.check(soli("bench", DEMO, "--watcher", "meter"), USAGE, "--watcher requires --watching")
        wrong = soli("bench", DEMO, "--watching", "--watcher", "me")
        self.check(wrong, USAGE, "--watcher: 'me' is not one of recorder,meter")

    def test_watching_needs_experts_and_room(self):
        self.check(soli("bench", DENSE, "--watching"), ERROR, "--watching", "dense")
        self.check(soli("bench", DEMO, "--watching", "-c", "60"), ERROR, "--watching", "82 positions", "room for 60")
        self.check(soli("bench", DEMO, "--pairs", "9"), USAGE, "--pairs requires --watching")
        self.check(soli("bench", DEMO, "--watching", "--pairs", "1"), USAGE, "--pairs: '1' is not a whole number")
        for other in ("--prompt=9", "--sequences=1", "--generate=9", "--repetitions=2", "--probe"):
            self.check(soli("bench", DEMO, "--watching", other), USAGE, "excludes")

    def test_text(self):
        text = self.run_ok("bench", DEMO, *QUICK).text
        for part in (str(DEMO), "prefill, tokens", "decode, at once", "steps/s", "GB/s", "prompt of 16 tokens"):
            self.assertIn(part, text)

    def test_parts_can_be_left_out(self):
        shown = self.bench(DEMO, *SHORT, "--prompt", "none", "--sequences", "1,2")
        self.assertEqual((len(shown["prefill"]), len(shown["decode"])), (0, 2))
        shown = self.bench(DEMO, *SHORT, "--prompt", "7", "--sequences", "none")
        self.assertEqual((len(shown["prefill"]), len(shown["decode"])), (1, 0))
        self.check(soli("bench", DEMO, "--prompt", "none", "--sequences", "none"), ERROR, "--prompt", "--sequences")

    def test_defaults_that_do_not_fit_are_left_out_and_said(self):
        outcome = self.run_ok("bench", DEMO, "--repetitions", "1", "--generate", "2", "-b", "16", "--json")
        self.assertEqual([entry["tokens"] for entry in outcome.json["prefill"]], [64])
        self.assertEqual([entry["sequences"] for entry in outcome.json["decode"]], [1, 8])
        self.assertIn("left out --prompt 512: with its first token, the context has room for 256", outcome.message)
        self.assertIn("left out --sequences 32: a step has room for 16 rows", outcome.message)

    def test_wrong_lists(self):
        for flag in ("--prompt", "--sequences"):
            for value in ("0", "-3", "abc", "", "1,", "1,,2", "1.5", "1 2", "none,1", "9999999999"):
                with self.subTest(flag=flag, value=value):
                    part = next(p for p in value.split(",") if not p.isdecimal() or not 0 < int(p) < 1e9)
                    self.check(soli("bench", DEMO, flag, value), USAGE, f"{flag}: '{part}' is not a whole number")
        self.check(soli("bench", DEMO, "--prompt", ",".join(["1"] * 65)), USAGE, "at most 64")
        self.check(soli("bench", DEMO, "--seconds", "1"), USAGE, "--seconds requires --probe")
        for flag in ("--generate", "--repetitions"):
            for value in ("0", "-1", "x", "1,2"):
                self.check(soli("bench", DEMO, flag, value), USAGE, f"{flag}: '{value}' is not a whole number")

    def test_what_the_model_has_no_room_for(self):
        self.check(soli("bench", DEMO, "--prompt", "9,256"), ERROR, "--prompt 256", "room for 256", "-c")
        self.check(soli("bench", DEMO, "--sequences", "600"), ERROR, "--sequences 600", "room for 512", "-b")
        self.check(soli("bench", DEMO, "--generate", "250", "--prompt", "9"), ERROR, "--generate 250", "256 (-c)")
        self.check(soli("bench", DEMO, *QUICK, "--memory", "20MiB"), ERROR, "--memory", "are needed")
        self.check(soli("bench", "/nowhere.gguf"), ERROR, "/nowhere.gguf")

    def test_interrupt(self):
        many = ["--repetitions", "10000"]
        for work in (
            ["--prompt", "200", "--sequences", "none", *many],
            ["--prompt", "none", "--sequences", "2", *many],
            ["--watching", "--pairs", "100000"],
        ):
            command = [program(), "bench", str(DEMO), *work]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            out, err = interrupt_when_handled(child, delay_s=0.1)
            self.assertEqual((child.returncode, out), (INTERRUPTED, b""), err)
            self.assertTrue(err.endswith(b"soli: interrupted\n"), err)


if __name__ == "__main__":
    main()
