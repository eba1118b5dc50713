"""The rows of the report on RRF: figures and targets."""

from __future__ import annotations

import math
from typing import Any

from rows import Row

GB = 1e9
# The targets stand here and nowhere else. A whole release has 15.5 million rows, the open metathesaurus 740,000.
# Of a whole release the targets are about names and pairs, of the open metathesaurus about triples as well.
FULL_RELEASE = {"rows": 15_000_000, "seconds": 45, "gigabytes": 5}
OPEN_METATHESAURUS = {"rows": 1_000_000, "seconds": 60, "gigabytes": 3}
# Below, imports and other fixed costs hide how the time grows.
GROWTH_FROM = 1_000_000
# Plain Python's seconds by ours, from as many rows on.
TIMES_PLAIN = 1.5
TRIPLES = "triples"
COUNT, SECOND, GIGABYTE = "{:,.0f}", "{:.1f} s", "{:.2f} GB"


def make_rrf_rows(result: dict[str, Any]) -> list[Row]:
    """Choose the figures to show.

    result (dict): What the measurement has written.
    RETURNS (list[Row]): The rows.
    """
    rows = [row for size in result["synthetic"] for row in _make_size_rows(size)]
    large = [size for size in result["synthetic"] if size["wanted"] >= GROWTH_FROM]
    if len(large) > 1:
        what = f"exponent, {large[0]['rows']:,} to {large[-1]['rows']:,} rows"
        rows.append(Row("growth", what, find_exponent(large[0], large[-1]), "{:.2f}"))
    if result["real"]:
        rows.extend(_make_real_rows(result["real"]))
    return rows


def find_exponent(small: dict[str, Any], large: dict[str, Any]) -> float:
    """Find the power of the number of rows that the time grows with.

    small (dict): What was measured for some rows.
    large (dict): What was measured for more rows.
    RETURNS (float): 1 if twice as many rows take twice as long.
    """
    growth = large["ours"]["seconds"] / small["ours"]["seconds"]
    return math.log(growth) / math.log(large["rows"] / small["rows"])


def _make_size_rows(size: dict[str, Any]) -> list[Row]:
    part, ours = f"{size['rows']:,} rows", size["ours"]
    limits = FULL_RELEASE if size["wanted"] >= FULL_RELEASE["rows"] else {}
    rows = [
        *_make_count_rows(part, ours),
        Row(part, "in all", ours["seconds"], SECOND, at_most=limits.get("seconds")),
        Row(part, "peak memory", ours["peak_bytes"] / GB, GIGABYTE, at_most=limits.get("gigabytes")),
    ]
    target = TIMES_PLAIN if size["wanted"] >= GROWTH_FROM else None
    return rows + (_make_plain_rows(part, ours, size["plain"], target) if "plain" in size else [])


def _make_count_rows(part: str, measured: dict[str, Any]) -> list[Row]:
    written = [Row(part, f"{name} written", n, COUNT) for name, n in measured["counts"].items()]
    return written + [Row(part, step, seconds, SECOND) for step, seconds in measured["steps"].items()]


def _make_plain_rows(part: str, ours: dict[str, Any], plain: dict[str, Any], target: float | None = None) -> list[Row]:
    seconds = sum(seconds for step, seconds in ours["steps"].items() if step != TRIPLES)
    peak = max(peak for step, peak in ours["peaks"].items() if step != TRIPLES)
    return [
        Row(part, "plain Python, names and pairs", plain["seconds"], SECOND),
        Row(part, "plain Python, peak memory", plain["peak_bytes"] / GB, GIGABYTE),
        Row(part, "plain / ours, seconds for names and pairs", plain["seconds"] / seconds, "{:.2f}x", at_least=target),
        Row(part, "ours / plain, peak memory", peak / plain["peak_bytes"], "{:.2f}x"),
    ]


def _make_real_rows(real: dict[str, Any]) -> list[Row]:
    part, keep, drop, plain = real["name"], real["keep"], real["drop"], real["plain"]
    limits = OPEN_METATHESAURUS if real["rows"] <= OPEN_METATHESAURUS["rows"] else {}
    rows = [
        Row(part, "rows", real["rows"], COUNT),
        *_make_count_rows(part, keep),
        Row(part, "in all", keep["seconds"], SECOND, at_most=limits.get("seconds")),
        Row(part, "peak memory", keep["peak_bytes"] / GB, GIGABYTE, at_most=limits.get("gigabytes")),
        *_make_plain_rows(part, keep, plain),
        *(_compare_counts(part, name, keep["counts"][name], n) for name, n in plain["counts"].items()),
        Row(part, "pairs without suppressed names", drop["counts"]["pairs"], COUNT),
    ]
    if "pairs" in real["expected"]:
        difference = abs(drop["counts"]["pairs"] - real["expected"]["pairs"])
        what = "pairs without suppressed names, difference from counts.json"
        rows.append(Row(part, what, difference, COUNT, at_most=0))
    return rows


def _compare_counts(part: str, what: str, ours: int, plain: int) -> Row:
    # No target: plain Python keeps white space around names, which makes two of one in some releases.
    return Row(part, f"{what}, difference from plain Python", abs(ours - plain), COUNT)
