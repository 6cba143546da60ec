"""Families beside llama.cpp: random weights of each, logits of both engines compared.

Runs where the peer is installed (bench/peers/fetch.sh, then bench/peers/build.sh) and is skipped elsewhere.
"""

import array
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = pathlib.Path(os.environ.get("SOLI_PEER", ROOT / "build" / "peers" / "llama_driver"))
TIMEOUT_S = 300
VOCABULARY = 320
CONTEXT = 256  # of the driver
TOKENS = [(7 * i * i + 3 * i + 11) % VOCABULARY for i in range(60)]

# A tiny model of the family in the first place, with options of `soli synth` that reach every trait.
MODELS = [
    "llama --set rope.scaling.factor=2",
    "olmoe --kv-heads 4 --experts 5 --experts-per-token 5",
    "qwen2moe",
    "qwen3moe --head-dim 24 --experts 60 --experts-per-token 7",
    "deepseek2 --set rope.scaling.type=yarn --set rope.scaling.factor=4"
    " --set rope.scaling.original_context_length=64 --set rope.scaling.yarn_log_multiplier=0.0707",
    "deepseek2 --set expert_gating_func=2 --set expert_weights_norm=1 --set expert_weights_scale=2.5"
    " --layers 27 --set attention.q_lora_rank=0",
    "deepseek2 --fuse-attention --fuse-experts --set rope.scaling.type=yarn --set rope.scaling.factor=4"
    " --set rope.scaling.original_context_length=64 --set rope.scaling.yarn_log_multiplier=0.1",
    "gpt-oss --set rope.scaling.type=yarn --set rope.scaling.factor=32 --set rope.scaling.original_context_length=64",
    "gpt-oss --head-dim 20 --set attention.sliding_window=7",
    "glm4moe --set rope.dimension_count=6 --set expert_weights_scale=1.5",
    "phimoe --context 4096 --set rope.scaling.type=longrope --set rope.scaling.original_context_length=512"
    " --set rope.scaling.attn_factor=1.19",
    "phimoe --context 512 --set rope.scaling.type=longrope --set rope.scaling.original_context_length=64",
    "dots1 --kv-heads 4 --set expert_gating_func=2 --set expert_weights_norm=1 --set expert_weights_scale=2.5",
    "minimax-m2 --set rope.dimension_count=8",
    "ernie4_5-moe --layers 5 --set leading_dense_block_count=3",
    "hunyuan-moe",
    "bailingmoe2 --kv-heads 4 --fuse-attention --set expert_weights_norm=1 --set expert_weights_scale=2.5",
    "granitemoe --set embedding_scale=12 --set residual_scale=0.22 --set attention.scale=0.0156 --set logit_scale=6",
]
# Floors of llama.cpp's own variants beside each other are 3e-7 to 2e-6 for models of this size.
TOLERANCE = 2e-5


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)


def read_floats(path):
    values = array.array("f")
    values.frombytes(path.read_bytes())
    return values


def relative_distance(ours, theirs):
    difference = math.fsum((a - b) ** 2 for a, b in zip(ours, theirs))
    return math.sqrt(difference / math.fsum(b * b for b in theirs))


@unittest.skipUnless(DRIVER.exists(), "llama.cpp is not installed: bench/peers/fetch.sh && bench/peers/build.sh")
class FamiliesBesideLlamaCpp(unittest.TestCase):
    def test_logits_agree(self):
        soli = sys.argv[1]
        ids = ",".join(map(str, TOKENS))
        for model in MODELS:
            family, *options = model.split()
            with self.subTest(model=model), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                run(soli, "synth", "--family", family, *options, "--type", "F32", "-o", folder / "model.gguf")
                run(DRIVER, folder / "model.gguf", "-t", 1, "--token-ids", ids, "--logits", folder / "theirs")
                exact = ("--act", "f32", "--kv", "f32", "-c", CONTEXT)
                run(soli, "logits", folder / "model.gguf", *exact, "--token-ids", ids, "--out", folder / "ours")
                ours, theirs = read_floats(folder / "ours"), read_floats(folder / "theirs")
                self.assertEqual(len(ours), len(TOKENS) * VOCABULARY)
                self.assertEqual(len(ours), len(theirs))
                self.assertLess(relative_distance(ours, theirs), TOLERANCE)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
