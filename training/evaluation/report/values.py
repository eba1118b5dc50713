"""The format of values in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

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


def list_headlines(figures: Mapping[str, Any]) -> list[str]:
    """List the figures of a task that tables show.

    figures (Mapping[str, Any]): The figures of the task.
    RETURNS (list[str]): `acc_at_1` and so on at each rank of a linking task, else `accuracy`.
    """
    linking = [name for name in figures if name.startswith("acc_at_") and name.removeprefix("acc_at_").isdecimal()]
    return linking or ["accuracy"]
