"""Percentiles and small tables."""

import math

PERCENTS = (50, 95, 99)
DEFINITION = (
    "The p-th percentile of n values is the least of them that at least p % of the values are not above: the "
    "ceil(p n / 100)-th smallest (nearest rank). It is always a value that was measured, and for small n the greatest."
)


def percentile(values, percent):
    """By the definition above; None of no values."""
    if not values:
        return None
    return sorted(values)[max(1, math.ceil(percent * len(values) / 100)) - 1]


def spread(values):
    """n, mean, p50, p95, p99 and the greatest, of seconds or whatever they are; only n where there are none."""
    figures = {"n": len(values)}
    if values:
        figures["mean"] = sum(values) / len(values)
        figures.update({f"p{percent}": percentile(values, percent) for percent in PERCENTS})
        figures["max"] = max(values)
    return figures


def milliseconds(seconds):
    return "-" if seconds is None else f"{seconds * 1000:.1f}"


def table(rows):
    """Lines of text with aligned columns: the first to the left, the others to the right."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [str(row[0]).ljust(widths[0])] + [str(cell).rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
