#!/usr/bin/env python3
"""How many distinct experts a step needs, when requests share batches as they come and when like ones do.

Samples requests of several domains (one text file each), lets the model continue them, and replays their recorded
routing: `--backlog` requests wait; a batch is either the next ones, or the oldest with those that are most like it
(sum over layers and experts of the lesser share): by the prompts' own routing, which nobody knows before they are read,
or by what the prompts' tokens called in the other requests, which the engine can know. Counts distinct (layer, expert)
pairs per step.

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


class Request:
    """What a prompt and its continuation called; profiles are the experts' shares of the calls, by layer."""

    def __init__(self, routing):
        n_prompt = routing["n_prompt"]
        called = [[frozenset(layer["ids"]) for layer in token["layers"]] for token in routing["tokens"]]
        self.tokens = [token["token"] for token in routing["tokens"][:n_prompt]]
        self.prompt = called[:n_prompt]
        self.generated = called[n_prompt:]
        self.by_routing = profile(self.prompt)
        self.by_tokens = None


def profile(called):
    """Of tokens, each [layers] sets of experts, or [layers] counters of calls."""
    counters = [collections.Counter() for _ in called[0]]
    for token in called:
        for counter, ids in zip(counters, token):
            counter.update(ids)
    totals = [sum(counter.values()) or 1 for counter in counters]
    return [{e: n / total for e, n in counter.items()} for counter, total in zip(counters, totals)]


def learn_from_the_others(requests):
    """Fills in by_tokens: for each request, what its tokens called in all others."""
    table = collections.defaultdict(lambda: [collections.Counter() for _ in requests[0].prompt[0]])

    def count(request, sign):
        for token, called in zip(request.tokens, request.prompt):
            for counter, ids in zip(table[token], called):
                for expert in ids:
                    counter[expert] += sign

    for request in requests:
        count(request, 1)
    for request in requests:
        count(request, -1)
        known = [profile([table[token]]) for token in request.tokens]
        request.by_tokens = profile([[collections.Counter(shares) for shares in token] for token in known])
        count(request, 1)


def record(soli, model, text, seed, folder):
    """A request with its continuation, or None where it does not fit into the context."""
    out = pathlib.Path(folder) / "routing.json"
    command = [soli, "run", model, "-p", text, "-n", str(GENERATED), "--temp", "1", "--seed", str(seed)]
    done = subprocess.run(command + ["--routing-json", out], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    request = Request(json.loads(out.read_text()))
    return request if len(request.generated) >= GENERATED - 4 else None


def likeness(a, b):
    return sum(min(share, y.get(expert, 0)) for x, y in zip(a, b) for expert, share in x.items())


def distinct_per_step(batch):
    steps = GENERATED - 4
    layers = range(len(batch[0].prompt[0]))
    pairs = [frozenset().union(*(r.generated[step][layer] for r in batch)) for step in range(steps) for layer in layers]
    return sum(map(len, pairs)) / steps


def in_order(waiting, size):
    return [waiting[i : i + size] for i in range(0, len(waiting) - size + 1, size)]


def grouped(waiting, size, profile_of):
    left = list(waiting)
    batches = []
    while len(left) >= size:
        batch = [left.pop(0)]
        while len(batch) < size:
            alike = [sum(likeness(profile_of(one), profile_of(other)) for other in batch) for one in left]
            batch.append(left.pop(alike.index(max(alike))))
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
    learn_from_the_others(requests)
    arrangements = [
        in_order,
        lambda waiting, size: grouped(waiting, size, lambda request: request.by_routing),
        lambda waiting, size: grouped(waiting, size, lambda request: request.by_tokens),
    ]
    chance = random.Random(1)
    print(f"{len(requests)} requests; distinct (layer, expert) pairs per step")
    print("batch   in order   by the prompts' routing   by their tokens elsewhere")
    for size in (2, 4, 8, 16, 32):
        backlogs = [chance.sample(requests, options.backlog) for _ in range(options.repetitions)]
        means = []
        for arrange in arrangements:
            counts = [distinct_per_step(batch) for backlog in backlogs for batch in arrange(backlog, size)]
            means.append(sum(counts) / len(counts))
        fewer = [100 * (1 - mean / means[0]) for mean in means]
        routed, known = (f"{means[i]:14.2f} ({fewer[i]:4.1f} % fewer)" for i in (1, 2))
        print(f"{size:5} {means[0]:10.2f} {routed} {known}")


if __name__ == "__main__":
    main()
