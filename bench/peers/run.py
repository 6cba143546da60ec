#!/usr/bin/python3
"""Measures soli and llama.cpp alternately on the same files and prints a Markdown table (see README.md)."""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys

import engines
import machine
import models
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]


def integers(text):
    return [int(part) for part in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "models",
        nargs="*",
        default=models.TARGETS,
        help="GGUF files, or PRESET:TYPE for synthetic ones; without any: " + ", ".join(models.TARGETS),
    )
    add = parser.add_argument
    add("--engines", default=",".join(engines.NAMES), help="of %(default)s; in this order they take turns")
    add("--rounds", type=int, default=5, help="turns of each engine, each a process of its own (%(default)s)")
    add("--repetitions", type=int, default=1, help="within a process; its median counts (%(default)s)")
    add("--prompts", type=integers, default=[64, 512], help="lengths of prompts (64,512)")
    add("--sequences", type=integers, default=[1, 8, 32], help="sequences that decode together (1,8,32)")
    add("--generate", type=int, default=64, help="decode steps (%(default)s)")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s: all cores)")
    add("--json", type=pathlib.Path, default=ROOT / "build/peers/runs.json", help="raw output (%(default)s)")
    add("--show", type=pathlib.Path, metavar="FILE", help="measure nothing; print the table of a raw output")
    add("--folder", type=pathlib.Path, default=ROOT / "build/peers/models", help="of synthetic files (%(default)s)")
    add("--keep", action="store_true", help="leave the synthetic files there")
    add("--busy", action="store_true", help="measure although the machine is not idle")
    add("--patience", type=float, default=60, help="seconds to wait for others before each turn (%(default)s)")
    add("--timeout", type=float, default=1800, help="seconds that a turn may take (%(default)s)")
    add("--soli", type=pathlib.Path, default=ROOT / "build/release/src/soli", help="(%(default)s)")
    add("--driver", type=pathlib.Path, default=ROOT / "build/peers/llama_driver", help="(%(default)s)")
    options = parser.parse_args()
    unknown = [name for name in options.engines.split(",") if name not in engines.NAMES]
    if unknown:
        parser.error(f"--engines: {unknown[0]} is none of {', '.join(engines.NAMES)}")
    options.engines = [engines.NAMES[name] for name in options.engines.split(",")]
    return options


def note(text):
    print(f"run.py: {text}", file=sys.stderr, flush=True)


def commit():
    """Which soli it is, as far as git knows."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


class Log:
    """The raw output, written anew after every turn, so that an interrupted run is not lost."""

    def __init__(self, path):
        self.path = path
        self.data = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": shlex.join(sys.argv),
            "machine": machine.describe(),
            "commit": commit(),
            "runs": [],
        }

    def add(self, run):
        self.data["runs"].append(run)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.data, indent=1), encoding="utf-8")


def take_turn(engine, path, name, turn, options):
    """One process of one engine; what it measured, or why not, and what else ran."""
    busy = machine.wait_until_idle(table.DISTURBED_CORES, options.patience)
    if busy > table.DISTURBED_CORES:
        note(f"warning: others keep {busy:.2f} cores busy")
    run = {"round": turn, "model": name, "engine": engine, "load_average": machine.load_average(), "busy_cores": busy}
    foreign = machine.Foreign()
    try:
        run["result"] = engines.measure(engine, path, options)
    except engines.Failure as failure:
        run["failure"] = str(failure)
        note(f"{engine}, {name}: {failure}")
    run["foreign_cores"] = foreign.cores()
    return run


def measure_all(options, log):
    for name in options.models:
        with models.opened(name, options) as path:
            for turn in range(options.rounds):
                for engine in options.engines:
                    note(f"{name}: round {turn + 1} of {options.rounds}, {engine}")
                    log.add(take_turn(engine, path, pathlib.Path(name).name, turn, options))


def versions(runs):
    """What the engines call themselves."""
    found = set()
    for run in runs:
        result = run.get("result", {})
        if "soli" in result:
            found.add(f"soli {result['soli']} ({result['isa']}, activations {result['activations']})")
        elif "engine" in result:
            found.add(f"{result['engine']} ({result['backend']}, flash attention {result['flash_attention']})")
    return sorted(found, reverse=True)


def report(data):
    runs = data["runs"]
    threads = sorted({run["result"]["threads"] for run in runs if "result" in run})
    loads = [run["load_average"] for run in runs]
    lines = [
        table.table_of(runs),
        "",
        "Median [least..most] of the rounds; of soli / peer, the ratio of the medians and of each round.",
        "",
        f"- {data['machine']}; threads: {', '.join(map(str, threads))}",
        f"- {'; '.join(versions(runs))}; commit {data['commit']}",
        f"- {data['date']}; load average before the turns {min(loads):.2f} to {max(loads):.2f}",
        f"- `{data['command']}`",
        *(f"- {each}" for each in table.notes_of(runs)),
    ]
    return "\n".join(lines)


def main():
    options = parse()
    if options.show:
        print(report(json.loads(options.show.read_text(encoding="utf-8"))))
        return 0
    for program, how in ((options.soli, "build the target soli"), (options.driver, "bench/peers/build.sh")):
        if not program.exists():
            note(f"{program} is not there ({how})")
            return 1
    busy = 0 if options.busy else machine.wait_until_idle(table.DISTURBED_CORES, 5)
    if busy > table.DISTURBED_CORES:
        note(f"others keep {busy:.2f} cores busy (load average {machine.load_average():.2f}); --busy measures anyway")
        return 1
    log = Log(options.json)
    try:
        measure_all(options, log)
    except KeyboardInterrupt:
        note("interrupted")
    except (OSError, subprocess.CalledProcessError) as error:
        note(str(error))
        if not log.data["runs"]:
            return 1
    if not log.data["runs"]:
        return 1
    print(report(log.data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
