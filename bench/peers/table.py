"""From the runs to a Markdown table. A run is {"round", "model", "engine", "foreign_cores", "result"}."""

import statistics
from collections import defaultdict

from engines import NAMES, SOLI

LOAD = ("load", 0)
# The share of a core from which on others disturb: spinning threads wait for each other.
DISTURBED_CORES = 0.05


def works_of(result):
    """{("prefill", 512): tokens/s, ("decode", 8): tokens/s, ("load", 0): s} of one process."""
    figures = {("prefill", each["tokens"]): each["tokens_per_s"]["median"] for each in result["prefill"]}
    figures |= {("decode", each["sequences"]): each["tokens_per_s"]["median"] for each in result["decode"]}
    figures[LOAD] = result["load_s"]
    return figures


def peak_of(result, tokens):
    """Operations per second of the arithmetic that does most of a prefill."""
    ceilings = result["ceilings"]
    for probed in result["probe"]:
        if (probed["work"], probed.get("tokens")) != ("prefill", tokens):
            continue
        step = next(phase for phase in probed["per_step"] if phase["phase"] == "step")
        most = max(("f32", "bf16", "int8"), key=lambda kind: step[f"{kind}_operations"])
        return ceilings[f"{most}_operations_per_s"]
    return ceilings["int8_operations_per_s"]


def shares_of(result):
    """{work: soli's share of the ceiling that its own process measured}; empty without ceilings."""
    ceilings = result.get("ceilings")
    if not ceilings:
        return {}
    shares = {}
    for each in result["prefill"]:
        operations = each["tokens_per_s"]["median"] * each["operations_per_token"]
        shares["prefill", each["tokens"]] = operations / peak_of(result, each["tokens"])
    for each in result["decode"]:
        bytes_per_s = each["steps_per_s"]["median"] * each["touched_bytes_per_step"]
        shares["decode", each["sequences"]] = bytes_per_s / ceilings["read_bytes_per_s"]
    return shares


def better(work, a, b):
    """Whether figure a is better than b: seconds of loading are better when they are fewer."""
    return a < b if work == LOAD else a > b


def speed_up(work, ours, theirs):
    """How many times as fast."""
    return theirs / ours if work == LOAD else ours / theirs


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values):
    """Like "40.3 [39.9..40.5]"."""
    return f"{number(statistics.median(values))} [{number(min(values))}..{number(max(values))}]"


def name_of(work):
    kind, size = work
    if work == LOAD:
        return "load, s"
    return f"{kind} {size}, tokens/s" if kind == "prefill" else f"decode of {size}, tokens/s"


class Model:
    """All that was measured of one file."""

    def __init__(self):
        self.figures = defaultdict(lambda: defaultdict(dict))  # [work][engine][round] -> figure
        self.shares = defaultdict(list)  # [work]

    def add(self, run):
        for work, figure in works_of(run["result"]).items():
            self.figures[work][run["engine"]][run["round"]] = figure
        if run["engine"] == SOLI:
            for work, share in shares_of(run["result"]).items():
                self.shares[work].append(share)

    def best_peer(self, work):
        """The peer's mode with the better median, or None."""
        best = None
        for engine, rounds in self.figures[work].items():
            median = statistics.median(rounds.values())
            if engine != SOLI and (best is None or better(work, median, best[1])):
                best = (engine, median)
        return best and best[0]

    def row(self, work):
        ours = self.figures[work].get(SOLI, {})
        peer = self.best_peer(work)
        theirs = self.figures[work][peer] if peer else {}
        cells = [spread(ours.values()) if ours else "–", spread(theirs.values()) if theirs else "–", peer or "–"]
        ratio = "–"
        if ours and theirs:
            of_medians = speed_up(work, statistics.median(ours.values()), statistics.median(theirs.values()))
            paired = [speed_up(work, ours[i], theirs[i]) for i in ours.keys() & theirs.keys()]
            ratio = f"{of_medians:.2f}" + (f" [{min(paired):.2f}..{max(paired):.2f}]" if paired else "")
        shares = self.shares[work]
        return [*cells, ratio, f"{100 * statistics.median(shares):.0f} %" if shares else "–"]

    def works(self):
        """Prefill, then decode, then load."""
        order = ["prefill", "decode", "load"]
        return sorted(self.figures, key=lambda work: (order.index(work[0]), work[1]))


def table_of(runs):
    """The Markdown table of the runs that measured something."""
    models = defaultdict(Model)
    for run in runs:
        if "result" in run:
            models[run["model"]].add(run)
    head = ["model", "work", "soli", "best peer", "which", "soli / peer", "share of the ceiling"]
    lines = [head, ["---"] * len(head)]
    for name, model in models.items():
        lines += [[name, name_of(work), *model.row(work)] for work in model.works()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def notes_of(runs):
    """What a reader must know of how it was measured: lines of Markdown."""
    notes = []
    measured = [run for run in runs if "result" in run]
    disturbed = [run for run in measured if run["foreign_cores"] > DISTURBED_CORES]
    if disturbed:
        worst = max(run["foreign_cores"] for run in disturbed)
        notes.append(
            f"NOT IDLE: in {len(disturbed)} of {len(measured)} runs others used more than {DISTURBED_CORES} cores"
            f" (up to {worst:.2f}); do not quote these figures"
        )
    elif measured:
        worst = max(run["foreign_cores"] for run in measured)
        notes.append(f"idle: in all {len(measured)} runs others used at most {worst:.2f} cores")
    voided = [run["result"]["void"] for run in measured if run["result"].get("void")]
    if voided:
        ours = sum(run["engine"] == SOLI for run in measured)
        reason = voided[0].split("; ")[0]
        notes.append(f"VOID, says soli of {len(voided)} of its {ours} runs, such as: {reason}")
    for engine in NAMES.values():
        failures = sorted({run["failure"] for run in runs if run["engine"] == engine and "failure" in run})
        notes += [f"{engine} failed: {failure}" for failure in failures]
    return notes
