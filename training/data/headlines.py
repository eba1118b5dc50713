"""The figures of a task that tables and cards show: which, and how they are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What the hits of a linking task are counted by, and the figure of a result that names it; results without one are
# counted by distinct concepts.
CONCEPT, ROW, ANSWER = "concept", "row", "answer"
LEVELS = (CONCEPT, ROW, ANSWER)
LEVEL = "level"
# Of a task without ranks.
ACCURACY = "accuracy"
# Of a task that counts the first name of each query as the one answer.
ANSWER_FIGURES = ("precision", "recall", "f1")


def name_metric(rank: int | str, level: str = CONCEPT) -> str:
    """Name the figure that counts hits up to a rank.

    rank (int | str): The rank; empty for what the names of all ranks begin with.
    level (str): "concept" if ranks are those of distinct concepts, otherwise they are those of names.
    RETURNS (str): Its name in results and predictions.
    """
    return f"acc_at_{rank}" if level == CONCEPT else f"row_acc_at_{rank}"


def list_metrics(level: str, ranks: Sequence[int]) -> list[str]:
    """List the figures that tables show of a linking task.

    level (str): One of `LEVELS`.
    ranks (Sequence[int]): The ranks to show.
    RETURNS (list[str]): A figure for each rank, or precision, recall and F1.
    """
    return list(ANSWER_FIGURES) if level == ANSWER else [name_metric(rank, level) for rank in ranks]


def list_headlines(figures: Mapping[str, Any]) -> list[str]:
    """List the figures of a task that tables show.

    figures (Mapping[str, Any]): The figures of the task.
    RETURNS (list[str]): `acc_at_1` and so on at each rank of a linking task; `row_acc_at_1` and so on, or precision,
        recall and F1, if these are what it is about; of other tasks `accuracy`.
    """
    level = figures.get(LEVEL, CONCEPT)
    if level == ANSWER:
        return list(ANSWER_FIGURES)
    prefix = name_metric("", level)
    ranked = [name for name in figures if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()]
    return ranked or [ACCURACY]


def label_figure(name: str) -> str:
    """Write the name of a figure for readers.

    name (str): Its name in results.
    RETURNS (str): "acc@1" for distinct concepts, "row acc@1" for names, "F1".
    """
    return name.replace("row_acc", "row acc").replace("acc_at_", "acc@").replace("f1", "F1")


def label_headlines(figures: Mapping[str, Any]) -> str:
    """Write the names of the figures that tables show of a task.

    figures (Mapping[str, Any]): The figures of the task.
    RETURNS (str): "acc@1/@5", "row acc@1/@3", "precision/recall/F1" or "accuracy".
    """
    joined = "/".join(map(label_figure, list_headlines(figures)))
    return joined.replace("/row acc@", "/@").replace("/acc@", "/@")


def label_task(name: str, figures: Mapping[str, Any]) -> str:
    """Write the name of a task and of the figures that tables show of it.

    name (str): The task.
    figures (Mapping[str, Any]): Its figures.
    RETURNS (str): "psytar row acc@1/@3"; the task alone where it has an accuracy and no ranks.
    """
    label = label_headlines(figures)
    return name if label == ACCURACY else f"{name} {label}"


def format_figures(figures: Mapping[str, float], form: str = ".1%") -> str:
    """Write shares behind their names.

    figures (Mapping[str, float]): Shares by their names in results.
    form (str): The format of a share.
    RETURNS (str): "acc@1 50.0%, acc@5 75.0%".
    """
    return ", ".join(f"{label_figure(name)} {share:{form}}" for name, share in figures.items())
