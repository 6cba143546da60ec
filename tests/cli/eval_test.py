"""`soli eval` and `soli logits`: figures that are known from elsewhere, or recounted here."""

import array
import json
import math

from program import DEMO, ERROR, GOLDEN, MIXTRAL, ROOT, CliTest, main, soli


def log_softmax(row, index):
    top = max(row)
    return row[index] - top - math.log(math.fsum(math.exp(value - top) for value in row))


class EvalTest(CliTest):
    ARGUMENTS = ["--window", "64", "--max-tokens", "300"]

    def eval(self, *arguments, text=ROOT / "tests" / "data" / "code_python.txt"):
        return self.run_ok("eval", DEMO, "--text", text, *arguments, "--json").json

    def test_loss_that_the_training_measured(self):
        """models/demo/README.md: loss per token of the first 4,080 tokens in windows of 256 that start with BOS."""
        result = self.eval("--max-tokens", "4080")
        self.assertEqual((result["tokens"], result["windows"]), (4080, 16))
        self.assertAlmostEqual(result["nats_per_token"], 2.30, delta=0.01)

    def test_recounted_from_logits(self):
        text = self.folder() / "text"
        text.write_text("\n".join(["a few words to be scored, in two windows", "which differ from one another"] * 3))
        # Ids as the windows have them: BOS is not counted by --max-tokens.
        ids = self.run_ok("tokenize", DEMO, "--json", "--no-special", "-f", text).json["ids"][:60]
        bos = self.run_ok("tokenize", DEMO, "--json", "-p", "a").json["ids"][0]
        windows = [[bos] + ids[begin : begin + 31] for begin in range(0, 60, 31)]
        nats = [-sum(self.logprobs(window)) for window in windows]
        result = self.eval("--window", "32", "--max-tokens", "60", "--act", "f32", "--kv", "f32", text=text)
        mean = sum(nats) / 60
        self.assertEqual(result["tokens"], 60)
        self.assertAlmostEqual(result["nats_per_token"], mean, places=5)
        counts = [len(window) - 1 for window in windows]
        residuals = [loss - mean * n for loss, n in zip(nats, counts)]
        error = math.sqrt(2 * sum(r * r for r in residuals)) / 60
        self.assertAlmostEqual(result["nats_per_token_error"], error, places=5)
        self.assertAlmostEqual(result["perplexity"], math.exp(mean), places=3)

    def logprobs(self, window):
        out = self.folder() / "logits"
        arguments = ["--token-ids", ",".join(map(str, window)), "--out", out, "--act", "f32", "--kv", "f32"]
        self.run_ok("logits", DEMO, *arguments)
        values = array.array("f", out.read_bytes())
        n_vocab = len(values) // len(window)
        rows = [values[i * n_vocab : (i + 1) * n_vocab] for i in range(len(window))]
        return [log_softmax(row, token) for row, token in zip(rows, window[1:])]

    def test_windows_together_or_alone_give_the_same_bits(self):
        alone = self.eval(*self.ARGUMENTS, "--parallel", "1")
        together = self.eval(*self.ARGUMENTS, "--parallel", "5", "-b", "100")
        self.assertEqual(together["nats_per_token"], alone["nats_per_token"])
        self.assertEqual(together["perplexity_error"], alone["perplexity_error"])

    def test_of_a_long_text_only_the_beginning_is_read(self):
        """Memory and time are those of the tokens that are wanted, and these are the same."""
        begin = (ROOT / "tests" / "data" / "code_python.txt").read_bytes()
        path = self.folder() / "long.txt"
        path.write_bytes(begin * (80_000_000 // len(begin)))
        arguments = ["--max-tokens", "300", "--window", "64"]
        of_long = self.eval(*arguments, text=path)
        of_short = self.eval(*arguments)
        self.assertEqual(of_long["nats_per_token"], of_short["nats_per_token"])
        self.assertLess(of_long["peak_resident_bytes"], of_short["peak_resident_bytes"] + 20_000_000)

    def test_a_window_of_one_position_scores_nothing(self):
        for option in ("--window", "-c"):
            outcome = soli("eval", MIXTRAL, "--text", GOLDEN / "README.md", option, "1")
            self.check(outcome, ERROR, option, "at least 2")

    def test_one_window_has_no_error_bar(self):
        result = self.eval("--window", "64", "--max-tokens", "50")
        self.assertEqual((result["windows"], result["tokens"]), (1, 50))
        self.assertIsNone(result["perplexity_error"])

    def test_text_output(self):
        text = self.run_ok("eval", DEMO, "--text", GOLDEN / "README.md", *self.ARGUMENTS).text
        self.assertRegex(text, r"perplexity +\d+\.\d+ \+- \d")
        self.assertRegex(text, r"speed +\d+\.\d tokens/s")


class LogitsTest(CliTest):
    def test_golden(self):
        """Relative L2 distance to llama.cpp's logits, as golden/check.py counts it."""
        for name in ("mixtral", "mixtral-split", "qwen2moe", "olmoe", "qwen3-dense"):
            case = json.loads((GOLDEN / name / "case.json").read_text())
            model = GOLDEN / name / case["model_files"][0]
            prompt = next(prompt for prompt in case["prompts"] if prompt["n_tokens"] == 7)
            out = self.folder() / "logits"
            ids = ",".join(map(str, prompt["tokens"]))
            greedy = self.run_ok(
                "logits", model, "--token-ids", ids, "--out", out, "--greedy", "16", "--act", "f32", "--kv", "f32"
            )
            values = array.array("f", out.read_bytes())
            golden = array.array("f", (GOLDEN / name / prompt["logits"]).read_bytes())
            self.assertEqual(len(values), len(golden))
            distance = math.sqrt(sum((a - b) ** 2 for a, b in zip(values, golden)) / sum(b * b for b in golden))
            self.assertLessEqual(distance, case["tolerance"]["f32"], name)
            self.assertEqual(list(map(int, greedy.text.split())), prompt["greedy"], name)

    def test_prompt_longer_than_a_step(self):
        ids = ",".join(str(i % 300) for i in range(150))
        together, apart = self.folder() / "a", self.folder() / "b"
        self.run_ok("logits", MIXTRAL, "--token-ids", ids, "--out", together)
        self.run_ok("logits", MIXTRAL, "--token-ids", ids, "--out", apart, "-b", "7", "-t", "1")
        self.assertEqual(together.read_bytes(), apart.read_bytes())
        self.assertEqual(len(together.read_bytes()), 150 * 328 * 4)


if __name__ == "__main__":
    main()
