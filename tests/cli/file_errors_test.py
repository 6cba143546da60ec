"""Files that cannot be read, understood, held or written: exit status 1, and a message that names the thing."""

import os
import re
import shutil

from gguf_patch import with_first_float, with_string, with_tensor_type
from program import DEMO, ERROR, GOLDEN, MIXTRAL, CliTest, environment, main, soli

COMMANDS = {
    "run": ["-p", "x", "-n", "1"],
    "inspect": [],
    "tokenize": ["-p", "x"],
    "logits": ["--token-ids", "1", "--greedy", "1"],
    "eval": ["--text", GOLDEN / "README.md"],
}


class FileTest(CliTest):
    def refused_by_all(self, path, *parts, without=()):
        for command, arguments in COMMANDS.items():
            if command not in without:
                with self.subTest(command=command):
                    self.check(soli(command, path, *arguments), ERROR, "soli: ", *parts)

    def changed(self, change, source=MIXTRAL):
        path = self.folder() / "changed.gguf"
        path.write_bytes(change(source.read_bytes()))
        return path

    def test_no_file(self):
        self.refused_by_all("/nowhere/model.gguf", "/nowhere/model.gguf", "No such file")

    def test_directory(self):
        self.refused_by_all(GOLDEN, GOLDEN, "director")

    def test_not_a_gguf(self):
        path = self.folder() / "text.gguf"
        path.write_text("this is a text and nothing else\n" * 10)
        self.refused_by_all(path, path, "GGUF")

    def test_empty_file(self):
        path = self.folder() / "empty.gguf"
        path.write_bytes(b"")
        self.refused_by_all(path, path)

    def test_no_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root may read everything")
        path = self.folder() / "secret.gguf"
        path.write_bytes(b"x")
        path.chmod(0)
        self.refused_by_all(path, path, "Permission denied")

    def test_truncated_anywhere(self):
        data = MIXTRAL.read_bytes()
        path = self.folder() / "cut.gguf"
        for size in [3, 4, 20, 1000, len(data) // 2, len(data) - 1]:
            path.write_bytes(data[:size])
            self.check(soli("inspect", path), ERROR, path)

    def test_missing_shard_is_named(self):
        folder = self.folder()
        for number in (1, 3):
            name = f"model-{number:05}-of-00003.gguf"
            shutil.copy(GOLDEN / "mixtral-split" / name, folder / name)
        self.refused_by_all(folder / "model-00001-of-00003.gguf", "model-00002-of-00003.gguf")

    def test_unknown_family(self):
        path = self.changed(lambda data: with_string(data, "general.architecture", "llamb"))
        self.refused_by_all(path, "llamb", "qwen3moe", without=("tokenize",))

    def test_unknown_tokenizer_names_the_file(self):
        path = self.changed(lambda data: with_string(data, "tokenizer.ggml.model", "llamb"))
        for command in ("run", "tokenize"):
            self.check(soli(command, path, "-p", "x"), ERROR, f"{path}: tokenizer.ggml.model", "llamb", "gpt2")

    def test_weight_type_without_kernels(self):
        # I8 is smaller than F32, so that the file stays well formed; no model has weights of bare integers.
        path = self.changed(lambda data: with_tensor_type(data, "blk.0.attn_q.weight", 24))
        for command in ("run", "logits", "eval"):
            with self.subTest(command=command):
                outcome = soli(command, path, *COMMANDS[command])
                self.check(outcome, ERROR, "blk.0.attn_q.weight", "I8", "Q8_0")
        self.assertIn("not supported", self.run_ok("inspect", path).text)

    def test_retired_weight_type(self):
        path = self.changed(lambda data: with_tensor_type(data, "blk.0.attn_q.weight", 31))
        self.refused_by_all(path, "blk.0.attn_q.weight")

    def test_model_with_a_nan(self):
        tensors = soli("inspect", MIXTRAL, "--json", "--tensors").json["tensors"]
        norm = next(tensor for tensor in tensors if tensor["name"] == "output_norm.weight")
        path = self.changed(lambda data: with_first_float(data, norm["offset"], float("nan")))
        self.check(soli("run", path, "-p", "x", "-n", "1"), ERROR, "not finite")
        self.check(soli("eval", path, "--text", GOLDEN / "README.md", "--max-tokens", "20"), ERROR, "not finite")


class InputTest(CliTest):
    def test_unreadable_prompt_file(self):
        self.check(soli("run", DEMO, "-f", "/nowhere/prompt"), ERROR, "/nowhere/prompt", "No such file")
        self.check(soli("run", DEMO, "-f", GOLDEN), ERROR, GOLDEN, "directory")
        self.check(soli("tokenize", DEMO, "-f", "/nowhere/text"), ERROR, "/nowhere/text")
        self.check(soli("eval", DEMO, "--text", "/nowhere/text"), ERROR, "/nowhere/text")

    def test_prompt_longer_than_the_context(self):
        outcome = soli("run", DEMO, "-p", "word " * 400)
        self.check(outcome, ERROR, "256")
        n_tokens = int(re.search(r"prompt has (\d+) tokens", outcome.message).group(1))
        self.assertGreater(n_tokens, 256)
        self.check(soli("run", DEMO, "-p", "some words here", "-c", "2"), ERROR, "room for 2")

    def test_empty_prompt_without_a_bos(self):
        path = GOLDEN / "qwen2moe" / "model.gguf"
        outcome = soli("run", path, "-p", "", "-n", "1")
        self.check(outcome, ERROR, "empty")

    def test_token_id_out_of_range(self):
        self.check(soli("logits", MIXTRAL, "--token-ids", "1,328", "--greedy", "1"), ERROR, "328", "vocabulary")
        self.check(soli("tokenize", MIXTRAL, "--detokenize", "1,328"), ERROR, "328", "vocabulary")

    def test_logits_beyond_the_context(self):
        outcome = soli("logits", MIXTRAL, "--token-ids", "1,2,3", "--greedy", "8", "-c", "10")
        self.check(outcome, ERROR, "3 tokens", "8", "10")

    def test_eval_window_and_text(self):
        empty = self.folder() / "empty.txt"
        empty.write_text("")
        self.check(soli("eval", DEMO, "--text", empty), ERROR, empty, "0 tokens")
        self.check(soli("eval", DEMO, "--text", GOLDEN / "README.md", "--window", "257"), ERROR, "257", "256")

    def test_experts_per_token(self):
        self.check(soli("run", DEMO, "-p", "x", "--experts-per-token", "17"), ERROR, "17", "16")
        dense = GOLDEN / "llama-dense" / "model.gguf"
        self.check(soli("run", dense, "-p", "x", "--experts-per-token", "1"), ERROR, "dense")


class OutputTest(CliTest):
    def test_unwritable_files(self):
        out = "/nowhere/out"
        self.check(soli("logits", MIXTRAL, "--token-ids", "1", "--out", out), ERROR, out, "No such file")
        outcome = self.check(soli("run", DEMO, "-p", "x", "-n", "1", "--routing-json", out), ERROR, out)
        self.assertEqual(outcome.out, b"", "said before the text is made")

    def test_full_disk(self):
        run = ["run", DEMO, "-p", "x", "-n", "1"]
        for command in (["--help"], ["inspect", DEMO], ["tokenize", DEMO, "-p", "x"], run):
            with self.subTest(command=command[0]), open("/dev/full", "wb") as full:
                self.check(soli(*command, stdout=full), ERROR, "standard output", "No space left")
        self.check(soli("logits", MIXTRAL, "--token-ids", "1", "--out", "/dev/full"), ERROR, "No space left")

    def test_the_model_is_not_written_over(self):
        model = self.folder() / "model.gguf"
        shutil.copy(MIXTRAL, model)
        link = model.with_name("link")
        link.symlink_to(model)
        for out in (model, link):
            self.check(soli("logits", model, "--token-ids", "1", "--out", out), ERROR, out, "it is the model")
            self.check(soli("run", model, "-p", "a", "-n", "1", "--routing-json", out), ERROR, out, "it is the model")
        self.assertEqual(model.read_bytes(), MIXTRAL.read_bytes())

    def test_no_input_is_written_over(self):
        folder = self.folder()
        text = folder / "text.txt"
        text.write_text("some words of a text, to be read. " * 20)
        policy = folder / "policy.toml"
        policy.write_text("temperature = 2")
        twin = folder / "twin.gguf"
        shutil.copy(DEMO, twin)
        for command in (
            ["eval", DEMO, "--text", text, "--sweep", "k=1..2", "--svg", text],
            ["dissect", DEMO, "--text", text, "--csv", text],
            ["diagnose", DEMO, "-f", text, "--html", text],
            ["run", DEMO, "-f", text, "-n", "1", "--routing-json", text],
            ["run", DEMO, "-p", "x", "-n", "1", "--policy", policy, "--routing-json", policy],
            ["logits", DEMO, "--token-ids", "1", "--memory", "150MiB", "--twin", twin, "--out", twin],
            ["run", DEMO, "-p", "x", "-n", "1", "--memory", "150MiB", "--twin", twin, "--access-trace", twin],
            ["run", DEMO, "-p", "x", "-n", "1", "--twin", twin, "--trace", twin],
        ):
            with self.subTest(command=command):
                self.check(soli(*command), ERROR, command[-1], "would be written over")
        self.assertEqual(twin.read_bytes(), DEMO.read_bytes())
        self.assertEqual(policy.read_text(), "temperature = 2")
        self.assertIn("some words", text.read_text())

    def test_two_outputs_are_two_files(self):
        out = self.folder() / "out"
        run = ["run", DEMO, "-p", "x", "-n", "1", "--memory", "150MiB", "--heat", out]
        self.check(soli(*run, "--access-trace", out), ERROR, out, "--access-trace", "--heat")
        self.check(soli(*run, "--routing-json", out), ERROR, out, "--routing-json", "--heat")
        self.assertFalse(out.exists())

    def test_a_failed_run_leaves_what_was_there(self):
        out = self.folder() / "logits"
        out.write_bytes(b"before")
        self.check(soli("logits", MIXTRAL, "--token-ids", "1", "--out", out, "--memory", "1MiB"), ERROR)
        self.assertEqual(out.read_bytes(), b"before")
        link = self.folder() / "full"  # a mistake here must not cost the machine its device
        link.symlink_to("/dev/full")
        outcome = soli("run", DEMO, "-p", "x", "-n", "1", "--routing-json", link)
        self.check(outcome, ERROR, link, "No space left")
        self.check(soli("synth", "--preset", "tiny", "-o", link), ERROR, link, "No space left")


class MemoryTest(CliTest):
    ARGUMENTS = ["-p", "The sea", "-n", "4", "--temp", "0", "--json"]

    def test_too_small_a_budget_names_the_least_and_the_least_works(self):
        outcome = soli("run", DEMO, *self.ARGUMENTS, "--memory", "8MiB")
        self.check(outcome, ERROR, "--memory", "8.00 MiB", "at least")
        least = int(re.search(r"at least (\d+)B", outcome.message).group(1))
        outcome = soli("run", DEMO, *self.ARGUMENTS, "--memory", f"{least - 1}B")
        self.check(outcome, ERROR, f"at least {least}B")
        limited = self.run_ok("run", DEMO, *self.ARGUMENTS, "--memory", f"{least}B").json
        self.assertEqual(limited["settings"]["memory_limit_bytes"], least)
        if "SOLI_SANITIZED" not in os.environ:
            self.assertLessEqual(limited["peak_resident_bytes"], least)
        self.assertEqual(limited["tokens"], self.run_ok("run", DEMO, *self.ARGUMENTS).json["tokens"])

    def test_a_longer_answer_needs_more(self):
        least = []
        for n in ("4", "100", "-1"):
            outcome = soli("run", DEMO, "-p", "The sea", "-n", n, "--memory", "1MiB", env=environment())
            least.append(int(re.search(r"at least (\d+)B", self.check(outcome, ERROR).message).group(1)))
        self.assertEqual(least, sorted(set(least)))

    def test_eval_within_its_least(self):
        arguments = ["eval", DEMO, "--text", GOLDEN / "README.md", "--max-tokens", "600", "--json"]
        outcome = self.check(soli(*arguments, "--memory", "1MiB"), ERROR)
        least = re.search(r"at least (\d+B)", outcome.message).group(1)
        limited = self.run_ok(*arguments, "--memory", least).json
        self.assertEqual(limited["perplexity"], self.run_ok(*arguments).json["perplexity"])


if __name__ == "__main__":
    main()
