"""`soli synth`: files that the other commands run, and wrong options; `soli inspect --machine`."""

import subprocess

from program import ERROR, INTERRUPTED, USAGE, CliTest, environment, interrupt_when_handled, main, program, soli


class SynthTest(CliTest):
    def synth(self, *arguments):
        path = self.folder() / "synth.gguf"
        self.run_ok("synth", *arguments, "-o", path)
        return path

    def test_every_family_runs(self):
        for family in ("llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "olmoe"):
            with self.subTest(family=family):
                path = self.synth("--family", family)
                self.assertEqual(self.run_ok("inspect", path, "--json").json["family"], family)
                self.run_ok("run", path, "-p", "x", "-n", "2", "--ignore-eos")

    def test_sizes_and_types_are_what_was_asked(self):
        path = self.synth(
            "--preset", "tiny", "--layers", "3", "--experts", "12", "--experts-per-token", "5", "--expert-width", "96",
            "--hidden", "128", "--heads", "4", "--kv-heads", "2", "--head-dim", "32", "--vocab", "400", "--context",
            "128", "--type", "Q4_0", "--part-type", "embedding=F16", "--part-type", "routed-experts=Q8_0",
        )  # fmt: skip
        shown = self.run_ok("inspect", path, "--json", "--tensors").json
        shape = shown["shape"]
        self.assertEqual((shape["layers"], shape["experts"], shape["experts_per_token"]), (3, 12, 5))
        self.assertEqual((shape["expert_width"], shape["hidden_size"], shape["context_length"]), (96, 128, 128))
        self.assertEqual((shape["heads"], shape["kv_heads"], shape["head_dim"], shape["vocabulary"]), (4, 2, 32, 400))
        types = {tensor["name"]: tensor["type"] for tensor in shown["tensors"]}
        self.assertEqual(types["token_embd.weight"], "F16")
        self.assertEqual(types["blk.0.ffn_up_exps.weight"], "Q8_0")
        self.assertEqual(types["blk.0.attn_q.weight"], "Q4_0")

    def test_a_mixture_of_types_and_a_part_that_leaves_it(self):
        path = self.synth(
            "--preset", "tiny", "--layers", "8", "--hidden", "256", "--experts", "12", "--expert-width", "256",
            "--type", "q4_k_m", "--part-type", "routed-experts=Q8_0",
        )  # fmt: skip
        tensors = self.run_ok("inspect", path, "--json", "--tensors").json["tensors"]
        types = {tensor["name"]: tensor["type"] for tensor in tensors}
        self.assertEqual(types["output.weight"], "Q6_K")
        self.assertEqual(types["blk.0.attn_v.weight"], "Q6_K")
        self.assertEqual(types["blk.1.attn_v.weight"], "Q4_K")
        self.assertEqual(types["blk.0.ffn_down_exps.weight"], "Q8_0")
        self.assertEqual(types["blk.0.ffn_gate_inp.weight"], "F32")

    def test_interrupted_it_leaves_nothing(self):
        folder = self.folder()
        # 75 MB of embeddings in many chunks: longer than the signal takes.
        command = [program(), "synth", "--preset", "tiny", "--vocab", "600000", "--type", "F16", "-t", "1"]
        command += ["-o", str(folder / "big.gguf")]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        _, err = interrupt_when_handled(child)
        self.assertEqual(child.returncode, INTERRUPTED, err)
        self.assertEqual(list(folder.iterdir()), [])

    def test_bytes_depend_on_the_seed_and_not_on_threads(self):
        first = self.synth("--preset", "tiny", "--seed", "5", "-t", "1").read_bytes()
        self.assertEqual(self.synth("--preset", "tiny", "--seed", "5", "-t", "2").read_bytes(), first)
        self.assertNotEqual(self.synth("--preset", "tiny", "--seed", "6").read_bytes(), first)

    def test_skew_makes_experts_popular(self):
        hottest = []
        for skew in ("0", "2"):
            path = self.synth("--preset", "tiny", "--experts", "16", "--experts-per-token", "2", "--skew", skew)
            text = "All sorts of words, 1234567890, and more of them: (x + y) * z = ?"
            run = self.run_ok("run", path, "-p", text, "-n", "4", "--temp", "0", "--routing", "--json").json
            hottest.append(max(layer["hottest_share"] for layer in run["routing"]["layers"]))
        self.assertGreater(hottest[1], hottest[0])

    def test_wrong_options(self):
        out = self.folder() / "x.gguf"
        tiny = ["synth", "--preset", "tiny", "-o", out]
        self.check(soli("synth", "-o", out), USAGE, "--preset", "--family")
        self.check(soli("synth", "--preset", "tiny"), USAGE, "--out")
        self.check(soli(*tiny, "--family", "llama"), USAGE, "excludes")
        self.check(soli("synth", "--preset", "huge", "-o", out), USAGE, "huge", "tiny")
        self.check(soli("synth", "--family", "huge", "-o", out), USAGE, "huge", "olmoe")
        self.check(soli(*tiny, "--type", "Q9"), USAGE, "Q9", "Q4_K", "MXFP4_MOE")
        self.check(soli(*tiny, "--part-type", "nose=Q4_K"), USAGE, "nose", "routed-experts")
        self.check(soli(*tiny, "--part-type", "router=Q9"), USAGE, "Q9")
        self.check(soli(*tiny, "--experts", "4", "--experts-per-token", "5"), USAGE, "5")
        for flag, value in (("--skew", "9"), ("--skew", "nan"), ("--layers", "-1"), ("--seed", "x")):
            self.check(soli(*tiny, flag, value), USAGE, flag, value)
        self.assertFalse(out.exists())
        self.check(soli("synth", "--preset", "tiny", "-o", "/nowhere/x.gguf"), ERROR, "/nowhere/x.gguf")


class MachineTest(CliTest):
    def test_what_there_is_and_what_it_reaches(self):
        shown = self.run_ok("inspect", "--machine", "--json", "--seconds", "0.01").json
        self.assertIn(shown["isa"], shown["isas_available"])
        self.assertIn("scalar", shown["isas_available"])
        self.assertGreaterEqual(shown["usable_cpus"], 1)
        self.assertGreaterEqual(shown["numa_nodes"], 1)
        for name in ("read_bytes_per_s", "f32_operations_per_s", "bf16_operations_per_s", "int8_operations_per_s"):
            for threads in ("one_thread", "all_threads"):
                figure = shown["measured"][name][threads]
                self.assertGreater(figure["min"], 0)
                self.assertLessEqual(figure["min"], figure["median"])
                self.assertLessEqual(figure["median"], figure["max"])

    def test_pinned_threads_are_shown(self):
        quick = ["inspect", "--machine", "--json", "--seconds", "0.001"]
        free = self.run_ok(*quick).json
        pinned = self.run_ok(*quick, "--pin").json
        self.assertFalse(free["measured"]["pinned"])
        self.assertTrue(pinned["measured"]["pinned"])
        self.assertEqual(pinned["usable_cpus"], free["usable_cpus"])

    def test_text(self):
        text = self.run_ok("inspect", "--machine", "--seconds", "0.01", "-t", "1").text
        for part in ("processor", "instruction set", "L1 cache", "NUMA nodes", "memory read, GB/s", "8-bit dot peak"):
            self.assertIn(part, text)

    def test_wrong_options(self):
        self.check(soli("inspect"), USAGE, "MODEL, --machine or --shape")
        self.check(soli("inspect", "model", "--machine"), USAGE, "excludes")
        self.check(soli("inspect", "--machine", "--seconds", "0"), USAGE, "--seconds")
        self.check(soli("inspect", "--machine", "--seconds", "nan"), USAGE, "--seconds")
        self.check(soli("inspect", "--machine", "-t", "x"), USAGE, "--threads")


if __name__ == "__main__":
    main()
