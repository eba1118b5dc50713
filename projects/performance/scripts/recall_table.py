"""The table of the indexes: one row for each index and size."""

from __future__ import annotations

from typing import Any

# The order of the columns; the queries of "left_out" are rows that do not count as their own neighbours.
KINDS_OF_QUERIES = ("left_out", "mentions", "shortened", "first_word", "misspelt")


def make_recall_table(measured: dict[str, Any]) -> list[str]:
    """Write the measurements of the indexes as a Markdown table.

    measured (dict): What the measurement of recall has written.
    RETURNS (list[str]): The lines.
    """
    head = ["rows", "index", "build", "MB", "load", "queries/s", "times exact"]
    head += [f"missed: {kind.replace('_', ' ')}" for kind in KINDS_OF_QUERIES]
    lines = [head, ["---:", "---", *["---:"] * (len(head) - 2)]]
    for size in measured["sizes"]:
        for kind, result in size["kinds"].items():
            line = [f"{size['rows']:,}", kind, f"{result['build_seconds']:.1f} s", f"{result['bytes'] / 1e6:,.0f}"]
            line += [f"{result['load_seconds']:.2f} s", f"{result['queries_per_second']:,.0f}"]
            line.append(f"{result['times_exact']:.1f}x")
            line += [f"{result['missed'][query]:.2%}" for query in KINDS_OF_QUERIES]
            lines.append(line)
    return [f"| {' | '.join(line)} |" for line in lines]


def describe_recall(measured: dict[str, Any]) -> list[str]:
    """Describe queries and configurations in writing.

    measured (dict): What the measurement of recall has written.
    RETURNS (list[str]): Remarks.
    """
    facts = ["Distinct queries: " + ", ".join(f"{n:,} {kind}" for kind, n in measured["queries"].items()) + "."]
    for size in measured["sizes"]:
        for kind, result in size["kinds"].items():
            if result["configuration"]["scoring"] != "exact":
                chosen = ", ".join(f"{key} {value}" for key, value in result["configuration"].items())
                recall = result["own_recall"]["at_1"]
                facts.append(f"{size['rows']:,} rows, {kind}: {chosen}; recorded recall {recall:.4f}.")
    return facts
