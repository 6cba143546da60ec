#!/usr/bin/env python3
"""usage: make_demo_trace.py SOLI MODEL TEXTS OUT

Writes the trace of experts (src/experts/access_trace.h) that a model asks for when it reads pieces of the texts
TEXTS/*.txt, one domain each, in a random but fixed order of domains: as if it generated them, one token at a time.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

PIECES_PER_TEXT = 4
TOKENS_PER_PIECE = 220
BYTES_MAX = 4000  # more than the demo model's context in every text


def routing_of(soli, model, text):
    """Tokens of the file that `soli run --routing-json` writes; None where the text is too long."""
    with tempfile.TemporaryDirectory() as folder:
        prompt = pathlib.Path(folder, "prompt.txt")
        routing = pathlib.Path(folder, "routing.json")
        prompt.write_bytes(text)
        command = [soli, "run", model, "-f", prompt, "-n", "0", "--routing-json", routing]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
        return json.loads(routing.read_bytes()) if done.returncode == 0 else None


def piece(soli, model, text, begin):
    """The routing of TOKENS_PER_PIECE tokens from the byte `begin` on: the longest part that fits, cut."""
    fits, too_long, routing = 0, BYTES_MAX, None
    while too_long - fits > 8:
        size = (fits + too_long) // 2
        part = text[begin:begin + size].decode("utf-8", "ignore").encode()
        attempt = routing_of(soli, model, part)
        if attempt is None:
            too_long = size
        else:
            fits, routing = size, attempt
    if len(routing["tokens"]) < TOKENS_PER_PIECE:
        sys.exit(f"only {len(routing['tokens'])} tokens in {text[begin:begin + fits]}")
    routing["tokens"] = routing["tokens"][:TOKENS_PER_PIECE]
    return routing


def number(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def visits_of(routing):
    """One visit of one row per token and layer."""
    layers = {layer: i for i, layer in enumerate(routing["moe_layers"])}
    for token in routing["tokens"]:
        for choice in token["layers"]:
            out = number(2 * layers[choice["layer"]] + 1) + number(len(choice["ids"]))
            following = 0
            for expert in sorted(choice["ids"]):
                out += number(expert - following)
                following = expert + 1
            yield out


def main(soli, model, texts, out):
    pieces = []
    for path in sorted(pathlib.Path(texts).glob("*.txt")):
        text = path.read_bytes()
        starts = [(2 * i + 1) * len(text) // (2 * PIECES_PER_TEXT + 1) for i in range(PIECES_PER_TEXT)]
        pieces += [piece(soli, model, text, start) for start in starts]
    random.Random(7).shuffle(pieces)
    visits = [visit for routing in pieces for visit in visits_of(routing)]
    body = b"".join(visits)
    head = [1, len(pieces[0]["moe_layers"]), pieces[0]["n_experts"], len(visits), 0, len(body)]
    pathlib.Path(out).write_bytes(b"soli-trace" + struct.pack("<6q", *head) + body)
    print(f"{out}: {len(visits)} visits, {len(body)} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
