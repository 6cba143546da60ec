#!/usr/bin/python3
"""Sends requests to a running server as they would arrive, and tells how long each client waited.

Arrivals are a Poisson process of a rate, in bursts if wanted, or, without a rate, as soon as a place is free. Prompts
are cut out of a text, in a mixture of lengths, each length a class with figures of its own. Times are monotonic, and
begin when a request was due, so that a client that was kept waiting by --concurrency counts that too.

  time to first token   from the due time to the first event with text
  between tokens        between two events with text of one stream; an event mostly is one token
  per token             of a stream, from its first event with text to its last, by the tokens after the first
  end to end            from the due time to the last byte
  throughput            generated tokens of whole answers, by the first due time and the last byte
"""

import argparse
import asyncio
import json
import pathlib
import random
import sys
import time

import client
from percentile import DEFINITION, PERCENTS, milliseconds, spread, table
from workload import Mixture, prompts_of, tokens_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = """examples:
  load.py --url http://127.0.0.1:8080 --requests 200 --concurrency 32
  load.py --rate 4 --seconds 60 --prompt-tokens 32:3,1000-2000:1 --max-tokens 16-128 --json
  load.py --rate 8 --burst 16 --requests 256 --shared-prefix 500 --prompt-tokens 600 --key $KEY

exit status: 0 all requests were answered, 1 some were refused or failed, 2 the command line is wrong
"""
LAG_S = 0.01  # how often the client looks whether it is late itself


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8080", help="(%(default)s)")
    add("--key", help="API key")
    add("--requests", type=int, default=0, metavar="N", help="so many; 0: as many as fit --seconds, or else 100")
    add("--seconds", type=float, default=0, metavar="S", help="no arrivals after so long; 0: no limit")
    add("--rate", type=float, default=0, metavar="R", help="arrivals a second; 0: one whenever a place is free")
    add("--burst", type=int, default=1, metavar="N", help="arrivals come N at a time; needs --rate (%(default)s)")
    add("--concurrency", type=int, default=64, metavar="N", help="requests at a time; others wait (%(default)s)")
    add("--prompt-tokens", default="64:3,1000:1", metavar="MIX", help="N or N-M, each with :SHARE (%(default)s)")
    add("--max-tokens", default="64", metavar="MIX", help="the same for answers (%(default)s)")
    add("--shared-prefix", type=int, default=0, metavar="N", help="all prompts begin with the same N tokens")
    add("--plain-share", type=float, default=0, metavar="X", help="this share is asked for plainly (%(default)s)")
    add("--may-end", action="store_true", help="answers may end early; else ignore_eos is sent (soli, vLLM)")
    add("--text", type=pathlib.Path, default=ROOT / "docs", help="file or folder to cut prompts out of (%(default)s)")
    add("--seed", type=int, default=1, help="of arrivals, lengths and prompts (%(default)s)")
    add("--timeout", type=float, default=600, metavar="S", help="of one request (%(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    try:
        options.address, options.base = client.address_of(options.url)
        options.prompt_mix = Mixture(options.prompt_tokens)
        options.answer_mix = Mixture(options.max_tokens)
    except ValueError as error:
        parser.error(str(error))
    for name in ("requests", "seconds", "rate", "shared_prefix"):
        if getattr(options, name) < 0:
            parser.error(f"--{name.replace('_', '-')} is not negative")
    if options.burst < 1 or options.concurrency < 1 or options.timeout <= 0:
        parser.error("--burst, --concurrency and --timeout are above 0")
    if options.burst > 1 and not options.rate:
        parser.error("--burst needs --rate")
    if not 0 <= options.plain_share <= 1:
        parser.error("--plain-share is from 0 to 1")
    if not options.requests and not options.seconds:
        options.requests = 100
    return options


class Record:
    """What one client saw."""

    def __init__(self, kind, is_stream, due_s):
        self.kind = kind  # the class: what --prompt-tokens calls it
        self.is_stream = is_stream
        self.due_s = due_s
        self.outcome = "failed"
        self.text_s = []  # of each event with text
        self.end_s = None
        self.usage = None


def has_text(payload):
    if payload == "[DONE]":
        return False
    chunk = json.loads(payload)
    return any(choice.get("text") or choice.get("delta", {}).get("content") for choice in chunk.get("choices", []))


async def run_request(options, body, record):
    """One request on a connection of its own; fills the record in and never fails."""

    async def talk():
        connection = await client.Connection.open(options.address)
        try:
            await connection.send("POST", options.base + "/v1/completions", body, options.key)
            return await connection.read_answer()
        finally:
            connection.close()

    try:
        answer = await asyncio.wait_for(talk(), options.timeout)
    except asyncio.TimeoutError:
        record.outcome = f"no end within {options.timeout:g} s"
        return
    except (OSError, client.ProtocolError) as error:
        record.outcome = str(error) or type(error).__name__
        return
    record.end_s = answer.end_s
    if answer.status != 200:
        record.outcome = f"HTTP {answer.status}"
    elif not answer.is_stream:
        record.outcome = "answered"
        record.usage = answer.json().get("usage")
    elif not answer.events or answer.events[-1][1] != "[DONE]":
        record.outcome = "a stream without its end"
    else:
        record.outcome = "answered"
        record.text_s = [seconds for seconds, payload in answer.events if has_text(payload)]
        record.usage = next((chunk["usage"] for chunk in reversed(answer.chunks()) if chunk.get("usage")), None)


class Load:
    """Sends the requests, and keeps their records."""

    def __init__(self, options, ids):
        self.options = options
        self.random = random.Random(options.seed)
        self.prompts = prompts_of(ids, options.shared_prefix, self.random)
        self.records = []
        self.places = asyncio.Semaphore(options.concurrency)
        self.lags_s = []

    def next_body(self):
        kind, n_prompt = self.options.prompt_mix.draw(self.random)
        _, n_answer = self.options.answer_mix.draw(self.random)
        is_stream = self.random.random() >= self.options.plain_share
        body = {"prompt": self.prompts(n_prompt), "max_tokens": n_answer, "temperature": 0, "stream": is_stream}
        if is_stream:
            body["stream_options"] = {"include_usage": True}
        if not self.options.may_end:
            body["ignore_eos"] = True
        return kind, body

    async def send(self, kind, body, due_s, has_place):
        record = Record(kind, body["stream"], due_s)
        self.records.append(record)
        if not has_place:
            await self.places.acquire()
        try:
            await run_request(self.options, body, record)
        finally:
            self.places.release()

    async def watch_lag(self):
        while True:
            begin = time.monotonic()
            await asyncio.sleep(LAG_S)
            self.lags_s.append(time.monotonic() - begin - LAG_S)

    async def run(self):
        options = self.options
        watch = asyncio.create_task(self.watch_lag())
        tasks = []
        begin = due_s = time.monotonic()
        while not options.requests or len(tasks) < options.requests:
            if options.rate:
                if len(tasks) % options.burst == 0:
                    due_s += self.random.expovariate(options.rate / options.burst)
                if options.seconds and due_s - begin >= options.seconds:
                    break
                await asyncio.sleep(max(0, due_s - time.monotonic()))
            else:
                await self.places.acquire()
                due_s = time.monotonic()
                if options.seconds and due_s - begin >= options.seconds:
                    break
            kind, body = self.next_body()
            tasks.append(asyncio.create_task(self.send(kind, body, due_s, not options.rate)))
        await asyncio.gather(*tasks)
        watch.cancel()


def figures_of(records):
    answered = [record for record in records if record.outcome == "answered"]
    streams = [record for record in answered if record.text_s]
    # A stream's mean by its usage: what a client waits for a token, however events are packed.
    means = [
        (record.text_s[-1] - record.text_s[0]) / (record.usage["completion_tokens"] - 1)
        for record in streams
        if record.usage and record.usage["completion_tokens"] > 1
    ]
    gaps = [later - earlier for r in streams for earlier, later in zip(r.text_s, r.text_s[1:])]
    counted = [record.usage for record in answered if record.usage]
    outcomes = {}
    for record in records:
        outcomes[record.outcome] = outcomes.get(record.outcome, 0) + 1
    return {
        "requests": len(records),
        "answered": len(answered),
        "outcomes": outcomes,
        "prompt_tokens": sum(usage["prompt_tokens"] for usage in counted),
        "cached_tokens": sum(
            (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for usage in counted
        ),
        "generated_tokens": sum(usage["completion_tokens"] for usage in counted),
        "time_to_first_token_s": spread([record.text_s[0] - record.due_s for record in streams]),
        "time_between_tokens_s": spread(gaps),
        "time_per_token_s": spread(means),
        "end_to_end_s": spread([record.end_s - record.due_s for record in answered]),
    }


def report_of(load, prompts_by):
    records = load.records
    kinds = sorted({record.kind for record in records}, key=lambda kind: int(kind.split("-")[0]))
    ends = [record.end_s for record in records if record.end_s]
    wall_s = max(ends) - min(record.due_s for record in records) if ends else None
    everything = figures_of(records)
    report = {
        "percentile": DEFINITION,
        "prompts": prompts_by,
        "wall_s": wall_s,
        "all": everything,
        "classes": {kind: figures_of([r for r in records if r.kind == kind]) for kind in kinds},
        "client_lag_s": spread(load.lags_s),
        "not_measured": not_measured(records, load.lags_s),
    }
    if wall_s:
        report["generated_tokens_per_s"] = everything["generated_tokens"] / wall_s
        report["prompt_tokens_per_s"] = everything["prompt_tokens"] / wall_s
        report["answers_per_s"] = everything["answered"] / wall_s
    return report


def not_measured(records, lags_s):
    answered = [record for record in records if record.outcome == "answered"]
    notes = []
    if n := sum(1 for record in answered if not record.is_stream):
        notes.append(f"{n} plain answers come at once: of them only the end is timed")
    if n := sum(1 for record in answered if record.is_stream and not record.text_s):
        notes.append(f"{n} streams had no text: they have no first token")
    if n := sum(1 for record in answered if not record.usage):
        notes.append(f"{n} answers did not say their usage: their tokens are not in the throughput")
    n_events = sum(len(record.text_s) for record in answered if record.usage)
    n_tokens = sum(record.usage["completion_tokens"] for record in answered if record.usage and record.text_s)
    if n_events < n_tokens:
        notes.append(
            f"{n_tokens - n_events} of {n_tokens} streamed tokens had no event of their own (halves of characters, "
            "control tokens): the time between tokens leaps over them"
        )
    for what, n in (("first tokens", sum(1 for r in answered if r.text_s)), ("answers", len(answered))):
        if 0 < n < 100:
            notes.append(f"with {n} {what}, p99 is the greatest")
    lag_s = spread(lags_s).get("p99") or 0
    if lag_s > 0.005:
        notes.append(f"this client was late by {milliseconds(lag_s)} ms (p99): shorter times are its own")
    return notes


def text_of(report):
    rows = [["class", "answered"]]
    names = ("time_to_first_token_s", "time_between_tokens_s", "time_per_token_s", "end_to_end_s")
    for name in ("first", "between", "per token", "end"):
        rows[0] += [f"{name} p{PERCENTS[0]}"] + [f"p{percent}" for percent in PERCENTS[1:]]
    for kind, figures in [*report["classes"].items(), ("all", report["all"])]:
        row = [kind, f"{figures['answered']}/{figures['requests']}"]
        for name in names:
            row += [milliseconds(figures[name].get(f"p{percent}")) for percent in PERCENTS]
        rows.append(row)
    lines = [table(rows), "times in ms; classes are the tokens of prompts. " + DEFINITION, report["prompts"]]
    everything = report["all"]
    if report["wall_s"]:
        lines.append(
            f"{report['wall_s']:.2f} s: {report['generated_tokens_per_s']:.1f} generated tokens/s, "
            f"{report['prompt_tokens_per_s']:.1f} prompt tokens/s ({everything['cached_tokens']} of "
            f"{everything['prompt_tokens']} from the prefix cache), {report['answers_per_s']:.2f} answers/s"
        )
    lines += [f"{n} x {outcome}" for outcome, n in sorted(everything["outcomes"].items())]
    lines += [f"not measured: {note}" for note in report["not_measured"]]
    return "\n".join(lines)


async def main():
    options = parse()
    try:
        options.address = await client.resolve(options.address)
        ids, prompts_by = await tokens_of(options.text, options.address, options.base, options.key)
    except (OSError, RuntimeError, client.ProtocolError) as error:
        print(f"load.py: {options.url}: {error}", file=sys.stderr)
        return 1
    load = Load(options, ids)
    await load.run()
    report = report_of(load, prompts_by)
    print(json.dumps(report, indent=1) if options.json else text_of(report))
    return 0 if report["all"]["answered"] == report["all"]["requests"] else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
