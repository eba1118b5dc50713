"""Measure alternatives in turns, so that other work on the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

Result = TypeVar("Result")


def take_turns(ways: Mapping[str, Callable[[], Result]], turn: int) -> dict[str, tuple[float, Result]]:
    """Run each way once; every other turn in reverse order.

    ways (Mapping[str, Callable]): The ways by name.
    turn (int): The number of the turn.
    RETURNS (dict[str, tuple[float, Any]]): The seconds that each way took, and what it returned.
    """
    measured = {}
    for name in sorted(ways, key=list(ways).index, reverse=turn % 2 == 1):
        begin = time.perf_counter()
        result = ways[name]()
        measured[name] = (time.perf_counter() - begin, result)
    return measured


def median_ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return how many times faster one way was, as the median over the turns.

    slow (Sequence[float]): Seconds of the one way, by turn.
    fast (Sequence[float]): Seconds of the other way.
    RETURNS (float): The median of slow / fast.
    """
    return median(a / b for a, b in zip(slow, fast, strict=True))
