"""`soli pack`: packed models, in one file and over several folders, that every command takes; and damaged ones."""

import os
import re
import signal
import subprocess

from program import (
    DEMO, ERROR, GOLDEN, INTERRUPTED, USAGE, CliTest, environment, interrupt_when_handled, main, program, soli,
)  # fmt: skip

TOKENS = "1,7,30,2,9,11"
SHARD = "packed-{:05}-of-{:05}.gguf"


class PackTest(CliTest):
    def logits(self, model, *arguments):
        out = self.folder() / "logits.f32"
        self.run_ok("logits", model, "--token-ids", TOKENS, "--out", out, "-c", "64", *arguments)
        return out.read_bytes()

    def striped(self, folder, model):
        """Packs over two folders; gives the first shard."""
        for name in ("a", "b"):
            (folder / name).mkdir()
        dirs = ["--pack-dir", folder / "a", "--pack-dir", folder / "b"]
        self.run_ok("pack", model, folder / "packed.gguf", *dirs)
        return folder / SHARD.format(1, 3)

    def test_logits_are_the_same_bit_by_bit(self):
        for name in ("mixtral", "gpt-oss", "deepseek2-lite"):
            with self.subTest(model=name):
                folder = self.folder()
                model = GOLDEN / name / "model.gguf"
                self.run_ok("pack", model, folder / "one.gguf")
                first = self.striped(folder, model)
                for options in ((), ("--act", "f32", "--kv", "f32"), ("-t", "1", "-b", "3")):
                    plain = self.logits(model, *options)
                    self.assertEqual(self.logits(folder / "one.gguf", *options), plain)
                    self.assertEqual(self.logits(first, *options), plain)

    def test_every_command_takes_it(self):
        folder = self.folder()
        packed = folder / "packed.gguf"
        out = self.run_ok("pack", DEMO, packed).text
        self.assertRegex(out, r"packed\.gguf: \d+ experts in each of \d+ layers, .+ in \d+\.\d s\n")
        self.assertEqual(list(folder.iterdir()), [packed])
        run = ("-p", "The", "-n", "8", "--temp", "0")
        self.assertEqual(self.run_ok("run", packed, *run).out, self.run_ok("run", DEMO, *run).out)
        text = folder / "text.txt"
        text.write_text("Some text, and then some more of it.\n" * 3)
        ask = ("--text", text, "--window", "16", "--json")
        plain, other = (self.run_ok("eval", model, *ask).json for model in (DEMO, packed))
        self.assertEqual(other["perplexity"], plain["perplexity"])
        words = ("-p", "Hello, world")
        self.assertEqual(self.run_ok("tokenize", packed, *words).out, self.run_ok("tokenize", DEMO, *words).out)
        small = ("--prompt", "8", "--generate", "2", "--sequences", "1", "--repetitions", "1", "--json")
        self.run_ok("bench", packed, *small)

    def test_inspect_counts_the_same_and_says_that_it_is_packed(self):
        folder = self.folder()
        model = GOLDEN / "deepseek2-lite" / "model.gguf"
        first = self.striped(folder, model)
        plain, packed = (self.run_ok("inspect", path, "--json").json for path in (model, first))
        self.assertIsNone(plain["packed"])
        stripes = packed["packed"]
        self.assertEqual((stripes["version"], stripes["layout"], stripes["stripes"]), (1, "x16", 2))
        for key in plain:
            if key not in ("file", "packed", "resident_bytes"):
                self.assertEqual(packed[key], plain[key], key)
        # In memory, as in the file, every expert takes whole pages.
        self.assertGreaterEqual(packed["resident_bytes"], plain["resident_bytes"])
        self.assertEqual(len(packed["file"]["shards"]), 3)
        self.assertRegex(self.run_ok("inspect", first).text, r"packed +each expert is one read, .*in 2 stripes")
        self.assertNotIn("packed ", self.run_ok("inspect", model).text)
        listing = self.run_ok("inspect", first, "--tensors").text
        self.assertIn("blk.1.ffn_experts.packed.1", listing)

    def test_stripes_are_linked_beside_the_first_shard(self):
        folder = self.folder()
        first = self.striped(folder, DEMO)
        for number, drive in ((2, "a"), (3, "b")):
            name = SHARD.format(number, 3)
            self.assertTrue((folder / name).is_symlink())
            self.assertEqual((folder / name).resolve(), (folder / drive / name).resolve())
            self.assertFalse((folder / drive / name).is_symlink())
        self.run_ok("pack", "--verify", first)
        (folder / "b" / SHARD.format(3, 3)).unlink()
        self.check(soli("inspect", first), ERROR, "shard 3 of 3 is missing")

    def test_damage_is_found_and_named(self):
        folder = self.folder()
        packed = folder / "packed.gguf"
        self.run_ok("pack", DEMO, packed)
        self.assertIn("are as they were packed", self.run_ok("pack", "--verify", packed).text)
        tensors = self.run_ok("inspect", packed, "--json", "--tensors").json["tensors"]
        extents = next(t for t in tensors if t["name"] == "blk.1.ffn_experts.packed")
        data = bytearray(packed.read_bytes())
        for expert in (2, 5):
            data[extents["offset"] + expert * extents["dimensions"][0] + 100] ^= 1
        packed.write_bytes(data)
        outcome = self.check(soli("pack", "--verify", packed), ERROR, "packed.gguf: damaged: 2 of 64 experts")
        lines = outcome.text.splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], ["layer 1, expert 2", "layer 1, expert 5"])
        self.check(soli("run", packed, "-p", "x", "-n", "1"), ERROR, "layer 1, expert ", "damaged", "packed.gguf")
        tiered = ["run", packed, "-p", "the sea is wide and deep, " * 20, "-n", "1", "--memory"]
        least = re.search(r"at least (\d+B)", soli(*tiered, "8MiB").message).group(1)
        self.assertRegex(soli(*tiered, least).message, r"(?<!layer 1: )layer 1, expert [25]: damaged")
        self.run_ok("inspect", packed)  # reads no weights

    def test_the_least_memory_that_is_named_suffices(self):
        packed = self.folder() / "packed.gguf"
        self.run_ok("pack", DEMO, packed)
        run = ("run", packed, "-p", "The sea", "-n", "4", "--temp", "0", "--json")
        outcome = self.check(soli(*run, "--memory", "8MiB"), ERROR, "at least")
        least = int(re.search(r"at least (\d+)B", outcome.message).group(1))
        limited = self.run_ok(*run, "--memory", f"{least}B").json
        if "SOLI_SANITIZED" not in os.environ:
            self.assertLessEqual(limited["peak_resident_bytes"], least)

    def test_what_is_refused(self):
        folder = self.folder()
        packed = folder / "packed.gguf"
        self.run_ok("pack", DEMO, packed)
        self.check(soli("pack", packed, folder / "again.gguf"), ERROR, "packed.gguf", "packed already")
        self.check(soli("pack", packed, packed), ERROR, "packed")
        self.check(soli("pack", DEMO, DEMO), ERROR, "it is the model")
        self.check(soli("pack", GOLDEN / "qwen3-dense" / "model.gguf", folder / "x.gguf"), ERROR, "no experts")
        self.check(soli("pack", "--verify", DEMO), ERROR, "not packed")
        self.check(soli("pack", DEMO, folder / "no" / "x.gguf"), ERROR, "no/x.gguf")
        self.check(soli("pack", DEMO, folder / "x", "--pack-dir", folder / "no"), ERROR, "no/x-00002-of-00002.gguf")
        self.check(soli("pack", "/nowhere.gguf", folder / "x.gguf"), ERROR, "/nowhere.gguf")
        self.check(soli("pack", DEMO), USAGE, "OUT or --verify")
        self.check(soli("pack"), USAGE, "model")
        self.check(soli("pack", DEMO, ""), USAGE, "out")
        self.check(soli("pack", DEMO, folder / "x.gguf", "--pack-dir", ""), USAGE, "--pack-dir")
        self.check(soli("pack", DEMO, folder / "x.gguf", "--verify"), USAGE, "excludes")
        self.check(soli("pack", "--verify", packed, "--pack-dir", folder), USAGE, "excludes")
        self.check(soli("pack", DEMO, folder / "x.gguf", "-t", "0x1"), USAGE, "--threads")
        self.assertEqual(list(folder.iterdir()), [packed])

    def test_threads_and_an_older_file_do_not_matter(self):
        folder = self.folder()
        self.run_ok("pack", DEMO, folder / "one.gguf", "-t", "1")
        (folder / "two.gguf").write_bytes(b"older")
        self.run_ok("pack", DEMO, folder / "two.gguf", "-t", "2")
        self.assertEqual((folder / "one.gguf").read_bytes(), (folder / "two.gguf").read_bytes())

    def test_interrupted_it_leaves_nothing(self):
        folder = self.folder()
        # 300 MB of embeddings and experts in many chunks: longer than the signal takes.
        sizes = ["--vocab", "300000", "--experts", "64", "--expert-width", "4096", "--type", "F16"]
        model = folder / "big.gguf"
        self.run_ok("synth", "--preset", "tiny", *sizes, "-o", model)
        for drive in ("a", "b"):
            (folder / drive).mkdir()
        command = [program(), "pack", str(model), str(folder / "out"), "-t", "1"]
        command += ["--pack-dir", str(folder / "a"), "--pack-dir", str(folder / "b")]
        for number in (signal.SIGINT, signal.SIGTERM):
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            _, err = interrupt_when_handled(child, number=number)
            self.assertEqual(child.returncode, INTERRUPTED, err)
            self.assertIn(b"is not written", err)
            self.assertEqual(sorted(path.name for path in folder.rglob("*")), ["a", "b", "big.gguf"])

    def test_a_full_disk_is_an_error_and_leaves_nothing(self):
        folder = self.folder()
        command = f"ulimit -f 40; exec '{program()}' pack '{DEMO}' '{folder}/x.gguf'"
        child = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, env=environment(), check=False)
        self.assertEqual(child.returncode, ERROR, child.stderr)
        self.assertIn(b"cannot write", child.stderr)
        self.assertEqual(list(folder.iterdir()), [])


if __name__ == "__main__":
    main()
