#!/usr/bin/env python3
"""usage: recount.py FILE

Recounts the activation report of a routing JSON file (soli run --routing-json FILE) from its tokens alone, by the
definitions and not by soli's code, and compares every figure with the file's own report. Exit status: 0 all agree,
1 some do not (each is named), 2 not such a file.
"""
import json
import math
import struct
import sys

TOLERANCE = 1e-6  # relative


def float32(decimal):
    """Weights and gate entropies are written as the shortest decimals of 32-bit floats."""
    return struct.unpack("f", struct.pack("f", decimal))[0]


def effective_experts(weights):
    total = sum(weights)
    if total <= 0:
        return 0.0
    return math.exp(-sum(w / total * math.log(w / total) for w in weights if w > 0))


def recount_token(file, token):
    moe_layers = file["moe_layers"]
    parameters = file["always_active_parameters"]
    touched = file["always_active_bytes"]
    effective, entropy = [], []
    for layer in token["layers"]:
        place = moe_layers.index(layer["layer"])
        parameters += sum(file["expert_parameters"][place][e] for e in layer["ids"])
        touched += sum(file["expert_bytes"][place][e] for e in layer["ids"])
        effective.append(effective_experts([float32(weight) for weight in layer["weights"]]))
        entropy.append(float32(layer["gate_entropy"]))
    all_keys = token["position"] + 1
    keys = sum(min(all_keys, window) if window else all_keys for window in file["windows"])
    query_key = 2 * keys * file["n_heads"] * file["head_dim"]
    weight_value = 2 * keys * file["n_heads"] * file["value_dim"]
    return {
        "position": token["position"],
        "token": token["token"],
        "active_parameters": parameters,
        "activation_ratio": parameters / file["nominal_parameters"],
        "effective_experts": mean(effective),
        "gate_entropy_bits": mean(entropy),
        "touched_bytes": touched,
        "flops": 2 * parameters + query_key + weight_value,
    }


def mean(values):
    return math.fsum(values) / len(values) if values else 0.0


def spread(values):
    if not values:
        return {"mean": 0.0, "min": 0.0, "max": 0.0, "spread": 0.0}
    m = mean(values)
    if min(values) == max(values):
        return {"mean": values[0], "min": values[0], "max": values[0], "spread": 0.0}
    deviation = math.sqrt(mean([(v - m) ** 2 for v in values]))
    return {"mean": m, "min": min(values), "max": max(values), "spread": deviation}


FIGURES = ["active_parameters", "activation_ratio", "effective_experts", "gate_entropy_bits", "touched_bytes", "flops"]


def summarise(tokens):
    return {"n_tokens": len(tokens), **{name: spread([t[name] for t in tokens]) for name in FIGURES}}


def by_position(tokens):
    if not tokens:
        return []
    first, end = tokens[0]["position"], tokens[-1]["position"] + 1
    n_bins = min(8, end - first)
    edges = [first + (end - first) * b // n_bins for b in range(n_bins + 1)]
    return [
        {"first_position": a, "end_position": b, **summarise([t for t in tokens if a <= t["position"] < b])}
        for a, b in zip(edges, edges[1:])
    ]


def stability(routes):
    """Mean Jaccard overlap and rate of top-1 changes over pairs of tokens at consecutive positions."""
    pairs = [(a, b) for a, b in zip(routes, routes[1:]) if b["position"] == a["position"] + 1]
    if not pairs:
        return None, None
    overlaps = [len(set(a["ids"]) & set(b["ids"])) / len(set(a["ids"]) | set(b["ids"])) for a, b in pairs]
    top = lambda route: route["ids"][route["weights"].index(max(route["weights"]))]
    return mean(overlaps), mean([float(top(a) != top(b)) for a, b in pairs])


def recount_layer(file, tokens, place):
    n_experts = file["n_experts"]
    routes = [{"position": t["position"], **t["layers"][place]} for t in tokens]
    calls = [0] * n_experts
    for route in routes:
        for expert in route["ids"]:
            calls[expert] += 1
    total = sum(calls)
    figures = {"layer": file["moe_layers"][place], "n_calls": total, "hottest_expert": 0, "hottest_share": 0.0,
               "coldest_expert": 0, "coldest_share": 0.0, "routing_entropy_bits": 0.0,
               "routing_entropy_normalised": 0.0, "share_variation": 0.0, "share_max_over_mean": 0.0,
               "never_called": 0.0, "stability": None, "top1_change_rate": None, "distinct_experts": 0,
               "expected_union": 0.0, "sharing_gain": 0.0}
    if total == 0:
        return figures
    shares = [c / total for c in calls]
    entropy = -sum(s * math.log2(s) for s in shares if s > 0)
    distinct = sum(c > 0 for c in calls)
    union = sum(1 - (1 - c / len(tokens)) ** len(tokens) for c in calls)
    overlap, changes = stability(routes)
    return {**figures, "hottest_expert": calls.index(max(calls)), "hottest_share": max(shares),
            "coldest_expert": calls.index(min(calls)), "coldest_share": min(shares),
            "routing_entropy_bits": entropy,
            "routing_entropy_normalised": entropy / math.log2(n_experts) if n_experts > 1 else 0.0,
            "share_variation": spread(shares)["spread"] / mean(shares),
            "share_max_over_mean": max(shares) / mean(shares), "never_called": calls.count(0) / n_experts,
            "stability": overlap, "top1_change_rate": changes, "distinct_experts": distinct,
            "expected_union": union, "sharing_gain": union / distinct}


def mean_or_none(values):
    return None if not values or None in values else mean(values)


def recount(file):
    n_moe_layers = len(file["moe_layers"])
    complete = [t for t in file["tokens"] if [r["layer"] for r in t["layers"]] == file["moe_layers"]]
    tokens = [recount_token(file, t) for t in complete]
    layers = [recount_layer(file, complete, place) for place in range(n_moe_layers)]
    distinct = {(place, e) for t in complete for place, r in enumerate(t["layers"]) for e in r["ids"]}
    n_pairs = n_moe_layers * file["n_experts"]
    expected = math.fsum(layer["expected_union"] for layer in layers)
    union_bytes = sum(file["expert_bytes"][place][e] for place, e in distinct)
    kinds = {t["position"]: t["kind"] for t in complete}
    return {
        "model": file["model"], "n_experts": file["n_experts"], "experts_per_token": file["experts_per_token"],
        "nominal_parameters": file["nominal_parameters"],
        "always_active_parameters": file["always_active_parameters"],
        "always_active_bytes": file["always_active_bytes"],
        "n_incomplete_tokens": len(file["tokens"]) - len(complete),
        "all": summarise(tokens),
        "prompt": summarise([t for t in tokens if kinds[t["position"]] == "prompt"]),
        "generated": summarise([t for t in tokens if kinds[t["position"]] == "generated"]),
        "by_position": by_position(tokens),
        "stability": mean_or_none([layer["stability"] for layer in layers]),
        "top1_change_rate": mean_or_none([layer["top1_change_rate"] for layer in layers]),
        "distinct_pairs": len(distinct),
        "union_ratio": len(distinct) / n_pairs if n_pairs else 0.0,
        "expected_union": expected,
        "sharing_gain": expected / len(distinct) if distinct else 0.0,
        "union_bytes": union_bytes + (file["always_active_bytes"] if tokens else 0),
        "layers": layers,
        "tokens": tokens,
    }


def differences(name, counted, reported):
    """Yields a line for every figure that differs, is missing or is there without having been recounted."""
    if isinstance(counted, dict) and isinstance(reported, dict):
        for key in counted.keys() | reported.keys():
            if key not in counted or key not in reported:
                yield f"{name}.{key}: {'not recounted' if key not in counted else 'not in the report'}"
            else:
                yield from differences(f"{name}.{key}", counted[key], reported[key])
    elif isinstance(counted, list) and isinstance(reported, list):
        if len(counted) != len(reported):
            yield f"{name}: {len(counted)} counted, {len(reported)} reported"
        for i, pair in enumerate(zip(counted, reported)):
            yield from differences(f"{name}[{i}]", *pair)
    elif isinstance(counted, (int, float)) and isinstance(reported, (int, float)):
        # A deviation or an entropy near 0 is the rest of sums of order 1 or of the mean.
        if not math.isclose(counted, reported, rel_tol=TOLERANCE, abs_tol=1e-9):
            yield f"{name}: {counted} counted, {reported} reported"
    elif counted != reported:
        yield f"{name}: {counted} counted, {reported} reported"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as stream:
            file = json.load(stream)
        if file["format"] != "soli-routing-1":
            raise ValueError(f"format is {file['format']!r}, not 'soli-routing-1'")
        reported = dict(file["report"])
        dropped = reported.pop("n_dropped_routes")  # what is not in the file cannot be recounted
        counted = recount(file)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        print(f"{sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    wrong = list(differences("report", counted, reported))
    for line in wrong:
        print(line)
    print(f"{len(file['tokens'])} tokens, {len(counted['layers'])} MoE layers, {dropped} routes dropped: "
          f"{'every figure agrees' if not wrong else f'{len(wrong)} figures differ'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
