"""Requests whose answers are known: taken once from an idle server, one at a time, and the same ever after.

Everything is greedy or has a seed, so whatever else the server does, an answer may not differ by a byte.
"""

import json

import client

KEYS = ("soak-key-of-alice", "soak-key-of-bob", "soak-key-of-carol")
MOST_EXPERTS = 4  # of the server; carol's key has its own limit
CAROLS_EXPERTS = 2
END_TOKEN = "2"  # of the demo model
PLAIN_TEXT, CHAT, EMBEDDING = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"


class Work:
    """A request, what it must give, and between which bounds the counters may move for it if it is broken off."""

    def __init__(self, path, body, n_choices=1):
        self.path = path
        self.body = body
        self.n_sequences = n_choices * (len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1)
        self.choices = None  # of the answer, or its embeddings
        self.usage = None

    @property
    def can_stream(self):
        return self.path != EMBEDDING

    @property
    def prompt_tokens(self):
        return self.usage["prompt_tokens"]

    @property
    def generated_tokens(self):
        return self.usage.get("completion_tokens", 0)

    @property
    def keys(self):
        """Who may ask for it."""
        wanted = self.body.get("experts_per_token", 1)
        return KEYS if wanted <= CAROLS_EXPERTS else KEYS[:2]

    def learn(self, answer):
        assert answer.status == 200, (self.body, answer.status, answer.body)
        self.choices, self.usage = outcome_of(answer)

    def stream_body(self):
        return {**self.body, "stream": True, "stream_options": {"include_usage": True}}

    def fault_of(self, answer):
        """What is wrong with a whole answer; None: nothing."""
        choices, usage = outcome_of(answer)
        if answer.is_stream:
            expected = [(text_of(choice), choice["finish_reason"]) for choice in self.choices]
        else:
            expected = self.choices
        if choices != expected:
            return f"{self.body} gave {shortened(choices)} and not {shortened(expected)}"
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            if usage.get(name) != self.usage.get(name):
                return f"{self.body}: {name} is {usage.get(name)} and not {self.usage.get(name)}"
        return None

    def fault_of_part(self, answer):
        """The same of a stream that was left: what came must be the beginning of what was to come."""
        texts, _ = joined(answer.chunks(), len(self.choices))
        for text, choice in zip(texts, self.choices):
            if not text_of(choice).startswith(text):
                return f"{self.body} began with {text!r} and not with {text_of(choice)!r}"
        return None


def shortened(value):
    text = json.dumps(value)
    return text if len(text) < 1500 else text[:1500] + "..."


def text_of(choice):
    return choice["text"] if "text" in choice else choice["message"]["content"]


def joined(chunks, n_choices):
    """Texts and reasons of a stream, by choice."""
    texts, reasons = [""] * n_choices, [None] * n_choices
    for chunk in chunks:
        for choice in chunk.get("choices", []):
            delta = choice["text"] if "text" in choice else choice["delta"].get("content") or ""
            texts[choice["index"]] += delta
            reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
    return texts, reasons


def outcome_of(answer):
    if not answer.is_stream:
        whole = answer.json()
        return whole["choices"] if "choices" in whole else whole["data"], whole["usage"]
    if not answer.events or answer.events[-1][1] != "[DONE]":
        raise client.ProtocolError(f"a stream without its end: {[payload for _, payload in answer.events[-2:]]}")
    chunks = answer.chunks()
    n_choices = 1 + max(choice["index"] for chunk in chunks for choice in chunk["choices"])
    texts, reasons = joined(chunks, n_choices)
    return list(zip(texts, reasons)), chunks[-1]["usage"]


def make_works(text, random, n):
    """So many different requests. Prompts are cut out of the text; many begin alike."""
    shared = [text[begin : begin + 500] for begin in (0, 3000, 6000)]

    def cut(least, most):
        begin = random.randrange(len(text) - most)
        return text[begin : begin + random.randint(least, most)]

    def prompt():
        kind = random.random()
        if kind < 0.4:
            return random.choice(shared) + cut(5, 100)
        return cut(5, 60) if kind < 0.7 else cut(200, 600)

    works = []
    for i in range(n):
        body = {"prompt": prompt(), "temperature": 0, "max_tokens": random.choice((0, 1, 7, 30, 100, 150, 200, 250))}
        path, n_choices = PLAIN_TEXT, 1
        if random.random() < 0.7:
            body["logit_bias"] = {END_TOKEN: -100}  # so that it goes on to the end
        if random.random() < 0.4:
            body["experts_per_token"] = random.randint(1, MOST_EXPERTS)
        kind = i % 10
        if kind == 0:
            path = CHAT
            body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
        elif kind == 1:
            n_choices = random.randint(2, 3)
            body.update({"n": n_choices, "temperature": 0.8, "seed": random.randrange(1 << 30)})
        elif kind == 2:
            body["prompt"] = [prompt(), cut(5, 60)]
        elif kind == 3:
            body.update({"stop": ["e", "\n\n"], "max_tokens": 60})
        elif kind == 4:
            body = {"input": cut(5, 400), "pooling": random.choice(("mean", "last"))}
            path = EMBEDDING
        elif kind == 5:
            body.update({"logprobs": 3, "echo": random.random() < 0.5})
        elif kind == 6:
            body.update({"routing": random.choice((True, "tokens")), "max_tokens": 20})
        works.append(Work(path, body, n_choices))
    return works
