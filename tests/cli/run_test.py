"""`soli run` on the demo model: the text, its determinism, every option that changes it, and the routing report."""

import json
import os
import signal
import subprocess
import sys

from program import DEMO, ERROR, GOLDEN, INTERRUPTED, MIXTRAL, ROOT, CliTest
from program import environment, interrupt_when_handled, main, program, soli

PROMPT = "The captain looked at the sea and said"
GREEDY = ["-p", PROMPT, "-n", "24", "--temp", "0"]


class RunTest(CliTest):
    def json_of(self, *arguments):
        return self.run_ok("run", DEMO, *arguments, "--json").json

    def test_text_goes_to_stdout_and_timings_to_stderr(self):
        outcome = self.run_ok("run", DEMO, *GREEDY)
        self.assertRegex(outcome.message, r"\d+ prompt tokens in .* 24 generated .* loaded in .* peak memory")
        result = self.json_of(*GREEDY)
        self.assertEqual(outcome.text, result["text"] + "\n")
        self.assertEqual(len(result["tokens"]), 24)
        self.assertEqual(result["finish_reason"], "max_new_tokens")

    def test_greedy_text_depends_on_neither_threads_nor_chunks_nor_isa_nor_watching(self):
        expected = self.json_of(*GREEDY)["tokens"]
        for arguments in (["-t", "1"], ["-t", "2"], ["-b", "3"], ["-b", "1"], ["--routing"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.json_of(*GREEDY, *arguments)["tokens"], expected)
        scalar = self.run_ok("run", DEMO, *GREEDY, "--json", env=environment(SOLI_ISA="scalar")).json
        self.assertEqual(scalar["settings"]["isa"], "scalar")
        self.assertEqual(scalar["tokens"], expected)

    def test_pinned_threads_are_shown_and_write_the_same(self):
        free = self.json_of(*GREEDY)
        pinned = self.json_of(*GREEDY, "--pin")
        self.assertFalse(free["settings"]["pinned"])
        self.assertTrue(pinned["settings"]["pinned"])
        self.assertEqual(pinned["tokens"], free["tokens"])
        too_many = str(os.cpu_count() + 1)
        self.check(soli("run", DEMO, *GREEDY, "--pin", "-t", too_many), ERROR, too_many, "pinned")

    def test_prompt_from_file_pipe_and_argument_are_the_same(self):
        path = self.folder() / "prompt.txt"
        path.write_text(PROMPT)
        expected = self.json_of(*GREEDY)["tokens"]
        rest = ["-n", "24", "--temp", "0", "--json"]
        self.assertEqual(self.run_ok("run", DEMO, "-f", path, *rest).json["tokens"], expected)
        self.assertEqual(self.run_ok("run", DEMO, *rest, stdin=PROMPT.encode()).json["tokens"], expected)
        piped = self.run_ok("run", DEMO, "-f", "/dev/stdin", *rest, stdin=PROMPT.encode())
        self.assertEqual(piped.json["tokens"], expected)

    def test_seed(self):
        def tokens(*arguments):
            return self.json_of("-p", PROMPT, "-n", "24", "--temp", "1.5", *arguments)["tokens"]

        self.assertEqual(tokens("--seed", "7"), tokens("--seed", "7"))
        self.assertNotEqual(tokens("--seed", "7"), tokens("--seed", "8"))
        random = self.json_of("-p", PROMPT, "-n", "24", "--temp", "1.5")
        seed = str(random["settings"]["sampling"]["seed"])
        self.assertEqual(tokens("--seed", seed), random["tokens"])

    def test_every_sampling_option_has_an_effect_and_is_shown(self):
        base = ["-p", PROMPT, "-n", "32", "--temp", "1.5", "--seed", "7"]
        base += ["--top-k", "0", "--top-p", "1", "--min-p", "0"]
        free = self.json_of(*base)
        greedy = self.json_of(*GREEDY)["tokens"]

        def with_option(flag, value):
            arguments = list(base)
            if flag in arguments:
                arguments[arguments.index(flag) + 1] = value
            else:
                arguments += [flag, value]
            result = self.json_of(*arguments)
            name = "temperature" if flag == "--temp" else flag[2:].replace("-", "_")
            self.assertEqual(result["settings"]["sampling"][name], float(value))
            return result["tokens"]

        for flag, value in (("--top-k", "1"), ("--top-p", "0.000001"), ("--min-p", "1"), ("--temp", "0")):
            with self.subTest(flag=flag):  # each of these leaves the best token alone
                self.assertEqual(with_option(flag, value)[:24], greedy)
        self.assertNotEqual(free["tokens"][:24], greedy)
        self.assertNotEqual(with_option("--repeat-penalty", "1.5"), free["tokens"])

    def test_repeat_penalty_and_its_window(self):
        penalised = self.json_of(*GREEDY, "--repeat-penalty", "1.8")
        self.assertNotEqual(penalised["tokens"], self.json_of(*GREEDY)["tokens"])
        off = self.json_of(*GREEDY, "--repeat-penalty", "1.8", "--repeat-last-n", "0")
        self.assertEqual(off["tokens"], self.json_of(*GREEDY)["tokens"])

    def test_no_token_at_all(self):
        result = self.json_of("-p", PROMPT, "-n", "0")
        self.assertEqual((result["text"], result["tokens"], result["finish_reason"]), ("", [], "max_new_tokens"))

    def test_end_token_and_ignore_eos(self):
        """A model that soon ends: found by seed, so that the test stays quick."""
        base = ["-p", "A", "-n", "200", "--temp", "1.2"]
        for seed in map(str, range(40)):
            ended = self.json_of(*base, "--seed", seed)
            if ended["finish_reason"] == "end_token":
                break
        self.assertEqual(ended["finish_reason"], "end_token")
        n = len(ended["tokens"])
        self.assertLess(n, 200)
        longer = self.json_of(*base, "--seed", seed, "--ignore-eos")
        self.assertEqual(longer["tokens"][:n], ended["tokens"])
        self.assertGreater(len(longer["tokens"]), n)

    def test_context_is_filled_and_not_more(self):
        result = self.json_of("-p", PROMPT, "-c", "40", "--ignore-eos", "--temp", "0")
        self.assertEqual(result["finish_reason"], "context_full")
        self.assertEqual(result["prompt_tokens"] + len(result["tokens"]), 40)
        self.assertEqual(result["settings"]["context_length"], 40)

    def test_beyond_the_trained_context_is_said(self):
        outcome = self.run_ok("run", DEMO, *GREEDY, "-c", "300")
        self.assertIn("256 positions that the model was trained for", outcome.message)

    def test_empty_prompt_begins_with_bos(self):
        result = self.run_ok("run", MIXTRAL, "-p", "", "-n", "2", "--temp", "0", "--json").json
        self.assertEqual(result["prompt_tokens"], 1)

    def test_precisions_have_an_effect_and_are_shown(self):
        exact = self.json_of(*GREEDY, "--act", "f32", "--kv", "f32")
        self.assertEqual(exact["settings"]["activations_by_weight_type"]["Q8_0"], "f32")
        quantised = self.json_of(*GREEDY, "--act", "q8", "--kv", "f16")
        self.assertEqual(quantised["settings"]["activations_by_weight_type"]["Q8_0"], "q8")
        self.assertEqual(quantised["settings"]["activations_by_weight_type"]["F32"], "f32")
        self.assertLess(quantised["memory_in_use_bytes"]["kv pages"], exact["memory_in_use_bytes"]["kv pages"])

    def test_timings_are_measured(self):
        result = self.json_of(*GREEDY)
        timings = result["timings"]
        self.assertGreater(timings["load_seconds"], 0)
        for phase, n_tokens in (("prefill", result["prompt_tokens"]), ("decode", 23)):
            counted = timings[f"{phase}_tokens_per_second"] * timings[f"{phase}_seconds"]
            self.assertAlmostEqual(counted, n_tokens, places=3)
        self.assertGreater(result["peak_resident_bytes"], 15 << 20)

    def test_interrupt_keeps_what_there_is(self):
        command = [program(), "run", str(DEMO), "-p", PROMPT, "--ignore-eos", "-c", "100000"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        begun = child.stdout.read(1)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, INTERRUPTED, err)
        self.assertTrue((begun + out).endswith(b"\n"))
        self.assertIn(b"interrupted", err)

    def test_interrupt_ends_a_long_prompt_and_counts_what_was_computed(self):
        text = self.folder() / "text"
        text.write_text("word " * 90_000)
        limits = ["-c", "200000", "-b", "64", "-n", "1"]
        command = [program(), "run", str(DEMO), "-f", str(text), *limits, "--routing", "--json"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        out, err = interrupt_when_handled(child, delay_s=0.2)  # amid the prompt's 2,800 steps
        self.assertEqual(child.returncode, INTERRUPTED, err)
        result = json.loads(out)
        self.assertEqual(result["finish_reason"], "interrupted")
        self.assertLess(result["computed_tokens"], result["prompt_tokens"])
        self.assertEqual(result["computed_tokens"] % 64, 0)
        self.assertEqual(len(result["routing"]["tokens"]), result["computed_tokens"])

    def test_golden_greedy_ids(self):
        case = json.loads((GOLDEN / "mixtral" / "case.json").read_text())
        prompt = case["prompts"][1]
        arguments = ["--token-ids", ",".join(map(str, prompt["tokens"])), "--act", "f32", "--kv", "f32"]
        outcome = self.run_ok("logits", MIXTRAL, *arguments, "--greedy", len(prompt["greedy"]))
        self.assertEqual(list(map(int, outcome.text.split())), prompt["greedy"])


class RoutingTest(CliTest):
    def test_report_follows_the_text(self):
        plain = self.run_ok("run", DEMO, *GREEDY).text
        outcome = self.run_ok("run", DEMO, *GREEDY, "--routing")
        self.assertTrue(outcome.text.startswith(plain))
        self.assertIn("experts", outcome.text[len(plain):])

    def test_choices_are_all_written_and_recount(self):
        path = self.folder() / "choices.json"
        result = self.run_ok("run", DEMO, *GREEDY, "--routing", "--routing-json", path, "--json").json
        written = json.loads(path.read_text())
        # The last token that was generated has not been through the model.
        n_processed = result["prompt_tokens"] + 24 - 1
        self.assertEqual(len(written["tokens"]), n_processed)
        self.assertEqual(written["report"], result["routing"])
        script = str(ROOT / "tests" / "observe" / "recount.py")
        recount = subprocess.run([sys.executable, "-B", script, str(path)], capture_output=True, timeout=120)
        self.assertEqual(recount.returncode, 0, recount.stdout[-2000:] + recount.stderr[-2000:])

    def test_fewer_experts_are_used_and_labelled(self):
        exact = self.run_ok("run", DEMO, *GREEDY, "--routing", "--json")
        self.assertNotIn("lossy", exact.message)
        self.assertFalse(exact.json["settings"]["lossy"])
        fewer = self.run_ok("run", DEMO, *GREEDY, "--routing", "--json", "--experts-per-token", "1")
        self.assertIn("lossy", fewer.message)
        self.assertTrue(fewer.json["settings"]["lossy"])
        self.assertEqual(fewer.json["settings"]["experts_per_token"], 1)
        mean = [run.json["routing"]["all"]["active_parameters"]["mean"] for run in (fewer, exact)]
        self.assertLess(mean[0], mean[1])
        more = self.run_ok("run", DEMO, *GREEDY, "--json", "--experts-per-token", "3")
        self.assertTrue(more.json["settings"]["lossy"])

    def test_dense_models_have_a_report_too(self):
        dense = GOLDEN / "llama-dense" / "model.gguf"
        self.run_ok("run", dense, "-p", "x", "-n", "3", "--routing", "--ignore-eos")


if __name__ == "__main__":
    main()
