"""`soli inspect`, `soli tokenize`, `soli completion`: what they print agrees with what is known of the files."""

import json
import shutil
import struct
import subprocess

from program import DEMO, ERROR, GOLDEN, MIXTRAL, USAGE, CliTest, main, soli


class InspectTest(CliTest):
    def test_demo_model(self):
        shown = self.run_ok("inspect", DEMO, "--json").json
        shape = shown["shape"]
        self.assertEqual(shown["family"], "qwen3moe")
        self.assertEqual((shape["layers"], shape["experts"], shape["experts_per_token"]), (4, 16, 2))
        self.assertEqual((shape["hidden_size"], shape["expert_width"], shape["context_length"]), (256, 256, 256))
        # By hand: three matrices of 256 x 256 for each of 16 experts in 4 layers; 2 of 16 are active.
        routed = shown["parts"]["routed experts"]["parameters"]
        self.assertEqual(routed, 3 * 256 * 256 * 16 * 4)
        self.assertEqual(shown["nominal"]["parameters"], sum(part["parameters"] for part in shown["parts"].values()))
        inactive = routed - routed // 8 - shape["hidden_size"]  # a tied head multiplies with the whole embedding
        self.assertEqual(shown["active_per_token"]["parameters"], shown["nominal"]["parameters"] - inactive)
        self.assertAlmostEqual(
            shown["activation_ratio"], shown["active_per_token"]["parameters"] / shown["nominal"]["parameters"]
        )
        self.assertEqual(shown["kv_bytes_per_position"]["f16"], 4 * 2 * 2 * 64 * 2)
        self.assertEqual(shown["kv_bytes_per_position"]["f32"], 2 * shown["kv_bytes_per_position"]["f16"])

    def test_weight_types_are_counted_with_their_scales(self):
        shown = self.run_ok("inspect", DEMO, "--json", "--tensors").json
        types = {entry["type"]: entry for entry in shown["types"]}
        self.assertEqual(types["Q8_0"]["bits_per_weight"], 8.5)
        self.assertEqual(types["F32"]["bits_per_weight"], 32)
        self.assertEqual(types["Q8_0"]["activations_with_act_q8"], "q8")
        self.assertEqual(types["F32"]["activations_with_act_q8"], "f32")
        self.assertEqual(sum(entry["bytes"] for entry in types.values()), sum(t["bytes"] for t in shown["tensors"]))
        self.assertEqual(len(shown["tensors"]), sum(entry["tensors"] for entry in types.values()))

    def test_split_set_equals_its_sum(self):
        shown = self.run_ok("inspect", GOLDEN / "mixtral-split" / "model-00002-of-00003.gguf", "--json").json
        self.assertEqual(len(shown["file"]["shards"]), 3)
        self.assertEqual(shown["file"]["bytes"], sum(shard["bytes"] for shard in shown["file"]["shards"]))

    def test_every_golden_model_can_be_shown(self):
        for case in sorted(GOLDEN.glob("*/case.json")):
            model = case.parent / json.loads(case.read_text())["model_files"][0]
            with self.subTest(model=case.parent.name):
                text = self.run_ok("inspect", model, "--tensors").text
                for part in ("family", "tokenizer", "nominal", "active per token", "bits/weight", "token_embd.weight"):
                    self.assertIn(part, text)

    def test_text_and_json_agree(self):
        shown = self.run_ok("inspect", DEMO, "--json").json
        text = self.run_ok("inspect", DEMO).text
        self.assertIn(str(shown["nominal"]["parameters"]), text)
        self.assertIn(f"{shown['activation_ratio']:.4f}", text)

    def test_shapes_give_the_published_figures(self):
        # In billions, as the publishers state them: in all, and active. Some count the embedding to what is active,
        # some leave out the output head; most round, GLM's are cut off.
        published = {
            "mixtral-8x7b": (46.7, 12.9, "with_whole_embedding"),
            "qwen3-30b-a3b": (30.5, 3.3, "with_whole_embedding"),
            "deepseek-v3": (671, 37, "per_token"),
            "olmoe-1b-7b": (6.9, 1.3, "with_whole_embedding"),
            "gpt-oss-120b": (117, 5.1, "per_token"),
            "gpt-oss-20b": (20.9, 3.6, "per_token"),
            "qwen2-57b-a14b": (57.4, 14.2, "with_whole_embedding"),
            "glm-4.5-air": (106, 12, "without_vocabulary"),
            "kimi-k2": (1026, 32, "per_token"),
            "phi-3.5-moe": (41.9, 6.6, "with_whole_embedding"),
            "mixtral-8x22b": (141, 39, "per_token"),
            "qwen3-235b-a22b": (235, 22, "with_whole_embedding"),
        }
        for name, (total, active, count) in published.items():
            with self.subTest(shape=name):
                shown = self.run_ok("inspect", "--shape", name, "--json").json
                self.assertLess(abs(shown["nominal_parameters"] / 1e9 / total - 1), 0.01)
                ours = shown[f"active_parameters_{count}"] / 1e9
                self.assertLess(abs(ours / active - 1), 0.02, ours)
                self.assertIn(str(shown["nominal_parameters"]), self.run_ok("inspect", "--shape", name).text)
        self.check(soli("inspect", "--shape", "gpt-5"), USAGE, "gpt-5", "deepseek-v3")
        self.check(soli("inspect", DEMO, "--shape", "olmoe-1b-7b"), USAGE)

    def test_names_cannot_steer_the_terminal(self):
        data = MIXTRAL.read_bytes()
        key = b"general.name"
        if key not in data:
            self.skipTest("the model has no name")
        at = data.index(key) + len(key) + 4
        (length,) = struct.unpack_from("<Q", data, at)
        name = b"\x1b[31m"[:length].ljust(length, b"x")
        path = self.folder() / "name.gguf"
        path.write_bytes(data[: at + 8] + name + data[at + 8 + length :])
        self.assertNotIn(b"\x1b", soli("inspect", path).out)


class TokenizeTest(CliTest):
    def test_golden_ids(self):
        for name in ("mixtral", "qwen2moe", "olmoe"):
            for case in json.loads((GOLDEN / name / "tokenize.json").read_text())[:8]:
                arguments = [] if case["add_special"] else ["--no-special"]
                shown = self.run_ok("tokenize", GOLDEN / name / "model.gguf", "--json", "-p", case["text"], *arguments)
                self.assertEqual(shown.json["ids"], case["ids"], (name, case["text"]))
        self.assertNotEqual(
            self.run_ok("tokenize", MIXTRAL, "--json", "-p", "a").json["ids"],
            self.run_ok("tokenize", MIXTRAL, "--json", "-p", "a", "--no-special").json["ids"],
        )

    def test_standard_input_and_files(self):
        text = "Zwei Wörter\n"
        path = self.folder() / "text"
        path.write_text(text, encoding="utf-8")
        expected = self.run_ok("tokenize", DEMO, "--json", "-p", text).json
        self.assertEqual(self.run_ok("tokenize", DEMO, "--json", "-f", path).json, expected)
        self.assertEqual(self.run_ok("tokenize", DEMO, "--json", stdin=text.encode()).json, expected)
        lines = self.run_ok("tokenize", DEMO, "-p", text).text.splitlines()
        self.assertEqual([int(line.split()[0]) for line in lines], expected["ids"])

    def test_special_tokens_are_text_unless_asked_for(self):
        plain = self.run_ok("tokenize", MIXTRAL, "--json", "--no-special", "-p", "</s>").json["ids"]
        asked = self.run_ok("tokenize", MIXTRAL, "--json", "--no-special", "--parse-special", "-p", "</s>")
        special = asked.json["ids"]
        self.assertEqual(len(special), 1)
        self.assertGreater(len(plain), 1)

    def tokenizer_json(self):
        """A directory with a tokenizer of three characters, one merge and a special token."""
        special = {"id": 5, "content": "<s>", "special": True, "normalized": False}
        model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u2581": 2, "ab": 3, "c": 4}, "merges": ["a b"]}
        decoder = {"type": "Metaspace", "replacement": "\u2581"}
        folder = self.folder()
        file = {"added_tokens": [special], "pre_tokenizer": decoder, "decoder": decoder, "model": model}
        (folder / "tokenizer.json").write_text(json.dumps(file))
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "add_bos_token": True}))
        return folder

    def test_a_tokenizer_json_or_its_directory(self):
        folder = self.tokenizer_json()
        for path in (folder, folder / "tokenizer.json"):
            shown = self.run_ok("tokenize", path, "--json", "-p", "ab c")
            self.assertEqual(shown.json["ids"], [5, 2, 3, 2, 4])
            self.assertEqual([token["piece"] for token in shown.json["tokens"]], ["<s>", " ", "ab", " ", "c"])
            plain = self.run_ok("tokenize", path, "--json", "-p", "ab", "--no-special")
            self.assertEqual(plain.json["ids"], [2, 3])
        back = self.run_ok("tokenize", folder, "--detokenize", "5,2,3,2,4", "--no-special")
        self.assertEqual(back.text, "ab c\n")

    def test_a_tokenizer_json_that_is_none(self):
        folder = self.tokenizer_json()
        path = folder / "tokenizer.json"
        path.write_text(path.read_text().replace('"a b"', '"a x"'))
        self.check(soli("tokenize", folder, "-p", "a"), ERROR, path, "model.merges[0]", "'x'")
        path.unlink()
        self.check(soli("tokenize", folder, "-p", "a"), ERROR, folder, "a GGUF file, a tokenizer.json and a directory")
        self.check(soli("tokenize", path, "-p", "a"), ERROR, path, "No such file")


class CompletionTest(CliTest):
    def test_scripts_know_every_option(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.run_ok("completion", shell).text
            for word in ("tokenize", "routing-json", "token-ids", "log-level", "f16", "q8"):
                self.assertIn(word, script, shell)

    def test_syntax(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell):
                script = self.run_ok("completion", shell).out
                checked = subprocess.run([shell, "-n", "/dev/stdin"], input=script, capture_output=True)
                self.assertEqual(checked.returncode, 0, (shell, checked.stderr))

    def complete(self, *words):
        """What bash offers after these words, the last of them unfinished."""
        script = self.run_ok("completion", "bash").text
        line = " ".join(f"'{word}'" for word in ("soli",) + words)
        script += f'\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _soli; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
        return subprocess.run(["bash"], input=script.encode(), capture_output=True).stdout.decode().split()

    def test_what_bash_offers(self):
        if not shutil.which("bash"):
            self.skipTest("bash is not here")
        self.assertEqual(self.complete("tok"), ["tokenize"])
        self.assertEqual(self.complete("run", "--routing-j"), ["--routing-json"])
        self.assertEqual(self.complete("run", "model", "--kv", "f"), ["f32", "f16"])
        self.assertEqual(self.complete("completion", "z"), ["zsh"])
        self.assertEqual(self.complete("trace", "s"), ["show", "stats"])
        self.assertEqual(self.complete("trace", "export", "file", "--format", "n"), ["npz"])
        self.assertIn("--positions", self.complete("trace", "show", "file", "--"))


if __name__ == "__main__":
    main()
