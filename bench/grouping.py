#!/usr/bin/env python3
"""How many distinct experts a step needs, when requests share batches as they come and when like ones do.

Samples requests of several domains (one text file each), lets the model continue them, and replays their recorded
routing: `--backlog` requests wait; a batch is either the next ones, or the oldest with those whose prompts' routing is
most like its own (sum over layers and experts of the lesser share). Counts distinct (layer, expert) pairs per step.

    bench/grouping.py build/release/src/soli models/demo/soli-demo-16x2-q8_0.gguf TEXTS/*.txt
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

PROMPT_CHARACTERS = 350
GENERATED = 64


def record(soli, model, text, seed, folder):
    """The routing of a prompt and its continuation, or None where it does not fit into the context."""
    out = pathlib.Path(folder) / "routing.json"
    command = [soli, "run", model, "-p", text, "-n", str(GENERATED), "--temp", "1", "--seed", str(seed)]
    done = subprocess.run(command + ["--routing-json", out], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    routing = json.loads(out.read_text())
    tokens = [[frozenset(layer["ids"]) for layer in token["layers"]] for token in routing["tokens"]]
    n_prompt = routing["n_prompt"]
    profile = [collections.Counter() for _ in tokens[0]]
    for token in tokens[:n_prompt]:
        for counter, ids in zip(profile, token):
            counter.update({expert: 1 / n_prompt for expert in ids})
    generated = tokens[n_prompt:]
    return (generated, profile) if len(generated) >= GENERATED - 4 else None


def likeness(a, b):
    return sum(min(share, y[expert]) for x, y in zip(a[1], b[1]) for expert, share in x.items())


def distinct_per_step(batch):
    steps = GENERATED - 4
    n = 0
    for step in range(steps):
        for layer in range(len(batch[0][1])):
            n += len(frozenset().union(*(request[0][step][layer] for request in batch)))
    return n / steps


def in_order(waiting, size):
    return [waiting[i : i + size] for i in range(0, len(waiting) - size + 1, size)]


def grouped(waiting, size):
    left = list(waiting)
    batches = []
    while len(left) >= size:
        batch = [left.pop(0)]
        while len(batch) < size:
            best = max(range(len(left)), key=lambda i: sum(likeness(left[i], other) for other in batch))
            batch.append(left.pop(best))
        batches.append(batch)
    return batches


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("soli")
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--samples", type=int, default=12, help="requests of each text")
    parser.add_argument("--backlog", type=int, default=64, help="requests that wait")
    parser.add_argument("--repetitions", type=int, default=60)
    options = parser.parse_args()
    requests = []
    with tempfile.TemporaryDirectory() as folder:
        for path in options.texts:
            text = pathlib.Path(path).read_text(errors="ignore")
            for i in range(options.samples):
                begin = len(text) // options.samples * i
                sample = text[begin : begin + PROMPT_CHARACTERS]
                requests.append(record(options.soli, options.model, sample, len(requests), folder))
    requests = [request for request in requests if request]
    if len(requests) < options.backlog:
        sys.exit(f"{len(requests)} requests fit into the context; --backlog {options.backlog} needs more")
    chance = random.Random(1)
    print(f"{len(requests)} requests; distinct (layer, expert) pairs per step")
    print("batch   in order    grouped     fewer")
    for size in (2, 4, 8, 16, 32):
        means = []
        for arrange in (in_order, grouped):
            backlogs = [chance.sample(requests, options.backlog) for _ in range(options.repetitions)]
            counts = [distinct_per_step(batch) for backlog in backlogs for batch in arrange(backlog, size)]
            means.append(sum(counts) / len(counts))
        print(f"{size:5} {means[0]:10.2f} {means[1]:10.2f} {100 * (1 - means[1] / means[0]):8.1f} %")


if __name__ == "__main__":
    main()
