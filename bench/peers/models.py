"""The files that are measured: given ones, and synthetic ones that exist while they are measured."""

import contextlib
import pathlib
import subprocess

# Shapes and types that the project's targets name.
TARGETS = [
    "olmoe-1b-7b:Q4_K_M",
    "olmoe-1b-7b:Q8_0",
    "olmoe-1b-7b:Q4_0",
    "olmoe-1b-7b:MXFP4_MOE",
    "olmoe-1b-7b:BF16",
    "qwen3-30b-a3b:Q4_K_M",
]


@contextlib.contextmanager
def opened(name, options):
    """The path of a model: a file's own, or that of "PRESET:TYPE", which is written, and removed afterwards
    unless it was there or is to be kept. Raises CalledProcessError, FileNotFoundError."""
    if ":" not in name or pathlib.Path(name).exists():
        yield pathlib.Path(name).resolve(strict=True)
        return
    preset, weight_type = name.split(":", 1)
    path = options.folder / f"{preset}-{weight_type.lower()}.gguf"
    was_there = path.exists()
    if not was_there:
        options.folder.mkdir(parents=True, exist_ok=True)
        command = [options.soli, "synth", "--preset", preset, "--type", weight_type, "-o", path]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    try:
        yield path
    finally:
        if not was_there and not options.keep:
            path.unlink()
