#!/usr/bin/python3
"""Measures what serving costs, as ratios within one run: each side on the same machine within the same minutes.

  throughput  tokens/s of 32 streams together, against `soli bench` with 32 sequences in a step
  prefill     p99 time between tokens of 16 streams while a prompt of 4,000 tokens is read, against undisturbed
  prefix      first token of a prompt whose first 2,000 tokens were seen before, against a new one
  crowd       resident memory of 1,000 idle connections, and the pace of 8 streams beside 200 readers that hardly read

Sides alternate for --rounds rounds; ratios are of medians (of all gaps of all rounds for p99). A ratio that misses its
bound ends the program with status 1. Leave the machine alone meanwhile.
"""

import argparse
import asyncio
import json
import pathlib
import random as randomness
import resource
import statistics
import subprocess
import sys
import time

import client
from percentile import DEFINITION, percentile
from server_process import ServerProcess
from workload import prompts_of, tokens_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = """examples:
  soli synth --preset olmoe-1b-7b --type Q4_K_M -o olmoe.gguf && figures.py olmoe.gguf
  figures.py olmoe.gguf --only prefill,prefix --rounds 5 --json
  figures.py models/demo/soli-demo-16x2-q8_0.gguf --only crowd
"""
COMPLETIONS = "/v1/completions"
PATIENCE_S = 3600


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("model", type=pathlib.Path, help="GGUF file")
    add("--soli", type=pathlib.Path, default=ROOT / "build/release/src/soli", help="(%(default)s)")
    add("--only", default=",".join(FIGURES), metavar="NAMES", help="some of: %(default)s")
    add("--rounds", type=int, default=3, metavar="N", help="(%(default)s)")
    add("--generate", type=int, default=64, metavar="N", help="tokens of a stream that are measured (%(default)s)")
    add("--streams", type=int, default=32, metavar="N", help="of throughput (%(default)s)")
    add("--running", type=int, default=16, metavar="N", help="streams of prefill (%(default)s)")
    add("--long-prompt", type=int, default=4000, metavar="N", help="tokens of prefill's prompt (%(default)s)")
    add("--prefix", type=int, default=2000, metavar="N", help="shared tokens of prefix (%(default)s)")
    add("--idle", type=int, default=1000, metavar="N", help="idle connections of crowd (%(default)s)")
    add("--slow", type=int, default=200, metavar="N", help="slow readers of crowd (%(default)s)")
    add("--text", type=pathlib.Path, default=ROOT / "docs", help="file or folder to cut prompts out of (%(default)s)")
    add("--threads", type=int, default=0, metavar="N", help="of the model, on both sides; 0: one per core")
    add("--seed", type=int, default=1, help="of the prompts (%(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    options.only = [name.strip() for name in options.only.split(",")]
    for name in options.only:
        if name not in FIGURES:
            parser.error(f"--only {name}: there are {', '.join(FIGURES)}")
    for path in (options.model, options.soli):
        if not path.is_file():
            parser.error(f"{path} is not a file")
    for name in ("rounds", "generate", "streams", "running", "long_prompt", "prefix", "idle", "slow"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is at least 1")
    return options


class Bench:
    """One server with a source of prompts."""

    def __init__(self, options, ctx, parallel):
        self.options = options
        arguments = [options.model, "--ctx", ctx, "--parallel", parallel, "--no-access-log", "-t", options.threads]
        arguments += ["--write-timeout", PATIENCE_S, "--idle-timeout", PATIENCE_S]
        self.server = ServerProcess(options.soli, arguments)
        self.address = self.server.address
        self.prompt = None

    async def prepare(self, random):
        tokens, _ = await tokens_of(self.options.text, self.address, "", None)
        self.prompt = prompts_of(tokens, 0, random)
        await self.answer(self.prompt(8), 4)  # warms up
        return self

    def end(self):
        self.server.end(60)

    async def generated_tokens(self):
        """By the server's counter, since a token need not have an event of its own."""
        return client.total(await client.metrics(self.address), "soli_generation_tokens_total")

    async def open_stream(self, prompt, n, receive_bytes=None, **further):
        connection = await client.Connection.open(self.address, receive_bytes)
        body = {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True}
        body.update(further)
        await connection.send("POST", COMPLETIONS, body)
        return connection

    async def answer(self, prompt, n, on_event=None, **further):
        """The events of a stream to its end, and the time before it was asked for."""
        begin = time.monotonic()
        connection = await self.open_stream(prompt, n, **further)
        try:
            answer = await connection.read_answer(on_event)
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"HTTP {answer.status}: {answer.body[:300].decode(errors='replace')}")
        return begin, answer

    async def first_token_s(self, prompt):
        begin, answer = await self.answer(prompt, 1)
        return answer.events[0][0] - begin


class Streams:
    """Streams that run beside each other; what came when is kept for each."""

    def __init__(self, bench, n, n_prompt, n_generate):
        self.bench = bench
        self.times = [[] for _ in range(n)]
        self.is_wanted = True
        self.tasks = [asyncio.create_task(self._read(i, bench.prompt(n_prompt), n_generate)) for i in range(n)]

    async def _read(self, i, prompt, n_generate):
        def on_event(answer):
            seconds, payload = answer.events[-1]
            if payload != "[DONE]":
                self.times[i].append(seconds)
            return self.is_wanted

        await self.bench.answer(prompt, n_generate, on_event)

    async def wait_until_each_has(self, n):
        while any(len(times) < n for times in self.times):
            for task in self.tasks:
                if task.done():
                    task.result()
                    raise RuntimeError("a stream ended before it was measured: its context is too small")
            await asyncio.sleep(0.005)

    async def leave(self):
        self.is_wanted = False
        await asyncio.gather(*self.tasks)

    def gaps_s(self, begin, end):
        """Times between events, of those that end within a span."""
        return [
            later - earlier
            for times in self.times
            for earlier, later in zip(times, times[1:])
            if begin <= later <= end
        ]


def bench_decode(options):
    """Tokens/s of `soli bench`, in one repetition, and the prompts that it decodes after."""
    command = [options.soli, "bench", options.model, "--prompt", "none", "--sequences", options.streams]
    command += ["--generate", options.generate, "--repetitions", 1, "-t", options.threads, "--json"]
    run = subprocess.run([str(part) for part in command], capture_output=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"soli bench: {run.stderr.decode(errors='replace')}")
    figures = json.loads(run.stdout)
    if figures["void"]:
        print(f"soli bench says: {figures['void']}", file=sys.stderr)
    return figures["decode"][0]["tokens_per_s"]["median"], figures["decode"][0]["prompt"]


async def throughput(options, random):
    rates, peers = [], []
    for _ in range(options.rounds):
        # One at a time is in memory, and has the machine for itself.
        rate, n_prompt = await asyncio.to_thread(bench_decode, options)
        peers.append(rate)
        # More tokens than are measured, so that no stream is at its end before the others.
        n_generate = 4 * options.generate
        bench = await Bench(options, n_prompt + n_generate + 64, options.streams).prepare(random)
        try:
            streams = Streams(bench, options.streams, n_prompt, n_generate)
            await streams.wait_until_each_has(2)
            begin, had = time.monotonic(), await bench.generated_tokens()
            await streams.wait_until_each_has(min(map(len, streams.times)) + options.generate)
            rates.append((await bench.generated_tokens() - had) / (time.monotonic() - begin))
            await streams.leave()
        finally:
            bench.end()
    return {
        "what": f"tokens/s of {options.streams} streams over those of soli bench with {options.streams} sequences, "
        "both from the first step that all share",
        "served_tokens_per_s": rates,
        "bench_tokens_per_s": peers,
        "ratio": statistics.median(rates) / statistics.median(peers),
        "at_least": 0.9,
    }


async def prefill(options, random):
    undisturbed, disturbed, firsts = [], [], []
    # What a stream generates until the long prompt has been read is not known before: up to its context.
    ctx = options.long_prompt + 4096
    bench = await Bench(options, ctx, options.running + 2).prepare(random)
    try:
        for _ in range(options.rounds):
            streams = Streams(bench, options.running, 32, ctx - 64)
            await streams.wait_until_each_has(8)
            begin = time.monotonic()
            await streams.wait_until_each_has(min(map(len, streams.times)) + options.generate)
            middle = time.monotonic()
            undisturbed += streams.gaps_s(begin, middle)
            seconds = await bench.first_token_s(bench.prompt(options.long_prompt))
            disturbed += streams.gaps_s(middle, middle + seconds)
            firsts.append(seconds)
            await streams.leave()
    finally:
        bench.end()
    return {
        "what": f"p99 time between tokens of {options.running} streams while {options.long_prompt} tokens are read, "
        "over undisturbed",
        "undisturbed_ms": 1000 * percentile(undisturbed, 99),
        "disturbed_ms": 1000 * percentile(disturbed, 99),
        "undisturbed_median_ms": 1000 * percentile(undisturbed, 50),
        "disturbed_median_ms": 1000 * percentile(disturbed, 50),
        "gaps": [len(undisturbed), len(disturbed)],
        "first_token_s": firsts,
        "ratio": percentile(disturbed, 99) / percentile(undisturbed, 99),
        "at_most": 3,
    }


async def prefix(options, random):
    cold, warm = [], []
    bench = await Bench(options, options.prefix + 64, 4).prepare(random)
    try:
        for _ in range(options.rounds):
            shared = bench.prompt(options.prefix)  # a window of its own, so that it begins like none before
            cold.append(await bench.first_token_s(shared + bench.prompt(16)))
            warm.append(await bench.first_token_s(shared + bench.prompt(16)))
    finally:
        bench.end()
    return {
        "what": f"time to the first token of a second prompt with {options.prefix} tokens shared and 16 of its own, "
        "over the first one's",
        "cold_s": cold,
        "shared_s": warm,
        "ratio": statistics.median(warm) / statistics.median(cold),
        "at_most": 0.05,
    }


def allow_open_files(n):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n:
        raise RuntimeError(f"{hard} open files are allowed (ulimit -n); {n} are needed")
    if soft < n:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))


async def stand_still(bench):
    """Until the readers that do not read have been given all that they can hold."""
    before = -1
    while True:
        n = await bench.generated_tokens()
        if n == before:
            return
        before = n
        await asyncio.sleep(2)


async def idle_bytes(options, bench):
    before = bench.server.resident_bytes()
    connections = []
    for _ in range(options.idle):
        connection = await client.Connection.open(bench.address)
        await connection.send("GET", "/health")
        if (await connection.read_answer()).status != 200:
            raise RuntimeError("/health was refused")
        connections.append(connection)
    after = bench.server.resident_bytes()
    for connection in connections:
        connection.close()
    return after - before


async def trickle(connection):
    """Reads a little every few seconds, for ever."""
    try:
        await connection.read_answer(pace=client.Pace(256, 5))
    except (OSError, client.ProtocolError):
        pass


async def pace_s(bench, options):
    # More than are measured: a stream that begins late must not outlast the others.
    streams = Streams(bench, 8, 32, 8 * options.generate)
    await streams.wait_until_each_has(4)
    begin = time.monotonic()
    await streams.wait_until_each_has(4 + options.generate)
    gaps = streams.gaps_s(begin, time.monotonic())
    await streams.leave()
    return gaps


async def crowd(options, random):
    allow_open_files(options.idle + options.slow + 200)
    bench = await Bench(options, 1024, 16).prepare(random)
    try:
        n_bytes = await idle_bytes(options, bench)
        alone = [gap for _ in range(options.rounds) for gap in await pace_s(bench, options)]
        slow, readers = [], []
        for _ in range(options.slow):
            # Long events, so that a client's buffers are soon full.
            slow.append(await bench.open_stream(bench.prompt(16), 900, 4096, logprobs=20))
            readers.append(asyncio.create_task(trickle(slow[-1])))
        await stand_still(bench)
        values = await client.metrics(bench.address)
        beside = [gap for _ in range(options.rounds) for gap in await pace_s(bench, options)]
        for reader, connection in zip(readers, slow):
            reader.cancel()
            connection.close()
    finally:
        bench.end()
    return {
        "what": f"mean time between tokens of 8 streams beside {options.slow} readers that hardly read, over alone",
        "idle_connections": options.idle,
        "idle_connections_mib": n_bytes / 2**20,
        "idle_connections_mib_at_most": 30,
        "slow_readers_paused": client.total(values, "soli_num_requests_paused"),
        "alone_median_ms": 1000 * percentile(alone, 50),
        "beside_median_ms": 1000 * percentile(beside, 50),
        "alone_p99_ms": 1000 * percentile(alone, 99),
        "beside_p99_ms": 1000 * percentile(beside, 99),
        "ratio": sum(beside) / len(beside) / (sum(alone) / len(alone)),
        "at_most": 1.1,
    }


FIGURES = {"throughput": throughput, "prefill": prefill, "prefix": prefix, "crowd": crowd}


def holds(figure):
    within = figure.get("at_least", 0) <= figure["ratio"] <= figure.get("at_most", float("inf"))
    return within and figure.get("idle_connections_mib", 0) <= figure.get("idle_connections_mib_at_most", 0)


def shown(value):
    if isinstance(value, list):
        return " ".join(map(shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def text_of(name, figure):
    bound = f"at least {figure['at_least']}" if "at_least" in figure else f"at most {figure['at_most']}"
    verdict = "holds" if figure["holds"] else "MISSED"
    lines = [f"{name}: {figure['ratio']:.4f} ({bound}: {verdict})", f"  {figure['what']}"]
    rest = [key for key in figure if key not in ("what", "ratio", "at_least", "at_most", "holds")]
    return "\n".join(lines + [f"  {key}: {shown(figure[key])}" for key in rest])


async def main():
    options = parse()
    figures = {}
    for name in options.only:
        try:
            figures[name] = await FIGURES[name](options, randomness.Random(options.seed))
        except (OSError, RuntimeError, client.ProtocolError) as error:
            print(f"figures.py: {name} could not be measured: {error}", file=sys.stderr)
            return 1
        figures[name]["holds"] = holds(figures[name])
        if not options.json:
            print(text_of(name, figures[name]), flush=True)
    if options.json:
        print(json.dumps({"model": str(options.model), "percentile": DEFINITION, **figures}, indent=1))
    return 0 if all(figure["holds"] for figure in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
