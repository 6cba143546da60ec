"""Lengths, and prompts of these lengths."""

import asyncio
import pathlib

import client

TEXT_CHARACTERS = 200_000  # beyond, a text gives no more variety


class Mixture:
    """'64:3,1000-2000:1': 64 tokens in three of four cases, from 1000 to 2000 in the fourth."""

    def __init__(self, text):
        self._parts = []
        for part in text.split(","):
            lengths, _, share = part.strip().partition(":")
            first, dash, last = lengths.partition("-")
            try:
                least, most, weight = int(first), int(last) if dash else int(first), float(share or 1)
            except ValueError:
                raise ValueError(f"{part!r} is not N, N-M, N:SHARE or N-M:SHARE") from None
            if not 1 <= least <= most or weight <= 0:
                raise ValueError(f"{part!r}: lengths are at least 1 and rise, shares are above 0")
            self._parts.append((lengths, least, most, weight))

    def draw(self, random):
        """The name of the part, and a length."""
        weights = [weight for *_, weight in self._parts]
        name, least, most, _ = random.choices(self._parts, weights)[0]
        return name, random.randint(least, most)


def read_text(path):
    path = pathlib.Path(path)
    files = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)[:TEXT_CHARACTERS]
    if len(text.split()) < 100:
        raise RuntimeError(f"{path}: fewer than 100 words to make prompts of")
    return text


async def tokens_of(path, address, base, key):
    """The token ids of a text by the server's own tokenizer, or its words where it has no /tokenize; and which."""
    text = await asyncio.to_thread(read_text, path)
    answer = await client.ask(address, "POST", base + "/tokenize", {"content": text}, key)
    if answer.status in (404, 405):
        return text.split(), "prompts are words, one for a token: /tokenize is missing; usage says the real lengths"
    if answer.status != 200:
        raise RuntimeError(f"/tokenize answered {answer.status}: {answer.body[:300].decode(errors='replace')}")
    return answer.json()["tokens"], "prompts have exactly these lengths: they are token ids of a text"


def prompts_of(tokens, n_shared, random):
    """A function that gives a prompt of n tokens: the shared beginning, then a window at a random place."""
    shared = [tokens[i % len(tokens)] for i in range(n_shared)]

    def prompt(n):
        begin = random.randrange(len(tokens))
        rest = [tokens[(begin + i) % len(tokens)] for i in range(max(0, n - n_shared))]
        picked = shared[:n] + rest
        return picked if isinstance(tokens[0], int) else " ".join(picked)

    return prompt
