"""The format of values in tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

NOTHING = "–"


def format_values(values: Sequence[float], sign: str = " ± ") -> str:
    """Write the scores of seeds.

    values (Sequence[float]): Scores in percent.
    sign (str): The sign before the standard deviation.
    RETURNS (str): Their mean with one decimal, and their standard deviation if there are several.
    """
    if not values:
        return NOTHING
    return f"{fmean(values):.1f}" + (f"{sign}{stdev(values):.1f}" if len(values) > 1 else "")
