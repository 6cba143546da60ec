#!/usr/bin/python3
"""Compares a model's bits at small memory budgets with its bits when everything is in memory.

    tests/exactness/budgets.py build/release/src/soli MODEL.gguf --budgets 700MiB,1200MiB

For each budget, cache policy and prefetch mode: the logits after each of 256 tokens of several prompts, the tokens
that follow the last of them (--greedy), and the perplexity of 16 windows that are computed in batches of 8; all of it
is compared in all its bits. Prints a line for each combination, and exits with status 1 where one differs. Too long
for every change: some 20 seconds for a combination on a model of 4 GB.
"""

import argparse
import hashlib
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLICIES = "auto,lru,lfu,least-stale,shares"
PREFETCH = "auto,off,always"
PROMPT_TOKENS = 256


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("soli")
    add("model")
    add("--budgets", required=True, help="memory budgets as --memory takes them, separated by commas")
    add("--policies", default=POLICIES, help="%(default)s")
    add("--prefetch", default=PREFETCH, help="%(default)s")
    add("--prompts", type=int, default=2, help="prompts of 256 random tokens (%(default)s)")
    add("--vocabulary", type=int, default=10000, help="token ids are below it (%(default)s)")
    add("--greedy", type=int, default=48, help="tokens to generate after the last prompt (%(default)s)")
    add("--text", default=ROOT / "tests" / "data" / "code_python.txt", help="for the batches (%(default)s)")
    add("--seed", type=int, default=5, help="of the prompts (%(default)s)")
    return parser.parse_args()


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def prompts_of(args):
    numbers = random.Random(args.seed)
    return [[numbers.randrange(args.vocabulary) for _ in range(PROMPT_TOKENS)] for _ in range(args.prompts)]


def bits(args, prompts, flags):
    """What is compared: digests of logits, generated tokens, and the perplexity in all its digits."""
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.f32"
        for prompt in prompts:
            command = [args.soli, "logits", args.model, "--token-ids", ",".join(map(str, prompt)), "--out", out, *flags]
            last = prompt is prompts[-1]
            seen.append(run([*command, "--greedy", args.greedy] if last else command))
            seen.append(hashlib.sha256(out.read_bytes()).hexdigest())
    batches = ["--text", args.text, "--window", 32, "--max-tokens", 512, "--parallel", 8, "--json"]
    seen.append(json.loads(run([args.soli, "eval", args.model, *batches, *flags]))["perplexity"])
    return seen


def main():
    args = parse()
    prompts = prompts_of(args)
    whole = bits(args, prompts, ["--memory", "auto"])
    print(f"everything in memory: {whole[-1]!r}, {whole[-2][:16]}", flush=True)
    different = 0
    choices = itertools.product(args.budgets.split(","), args.policies.split(","), args.prefetch.split(","))
    for budget, policy, prefetch in choices:
        start = time.monotonic()
        flags = ["--memory", budget, "--cache-policy", policy, "--prefetch", prefetch]
        equal = bits(args, prompts, flags) == whole
        different += not equal
        verdict = "equal" if equal else "DIFFERENT"
        print(f"{budget} {policy} {prefetch}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
