#!/usr/bin/env python3
"""usage: recount_profile.py REPORT TRACE [--against SAVED]

Recounts the report of `soli profile --json` from the trace of the same run (--trace, best with --trace-logits) alone,
by the definitions of docs/profiling.md and not by soli's code, and compares every figure. Not recounted is what is
drawn at random (RESAMPLED), whose p-values and intervals the verdicts are checked with, and, where the trace has no
logits, what comes of them. Gate entropies are those of a softmax. SAVED is the profile that drift is measured from.
Exit status: 0 all agree, 1 some do not (each is named), 2 not such files.
"""
import argparse
import json
import math
import sqlite3
import struct
import sys

TOLERANCE = 1e-9  # relative
# soli takes logarithms of the router's distribution in 32 bits, by a polynomial.
TOLERANCE_OF_GATE = 1e-5
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RESAMPLED = {"share_variation_interval", "never_called_interval", "stability_test", "information_test"}
OF_LOGITS = {"gate_entropy_bits", "gate_entropy_spread", "margin"}
OF_THE_RUN = {"path", "data", "policy", "complete", "format", "model", "experts_per_token", "window", "seed",
              "replicates", "against"}  # fmt: skip
MASKED_LOGIT = -1e29
LEAST_EXPECTED, MOST_PAIRS, CLUSTER_LIFT = 5, 8, 2
SPECIALIST_LIFT, SPECIALIST_DEVIATIONS = 1.5, 6
BIASED_VARIATION, BIASED_NEVER_CALLED, SIGNIFICANT = 1, 0.1, 0.01


def mean(values):
    return math.fsum(values) / len(values) if values else 0.0


def spread(values):
    m = mean(values)
    return math.sqrt(mean([(v - m) ** 2 for v in values]))


def mean_or_none(values):
    return None if not values or None in values else mean(values)


# -- the trace ---------------------------------------------------------------------------------------------------------


def numbers(blob, kind, size):
    return struct.unpack(f"<{len(blob) // size}{kind}", blob)


def entropy_of_softmax(logits):
    most = max(logits)
    weights = [math.exp(x - most) for x in logits]
    total = math.fsum(weights)
    return -math.fsum(w / total * math.log2(w / total) for w in weights if w > 0)


class Route:
    """What one token chose in one layer."""

    def __init__(self, position, ids, weights, logits):
        self.position = position
        n = ids.index(-1) if -1 in ids else len(ids)
        self.experts = set(ids[:n])
        self.first = ids[weights[:n].index(max(weights[:n]))] if n else -1
        total = math.fsum(max(0.0, w) for w in weights[:n])
        parts = [w / total for w in weights[:n] if w > 0]
        self.effective = math.exp(-math.fsum(w * math.log(w) for w in parts)) if total > 0 else 0.0
        self.gate_entropy = entropy_of_softmax(logits) if logits else None
        self.margin = None
        if logits and 0 < n < len(logits):
            ordered = sorted(logits, reverse=True)
            if ordered[n] > MASKED_LOGIT:
                self.margin = ordered[n - 1] - ordered[n]


class Trace:
    """The windows of each domain: lists of routes, [window][layer][token]."""

    def __init__(self, path):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.meta = dict(database.execute("SELECT key, value FROM meta"))
        self.layers = [int(layer) for layer in self.meta["moe_layers"].split(",")]
        self.n_experts, self.k = int(self.meta["n_experts"]), int(self.meta["k"])
        self.has_logits = self.meta["logits"] == "1"
        self.domains = {}
        labels = database.execute("SELECT request, domain, first_position FROM windows ORDER BY domain, number")
        for request, domain, first_position in labels.fetchall():
            window = self.read_window(database, request, first_position)
            self.domains.setdefault(domain, []).append(window)

    def read_window(self, database, request, first_position):
        window = [[] for _ in self.layers]
        rows = database.execute(
            "SELECT position, ids, weights, logits FROM tokens WHERE request = ? AND position >= ? ORDER BY position",
            (request, first_position),
        )
        for position, ids, weights, logits in rows:
            ids, weights = numbers(ids, "h", 2), numbers(weights, "f", 4)
            logits = numbers(logits, "f", 4) if logits else ()
            for place, routes in enumerate(window):
                slots = slice(place * self.k, (place + 1) * self.k)
                of_layer = logits[place * self.n_experts : (place + 1) * self.n_experts]
                routes.append(Route(position, list(ids[slots]), list(weights[slots]), of_layer))
        return window


# -- one target in one layer -------------------------------------------------------------------------------------------


def calls_of(windows, n_experts):
    calls = [0] * n_experts
    for routes in windows:
        for route in routes:
            for expert in route.experts:
                calls[expert] += 1
    return calls


def share_figures(calls, layer):
    total, n = sum(calls), len(calls)
    shares = [c / total for c in calls]
    entropy = -math.fsum(s * math.log2(s) for s in shares if s > 0)
    return {
        "calls_total": total,
        "routing_entropy_bits": entropy,
        "routing_entropy_normalised": entropy / math.log2(n) if n > 1 else 0.0,
        "hottest": {"layer": layer, "expert": calls.index(max(calls)), "share": max(shares)},
        "coldest": {"layer": layer, "expert": calls.index(min(calls)), "share": min(shares)},
        "share_variation": math.sqrt(mean([(s - 1 / n) ** 2 for s in shares])) * n,
        "share_max_over_mean": max(shares) * n,
        "never_called": calls.count(0) / n,
        "distinct_experts": sum(c > 0 for c in calls),
        "calls": calls,
        "never_experts": [e for e, c in enumerate(calls) if c == 0],
    }


def neighbours(windows):
    return [(a, b) for routes in windows for a, b in zip(routes, routes[1:]) if b.position == a.position + 1]


def overlap(a, b):
    return len(a.experts & b.experts) / len(a.experts | b.experts) if a.experts | b.experts else 1.0


def batch_figures(windows, calls, n_tokens):
    batches = []
    for size in BATCHES:
        parts = [routes[at : at + size] for routes in windows for at in range(0, len(routes) - size + 1, size)]
        if not parts:
            break
        distinct = mean([len(set().union(*(route.experts for route in part))) for part in parts])
        expected = math.fsum(1 - (1 - c / n_tokens) ** size for c in calls)
        batches.append({"tokens": size, "batches": len(parts), "distinct_experts": distinct,
                        "expected_union": expected, "sharing_gain": expected / distinct if distinct else 0.0})
    return batches


def position_figures(routes, has_logits):
    bins = {}
    for route in routes:
        bins.setdefault(0 if route.position == 0 else 1 << (route.position.bit_length() - 1), []).append(route)
    return [
        {"first_position": first, "tokens": len(part), "mean_k": mean([len(r.experts) for r in part]),
         "effective_experts": mean([r.effective for r in part]),
         "gate_entropy_bits": mean([r.gate_entropy for r in part]) if has_logits else None}
        for first, part in sorted(bins.items())
    ]  # fmt: skip


def pair_figures(routes, calls):
    """The pairs of the largest lift, and the clusters that pairs of CLUSTER_LIFT or more join."""
    together = {}
    for route in routes:
        for a in route.experts:
            for b in route.experts:
                if a < b:
                    together[a, b] = together.get((a, b), 0) + 1
    pairs = []
    for b in range(len(calls)):
        for a in range(b):
            expected = calls[a] * calls[b] / len(routes)
            if expected >= LEAST_EXPECTED:
                n = together.get((a, b), 0)
                pairs.append({"experts": [a, b], "tokens": n, "lift": n / expected})
    pairs.sort(key=lambda pair: -pair["lift"])
    clusters = [{e} for e in range(len(calls))]
    for pair in pairs:
        if pair["lift"] >= CLUSTER_LIFT:
            joined = [cluster for cluster in clusters if cluster & set(pair["experts"])]
            clusters = [cluster for cluster in clusters if cluster not in joined] + [set().union(*joined)]
    return pairs[:MOST_PAIRS], sorted(sorted(cluster) for cluster in clusters if len(cluster) > 1)


def layer_figures(windows, layer, trace):
    """`windows` are lists of the routes of this layer."""
    routes = [route for window in windows for route in window]
    calls = calls_of(windows, trace.n_experts)
    pairs = neighbours(windows)
    margins = [route.margin for route in routes if route.margin is not None]
    entropies = [route.gate_entropy for route in routes] if trace.has_logits else []
    best, clusters = pair_figures(routes, calls)
    return {
        "layer": layer,
        "tokens": len(routes),
        "mean_k": mean([len(route.experts) for route in routes]),
        "k_spread": spread([len(route.experts) for route in routes]),
        "effective_experts": mean([route.effective for route in routes]),
        "effective_experts_spread": spread([route.effective for route in routes]),
        "gate_entropy_bits": mean(entropies),
        "gate_entropy_spread": spread(entropies),
        "stability": mean([overlap(a, b) for a, b in pairs]) if pairs else None,
        "top1_change_rate": mean([float(a.first != b.first) for a, b in pairs]) if pairs else None,
        "margin": mean(margins) if margins else None,
        **share_figures(calls, layer),
        "batches": batch_figures(windows, calls, len(routes)),
        "positions": position_figures(routes, trace.has_logits),
        "coactivation": best,
        "coactivation_clusters": clusters,
        "specialists": [],
        "information_bits": None,
        "drift_bits": None,
        "drift_chance_bits": None,
    }


# -- domains beside one another ----------------------------------------------------------------------------------------


def information_of_part(part, whole):
    return math.fsum(c / sum(part) * math.log2(c / sum(part) / (w / sum(whole))) for c, w in zip(part, whole) if c)


def add_information(domains, whole):
    if len(domains) < 2:
        return
    whole["information_bits"] = 0.0
    for domain in domains:
        domain["information_bits"] = information_of_part(domain["calls"], whole["calls"])
        whole["information_bits"] += domain["information_bits"] * domain["calls_total"] / whole["calls_total"]


def specialists_of(names, domains, whole):
    found = []
    for expert, calls in enumerate(whole["calls"]):
        for name, domain in zip(names, domains):
            n, m, in_domain = whole["tokens"], domain["tokens"], domain["calls"][expert]
            variance = m * (calls / n) * (1 - calls / n) * (n - m) / (n - 1)
            if not in_domain or variance <= 0:
                continue
            lift = in_domain / domain["calls_total"] / (calls / whole["calls_total"])
            excess = (in_domain - m * calls / n) / math.sqrt(variance)
            if lift >= SPECIALIST_LIFT and excess >= SPECIALIST_DEVIATIONS:
                found.append({"expert": expert, "domain": name, "lift": lift, "excess_deviations": excess})
    return found


def add_drift(figures, before):
    a, b = figures["calls"], before
    bits = 0.0
    for x, y in zip(a, b):
        p, q = x / sum(a), y / sum(b)
        bits += (p * math.log2(2 * p / (p + q)) if p else 0.0) / 2 + (q * math.log2(2 * q / (p + q)) if q else 0.0) / 2
    figures["drift_bits"] = bits
    figures["drift_chance_bits"] = (len(a) - 1) * (1 / sum(a) + 1 / sum(b)) / (8 * math.log(2))


def saved_calls(path):
    """[domain][layer][expert], by the name of the domain, and of all as None."""
    with open(path, encoding="utf-8") as stream:
        file = json.load(stream)
    calls = {d["name"]: [[int(n) for n in layer["calls"].split()] for layer in d["layers"]] for d in file["domains"]}
    calls[None] = [[sum(n) for n in zip(*of_layer)] for of_layer in zip(*calls.values())]
    return calls


# -- over layers -------------------------------------------------------------------------------------------------------

MEANS = ("mean_k", "k_spread", "effective_experts", "effective_experts_spread", "gate_entropy_bits",
         "gate_entropy_spread", "routing_entropy_bits", "routing_entropy_normalised", "share_variation",
         "share_max_over_mean", "never_called")  # fmt: skip
MEANS_OR_NONE = ("stability", "top1_change_rate", "margin", "information_bits", "drift_bits", "drift_chance_bits")


def total_of(layers):
    total = {name: mean([layer[name] for layer in layers]) for name in MEANS}
    total.update({name: mean_or_none([layer[name] for layer in layers]) for name in MEANS_OR_NONE})
    total["tokens"] = layers[0]["tokens"]
    for name in ("calls_total", "distinct_experts"):
        total[name] = sum(layer[name] for layer in layers)
    total["hottest"] = max((layer["hottest"] for layer in layers), key=lambda extreme: extreme["share"])
    total["coldest"] = min((layer["coldest"] for layer in layers), key=lambda extreme: extreme["share"])
    total["batches"] = []
    for same in zip(*(layer["batches"] for layer in layers)):
        distinct = math.fsum(batch["distinct_experts"] for batch in same)
        expected = math.fsum(batch["expected_union"] for batch in same)
        total["batches"].append({**same[0], "distinct_experts": distinct, "expected_union": expected,
                                 "sharing_gain": expected / distinct})  # fmt: skip
    total["positions"] = []
    for same in zip(*(layer["positions"] for layer in layers)):
        figures = {name: mean_or_none([bin[name] for bin in same])
                   for name in ("mean_k", "effective_experts", "gate_entropy_bits")}  # fmt: skip
        total["positions"].append({**same[0], **figures})
    return total


def recount(trace, saved):
    names = sorted(trace.domains)
    windows = {name: trace.domains[name] for name in names}
    windows[None] = [window for name in names for window in windows[name]]
    places = list(enumerate(trace.layers))
    targets = {
        name: [layer_figures([window[place] for window in windows[name]], layer, trace) for place, layer in places]
        for name in windows
    }
    for place in range(len(trace.layers)):
        domains, whole = [targets[name][place] for name in names], targets[None][place]
        add_information(domains, whole)
        whole["specialists"] = specialists_of(names, domains, whole)
    for name, layers in targets.items():
        for place, layer in enumerate(layers):
            if saved and name in saved:
                add_drift(layer, saved[name][place])
    report = [{"name": name or "all", "windows": len(windows[name]), "total": total_of(layers), "layers": layers}
              for name, layers in targets.items()]  # fmt: skip
    return {"experts": trace.n_experts, "cluster_lift": CLUSTER_LIFT,
            "domains": report[:-1], "all": report[-1]}  # fmt: skip


# -- the comparison ----------------------------------------------------------------------------------------------------


def verdict_of(figures, reported):
    """From recounted figures, and the p-values and intervals that are reported."""
    tests = [reported[name] for name in ("information_test", "stability_test") if reported[name]]
    fits = bool(tests) and all(test["p"] > SIGNIFICANT for test in tests)
    is_biased = figures["share_variation"] > BIASED_VARIATION or figures["never_called"] > BIASED_NEVER_CALLED
    outside = lambda limit, interval: bool(interval) and not interval[0] <= limit <= interval[1]
    return {
        "verdict": "biased" if is_biased else "random" if fits else "balanced",
        "verdict_is_certain": outside(BIASED_VARIATION, reported["share_variation_interval"])
        and outside(BIASED_NEVER_CALLED, reported["never_called_interval"]),
    }


class Comparison:
    def __init__(self, has_logits):
        self.skipped = RESAMPLED | OF_THE_RUN | {"sampled_tokens"} | (set() if has_logits else OF_LOGITS)
        self.wrong = []
        self.n_compared = 0

    def compare(self, name, counted, reported):
        if isinstance(counted, dict) and isinstance(reported, dict):
            self.compare_objects(name, counted, reported)
        elif isinstance(counted, list) and isinstance(reported, list):
            if len(counted) != len(reported):
                self.wrong.append(f"{name}: {len(counted)} counted, {len(reported)} reported")
            for i, pair in enumerate(zip(counted, reported)):
                self.compare(f"{name}[{i}]", *pair)
        else:
            self.n_compared += 1
            if not self.is_same(name, counted, reported):
                self.wrong.append(f"{name}: {counted} counted, {reported} reported")

    def compare_objects(self, name, counted, reported):
        if "share_variation" in counted:
            counted = {**counted, **verdict_of(counted, reported)}
        for key in sorted((counted.keys() | reported.keys()) - self.skipped):
            if key not in counted or key not in reported:
                self.wrong.append(f"{name}.{key}: {'not recounted' if key not in counted else 'not in the report'}")
            else:
                self.compare(f"{name}.{key}", counted[key], reported[key])

    @staticmethod
    def is_same(name, counted, reported):
        if type(counted) in (int, float) and type(reported) in (int, float):
            tolerance = TOLERANCE_OF_GATE if ".gate_entropy" in name else TOLERANCE
            # What is 0 by the definition may be the rest of a sum of order 1.
            return math.isclose(counted, reported, rel_tol=tolerance, abs_tol=1e-12)
        return counted == reported


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("trace")
    parser.add_argument("--against")
    arguments = parser.parse_args()
    try:
        with open(arguments.report, encoding="utf-8") as stream:
            reported = json.load(stream)
        if reported["format"] != "soli-profile-report-1":
            raise ValueError(f"format is {reported['format']!r}, not 'soli-profile-report-1'")
        trace = Trace(arguments.trace)
        counted = recount(trace, saved_calls(arguments.against) if arguments.against else None)
        comparison = Comparison(trace.has_logits)
        comparison.compare("report", counted, reported)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, sqlite3.Error, struct.error) as error:
        print(f"{arguments.report}, {arguments.trace}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for line in comparison.wrong:
        print(line)
    print(f"{counted['all']['total']['tokens']} tokens, {comparison.n_compared} figures"
          f"{'' if trace.has_logits else ' (none of logits, which the trace does not have)'}: "
          f"{'all agree' if not comparison.wrong else f'{len(comparison.wrong)} differ'}")  # fmt: skip
    return 1 if comparison.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
