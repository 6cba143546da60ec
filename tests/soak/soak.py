"""Clients of every kind against one server for a while: each must get its own text, and the server must add up.

    soak.py SOLI [--seconds 600] [--seed N] [--clients N]

Half of the time keys and values are scarce, so that sequences are preempted; half of the time experts are too, so that
they are read from the disk. Of each half, rounds: clients do what they do, then everybody is waited for, and the
books are checked. In every second round nobody leaves early, so that the counters must be equal to the sums of the
answers; in the others they must lie between what was seen and what the requests could have given.

What is asserted: every text equals that of the same request alone on an idle server; what a client had when it left is
the beginning of it; every malformed request gets its 4xx; there is no other 5xx; counters as above, and still while
nothing happens; no connection or file is left open; memory is flat (RESIDENT_RISE_MAX); at SIGTERM the running
requests finish with their whole text and the exit status is 0.
"""

import argparse
import asyncio
import pathlib
import random
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "load")]

import client  # noqa: E402
from accounts import Counters, Ledger, faults_of, moved_while_idle  # noqa: E402
from clients import Crowd  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from work import CAROLS_EXPERTS, KEYS, MOST_EXPERTS, make_works  # noqa: E402

MODEL = ROOT / "models" / "demo" / "soli-demo-16x2-q8_0.gguf"
TEMPLATE = ROOT / "tests" / "data" / "chat_templates" / "chatml.jinja"
EXPERT_BYTES = 14 << 20  # of the demo model
PATIENCE_S = 120  # for what should take moments; only a fault or a very slow machine makes it matter
FAULTS_MAX = 10

# The median of resident memory in the last quarter of a half may be above that of its second quarter by no more. In ten
# minutes that finds 100 bytes left behind by every request.
RESIDENT_RISE_MAX = 8 << 20
# A shorter half is no more than warming up.
RESIDENT_SECONDS_MIN = 60

CONTEXT = 512
COMMON = [
    "--ctx", CONTEXT, "--parallel", "24", "--max-queued", "64", "--max-experts-per-token", MOST_EXPERTS,
    "--template", TEMPLATE, "--max-connections", "256", "--max-body-bytes", 1 << 20, "--max-bodies-bytes", 4 << 20,
    "--write-timeout", "120", "--drain-timeout", PATIENCE_S, "--slow-request", "0",
]  # fmt: skip


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("soli", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=600, help="of traffic (%(default)s)")
    parser.add_argument("--seed", type=int, help="of requests and clients; default: a new one, which is printed")
    parser.add_argument("--clients", type=int, default=32, help="at a time (%(default)s)")
    parser.add_argument("--works", type=int, default=40, help="different requests (%(default)s)")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL, help="with the demo model's tokens (%(default)s)")
    options = parser.parse_args()
    if options.seconds <= 0 or options.clients < 1 or options.works < 10:
        parser.error("--seconds and --clients are above 0, --works at least 10")
    if options.seed is None:
        options.seed = random.randrange(1 << 30)
    return options


class Soak:
    def __init__(self, options, folder):
        self.options = options
        self.random = random.Random(options.seed)
        self.faults = []
        self.server = None  # the last one started
        self.done = {}  # what the clients have done, by kind
        self.keys = folder / "serve.toml"
        self.keys.write_text(
            f'[[api-key]]\nkey = "{KEYS[0]}"\nname = "alice"\n'
            f'[[api-key]]\nkey = "{KEYS[1]}"\nname = "bob"\npriority = 5\n'
            f'[[api-key]]\nkey = "{KEYS[2]}"\nname = "carol"\nmax-experts-per-token = {CAROLS_EXPERTS}\n'
        )
        self.log = folder / "access.log"
        text = (ROOT / "tests" / "data" / "prose_en.txt").read_text(encoding="utf-8")
        self.works = make_works(text, self.random, options.works)

    def fault(self, text):
        if len(self.faults) < FAULTS_MAX:
            print("FAULT:", text, flush=True)
        self.faults.append(text)

    def start(self, *arguments):
        options = ["--config", self.keys, *COMMON, "--access-log", self.log, *arguments]
        self.server = ServerProcess(self.options.soli, [self.options.model, *options])
        return self.server

    async def learn(self):
        """What every request gives, alone."""
        server = self.start("--no-prefix-cache")
        for work in self.works:
            work.learn(await client.ask(server.address, "POST", work.path, work.body, KEYS[0], PATIENCE_S))
        self.end(server)

    def least_memory(self):
        """What the server needs with one context and few experts: its refusal says so."""
        try:
            server = self.start("--memory", "1MiB")
        except RuntimeError as error:
            words = str(error).partition("at least ")[2].split("B ", 1)
            return int(words[0])
        server.process.kill()
        raise AssertionError("a server ran in 1 MiB")

    async def half(self, name, seconds, *arguments):
        print(f"{name}: {' '.join(map(str, arguments))}, {seconds:.0f} s", flush=True)
        server = self.start(*arguments)
        samples = []
        sampling = asyncio.create_task(sample(server, samples))
        end = time.monotonic() + seconds
        n_rounds = max(2, min(20, int(seconds / 15)))
        at_rest = server.open_files()
        for i in range(n_rounds):
            seconds_left = max(0.5, (end - time.monotonic()) / (n_rounds - i))
            await self.round(server, seconds_left, may_leave=i % 2 == 1, at_rest=at_rest)
        values = await client.metrics(server.address, KEYS[0])
        print(
            f"  {client.total(values, 'soli_num_preemptions_total'):.0f} preemptions, "
            f"{client.total(values, 'soli_engine_recomputed_rows_total'):.0f} rows computed again, "
            f"{client.total(values, 'soli_prefix_cache_hits_total'):.0f} of "
            f"{client.total(values, 'soli_prompt_tokens_total'):.0f} prompt tokens from the prefix cache, "
            f"{client.total(values, 'soli_expert_read_bytes_total') / 2**20:.0f} MiB of experts read"
        )
        sampling.cancel()
        self.check_memory(samples, seconds, client.total(values, "soli_e2e_request_latency_seconds_count"))
        await self.drain(server)
        return values

    async def round(self, server, seconds, may_leave, at_rest):
        before = await client.metrics(server.address, KEYS[0])
        ledger = Ledger()
        crowd = Crowd(server.address, self.works, self.random.randrange(1 << 30), ledger, self.fault)
        await crowd.run(self.options.clients, seconds, may_leave)
        for kind, n in crowd.done.items():
            self.done[kind] = self.done.get(kind, 0) + n
        await self.rest(server, at_rest)
        await asyncio.sleep(0.3)  # the last step publishes its figures one after another
        after = await client.metrics(server.address, KEYS[0])
        for fault in faults_of(ledger, Counters(before, after)):
            self.fault(f"a round {'with' if may_leave else 'without'} leaving clients: {fault}")
        await asyncio.sleep(0.3)
        if moved := moved_while_idle(after, await client.metrics(server.address, KEYS[0])):
            self.fault(f"moved while nothing happened: {', '.join(moved)}")

    async def rest(self, server, at_rest):
        """Waits until nothing runs and nobody but the asker is connected."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if server.process.poll() is not None:
                said = "\n".join(server.lines[-20:])
                raise AssertionError(f"the server ended by itself: {server.process.returncode}\n{said}")
            values = await client.metrics(server.address, KEYS[0])
            busy = [client.total(values, f"soli_num_requests_{what}") for what in ("running", "waiting")]
            n_connections = client.total(values, "soli_http_connections")
            n_files = server.open_files()
            if not any(busy) and n_connections <= 1 and n_files <= at_rest + 1:
                return
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{PATIENCE_S} s after the last client left there are {busy[0]:.0f} running and {busy[1]:.0f} "
                    f"waiting requests, {n_connections:.0f} connections, {n_files - at_rest} more open files"
                )
            await asyncio.sleep(0.05)

    def check_memory(self, samples, seconds, n_answers):
        quarter = len(samples) // 4
        if quarter == 0:
            return
        warm, late = statistics.median(samples[quarter : 2 * quarter]), statistics.median(samples[-quarter:])
        rise = late - warm
        print(
            f"  resident: {warm / 2**20:.1f} MiB, {rise / 2**10:+.0f} KiB from the second to the last quarter; "
            f"{n_answers:.0f} answers"
        )
        if seconds >= RESIDENT_SECONDS_MIN and rise > RESIDENT_RISE_MAX:
            self.fault(f"resident memory rose by {rise / 2**20:.1f} MiB; {RESIDENT_RISE_MAX >> 20} MiB are allowed")

    async def drain(self, server):
        """SIGTERM while streams run: all of them end as they should."""
        ledger = Ledger()
        crowd = Crowd(server.address, self.works, self.random.randrange(1 << 30), ledger, self.fault)
        tasks, begun = crowd.long_streams(8)
        await asyncio.wait_for(begun, PATIENCE_S)
        ending = asyncio.get_running_loop().run_in_executor(None, self.end, server)
        await asyncio.gather(*tasks)
        await ending

    def end(self, server):
        status = server.end(2 * PATIENCE_S)
        if status != 0:
            self.fault(f"exit status {status}: " + " | ".join(server.lines[-5:]))
        for line in server.lines:
            if any(word in line for word in ("Sanitizer", "runtime error", "cut off")):
                self.fault(line)

    def check_log(self):
        """No answer of the server's own fault, however it ended."""
        n_lines = 0
        with self.log.open(encoding="utf-8") as lines:
            for line in lines:
                n_lines += 1
                if '"status":50' in line and '"status":505' not in line:
                    self.fault(f"in the access log: {line.strip()}")
        print(f"access log: {n_lines} lines")

    async def run(self):
        print(f"seed {self.options.seed}", flush=True)
        await self.learn()
        least = self.least_memory()
        seconds = self.options.seconds / 2
        # Sequences wait for each other's pages as long as one of them can go on; with one context for all, none can.
        scarce = await self.half(
            "keys and values are scarce", seconds, "--memory", kib(least + EXPERT_BYTES), "--kv-tokens", CONTEXT
        )
        tiered = await self.half("experts are scarce too", seconds, "--memory", kib(least + EXPERT_BYTES // 4))
        if client.total(scarce, "soli_num_preemptions_total") == 0:
            self.fault("nothing was preempted: the soak is too mild")
        if client.total(tiered, "soli_expert_read_bytes_total") == 0:
            self.fault("no expert was read from the disk: the soak is too mild")
        self.check_log()


def kib(n_bytes):
    return f"{n_bytes >> 10}KiB"


async def sample(server, samples):
    while True:
        samples.append(server.resident_bytes())
        await asyncio.sleep(0.5)


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options, pathlib.Path(folder))
        try:
            asyncio.run(soak.run())
        except (AssertionError, RuntimeError, OSError, client.ProtocolError) as error:
            soak.fault(f"the soak ended early: {error}")
        finally:
            if soak.server is not None and soak.server.process.poll() is None:
                soak.server.process.kill()
    print(", ".join(f"{n} {kind}" for kind, n in sorted(soak.done.items())))
    print(f"{len(soak.faults)} faults (again: --seed {options.seed})" if soak.faults else "no faults")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
