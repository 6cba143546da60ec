#!/usr/bin/python3
"""Times how long soli takes until a model is ready, against the least that the machine needs for it.

Rounds of: reading the file past the page cache (O_DIRECT, as many reads at a time as the disk can use), touching as
much fresh memory as the weights take, loading with a cold page cache, and loading twice with the file cached. Prints a
Markdown row: medians, least and most. The second of the two gets the memory that the first has just given back, which a
virtual machine still holds; memory that it has to ask its host for costs more than all the rest. The file must be on a
disk that knows O_DIRECT, and its pages must not be mapped or locked by others, or they stay in the cache.
"""

import argparse
import concurrent.futures
import ctypes
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
READ_BYTES = 4 << 20
HUGE_PAGE = 2 << 20
MADV_POPULATE_WRITE = 23  # Linux 5.14


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", type=pathlib.Path, nargs="+", help="GGUF file")
    add("--rounds", type=int, default=5, help="(%(default)s)")
    add("--reads", type=int, default=8, help="O_DIRECT reads at a time (%(default)s)")
    add("--soli", type=pathlib.Path, default=ROOT / "build/release/src/soli", help="(%(default)s)")
    options = parser.parse_args()
    for path in (*options.model, options.soli):
        if not path.is_file():
            parser.error(f"{path} is not a file")
    if options.rounds < 1 or options.reads < 1:
        parser.error("--rounds and --reads are at least 1")
    return options


def drop_from_cache(path):
    """Writes back what is dirty, then asks for the file's pages to be dropped."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def read_direct(path, n_reads):
    """Seconds for the whole file with O_DIRECT."""
    size = path.stat().st_size
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffers = [mmap.mmap(-1, READ_BYTES) for _ in range(n_reads)]
    for buffer in buffers:
        buffer[:: mmap.PAGESIZE] = bytes(READ_BYTES // mmap.PAGESIZE)

    def read_every(first):
        for offset in range(first * READ_BYTES, size, n_reads * READ_BYTES):
            os.preadv(descriptor, [buffers[first]], offset)

    try:
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(n_reads) as pool:
            list(pool.map(read_every, range(n_reads)))
        return time.monotonic() - begin
    finally:
        os.close(descriptor)


def touch_memory(n_bytes):
    """Seconds until fresh memory is there, one thread per core as soli does it: what the kernel, and a hypervisor
    below it, need to hand it out."""
    n_threads = len(os.sched_getaffinity(0))
    part = n_bytes // n_threads // HUGE_PAGE * HUGE_PAGE
    memory = mmap.mmap(-1, part * n_threads, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)  # its calls run side by side, unlike mmap.madvise

    def populate(thread):
        address = ctypes.c_void_p(start + thread * part)
        if libc.madvise(address, ctypes.c_size_t(part), MADV_POPULATE_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "madvise(MADV_POPULATE_WRITE)")

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(populate, range(n_threads)))
    return time.monotonic() - begin


def load(soli, path):
    """Seconds until the model is ready, as soli says."""
    command = [soli, "bench", path, "--prompt", "none", "--sequences", "1", "--generate", "1", "--repetitions", "1"]
    done = subprocess.run([str(part) for part in [*command, "--json"]], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["load_s"]


def spread(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def main():
    options = parse()
    columns = ["model", "GB", "O_DIRECT, s", "fresh memory, s", "cold, s", "cold / O_DIRECT"]
    columns += ["cached, s per GB", "cached again, s per GB"]
    print(f"| {' | '.join(columns)} |")
    print(f"|{' --- |' * len(columns)}")
    for path in options.model:
        gigabytes = path.stat().st_size / 1e9
        direct, fresh, cold, cached, again = [], [], [], [], []
        for _ in range(options.rounds):
            drop_from_cache(path)
            direct.append(read_direct(path, options.reads))
            fresh.append(touch_memory(path.stat().st_size))
            drop_from_cache(path)
            cold.append(load(options.soli, path))
            with open(path, "rb") as file:
                while file.read(READ_BYTES):
                    pass
            cached.append(load(options.soli, path) / gigabytes)
            again.append(load(options.soli, path) / gigabytes)
        ratios = [a / b for a, b in zip(cold, direct)]
        figures = map(spread, (direct, fresh, cold, ratios, cached, again))
        print(f"| {' | '.join([path.name, f'{gigabytes:.2f}', *figures])} |", flush=True)


if __name__ == "__main__":
    main()
