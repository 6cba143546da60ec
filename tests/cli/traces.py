"""Traces for tests: made by the program, and read with nothing but SQLite and the schema of docs/tracing.md."""

import array
import sqlite3

from program import CliTest

GREEDY = ["-p", "The sea", "-n", "24", "--temp", "0", "--ignore-eos"]


def change(path, *statements):
    """Runs statements on a trace: texts, or pairs of a text and its parameters."""
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(*([statement] if isinstance(statement, str) else statement))
    database.commit()
    database.close()


class Trace:
    def __init__(self, path):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.meta = dict(database.execute("SELECT key, value FROM meta"))
        self.layers = [int(layer) for layer in self.meta["moe_layers"].split(",")]
        self.k, self.n_experts = int(self.meta["k"]), int(self.meta["n_experts"])
        self.requests = list(database.execute("SELECT id, n_prompt, policy FROM requests ORDER BY id"))
        self.rows = {}  # (request, position): token, cached, ids[layer], weights[layer], logits[layer] or None
        select = "SELECT request, position, token, cached, ids, weights, logits FROM tokens ORDER BY request, position"
        for request, position, token, cached, ids, weights, logits in database.execute(select):
            self.rows[request, position] = (
                token, cached, self.split(ids, "h", self.k), self.split(weights, "f", self.k),
                logits and self.split(logits, "f", self.n_experts),
            )
        database.close()

    def split(self, blob, kind, n):
        values = array.array(kind, blob)
        assert len(values) == len(self.layers) * n
        return [values[n * i : n * (i + 1)].tolist() for i in range(len(self.layers))]

    def calls(self):
        """(request, position, token, cached, layer, rank, expert, weight) of each call."""
        for (request, position), (token, cached, ids, weights, _) in self.rows.items():
            for layer, (experts, theirs) in enumerate(zip(ids, weights)):
                for rank, (expert, weight) in enumerate(zip(experts, theirs)):
                    if expert >= 0:
                        yield request, position, token, cached, self.layers[layer], rank, expert, weight


class TraceTest(CliTest):
    def trace(self, *arguments, name="t.sqlite"):
        """The file that a run of the program writes."""
        path = self.folder() / name
        self.outcome = self.run_ok(*arguments, "--trace", path)
        return path
