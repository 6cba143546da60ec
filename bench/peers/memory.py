#!/usr/bin/python3
"""Measures soli and llama.cpp (mmap) on a model that is larger than the memory they may take.

    bench/peers/memory.py MODEL.gguf          # as root, with control groups of version 1; see README.md

Each process runs in a memory control group of a share of the file plus 5 %, with the file out of the page cache at its
start. soli gets the share as --memory. Prints a Markdown table: tokens/s of one decoding sequence, and for soli what
it read, against the bound min(disk bandwidth / bytes that a perfect cache of evenly used experts would miss, speed with
everything in memory), all of the same run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUP = pathlib.Path("/sys/fs/cgroup/memory/soli-bench")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model")
    add("--shares", default="25,50,75", help="of the file, in per cent (%(default)s)")
    add("--read-ahead", default="128,8192", help="KiB that the kernel reads ahead of a page fault (%(default)s)")
    add("--generate", type=int, default=32, help="decode steps of soli (%(default)s)")
    add("--peer-generate", type=int, default=4, help="decode steps of llama.cpp, which are slow (%(default)s)")
    add("--prompt", type=int, default=0, help="measure a prompt of so many tokens too (none)")
    add("--soli", default=ROOT / "build" / "release" / "src" / "soli")
    add("--driver", default=ROOT / "build" / "peers" / "llama_driver")
    add("--block-device", default="vda", help="that the model lies on (%(default)s)")
    add("--no-peer", action="store_true", help="soli alone")
    return parser.parse_args()


def drop_caches():
    subprocess.run(["sync"], check=True)
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


def in_group(limit_bytes, command):
    """The JSON that a command prints, and the most memory that its group held."""
    GROUP.mkdir(exist_ok=True)
    (GROUP / "memory.force_empty").write_text("0\n", encoding="ascii")
    (GROUP / "memory.limit_in_bytes").write_text(f"{limit_bytes}\n", encoding="ascii")
    (GROUP / "memory.max_usage_in_bytes").write_text("0\n", encoding="ascii")
    drop_caches()
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: (GROUP / "tasks").write_text(f"{os.getpid()}\n", encoding="ascii"),
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with status {done.returncode}: {done.stderr[-500:]}")
    most = int((GROUP / "memory.max_usage_in_bytes").read_text(encoding="ascii"))
    return json.loads(done.stdout), most


def run_soli(options, share_bytes):
    command = [options.soli, "bench", options.model, "--prompt", options.prompt or "none", "--sequences", 1]
    command += ["--generate", options.generate, "--repetitions", 1, "-c", 1024, "--json"]
    if share_bytes is None:
        return json.loads(subprocess.run([str(part) for part in command], capture_output=True, check=True).stdout)
    result, most = in_group(share_bytes * 105 // 100, [*command, "--memory", f"{share_bytes}B"])
    result["group_bytes"] = most
    return result


def run_peer(options, share_bytes, read_ahead_kib):
    setting = pathlib.Path(f"/sys/block/{options.block_device}/queue/read_ahead_kb")
    before = setting.read_text(encoding="ascii")
    setting.write_text(f"{read_ahead_kib}\n", encoding="ascii")
    try:
        command = [options.driver, options.model, "--repack", "off", "--prompt", options.prompt]
        command += ["--sequences", 1, "--generate", options.peer_generate]
        result, _ = in_group(share_bytes * 105 // 100, command)
        return result
    finally:
        setting.write_text(before, encoding="ascii")


def rate(result):
    return result["decode"][0]["tokens_per_s"]["median"]


def main():
    options = parse()
    size = pathlib.Path(options.model).stat().st_size
    print(machine.describe())
    whole = run_soli(options, None)
    in_memory = rate(whole) if whole["memory"]["all_in_memory"] else None
    print(f"\n{options.model}, {size / 1e9:.2f} GB; everything in memory: {in_memory or 0:.2f} tokens/s\n")
    columns = ["memory", "soli, tokens/s", "hits", "read per token", "disk, GB/s", "bound", "of it", "most in group"]
    columns += ["llama.cpp", "ratio"]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for share in (int(part) for part in options.shares.split(",")):
        share_bytes = size * share // 100
        soli = run_soli(options, share_bytes)
        decode = soli["decode"][0]
        disk = soli["memory"]["disk"]["bytes_per_second"]
        bound = disk / soli["memory"]["expected_bytes_per_token_if_uniform"]
        bound = min(bound, in_memory) if in_memory else bound
        peers = {}
        if not options.no_peer:
            for kib in options.read_ahead.split(","):
                peers[kib] = run_peer(options, share_bytes, kib)
        rates = {kib: rate(result) for kib, result in peers.items()}
        shown = ", ".join(f"{value:.3f} ({kib} KiB)" for kib, value in rates.items())
        ratio = f"{rate(soli) / max(rates.values()):.1f}" if rates else ""
        print(
            f"| {share} % | {rate(soli):.2f} | {100 * decode['expert_hit_rate']:.0f} % |"
            f" {decode['disk_bytes_per_step'] / 1e9:.3f} GB | {disk / 1e9:.2f} | {bound:.2f} |"
            f" {100 * rate(soli) / bound:.0f} % |"
            f" {soli['group_bytes'] / 1e9:.2f} of {share_bytes * 1.05 / 1e9:.2f} GB | {shown} | {ratio} |",
            flush=True,
        )
        if options.prompt:
            print_prefill(options.prompt, soli, peers)


def print_prefill(n_prompt, soli, peers):
    prefill = soli["prefill"][0]
    own = prefill["tokens_per_s"]["median"]
    line = f"  prompt of {n_prompt}: {own:.1f} tokens/s, {prefill['disk_bytes_per_prompt'] / 1e9:.2f} GB read"
    for kib, result in peers.items():
        peer = result["prefill"][0]["tokens_per_s"]["median"]
        line += f"; llama.cpp ({kib} KiB) {peer:.2f} tokens/s, {own / peer:.1f} times"
    print(line, flush=True)


if __name__ == "__main__":
    main()
