"""Encoders side by side: a quick table of figures, and the figures of cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

from ..data.headlines import label_figure, label_task, list_headlines
from ..encoders.bases import SMALL, load_base
from ..encoders.choice import EncoderChoice
from .report.values import format_values
from .report.writing import format_rows
from .systems.base import LazySystem, System
from .systems.encoder import EncoderSystem

# Figures of one encoder by task.
Scores = Mapping[str, Mapping[str, Any]]


def list_encoders(encoders: str) -> dict[str, System]:
    """List encoders to measure. Each is loaded when it is measured.

    encoders (str): Folders or hub names, separated by commas; empty for the small one.
    RETURNS (dict[str, System]): Systems by name.
    """

    def load(name: str) -> System:
        return EncoderSystem(load_base(name, EncoderChoice(max_length=None)))

    return {name or SMALL: LazySystem(partial(load, name)) for name in map(str.strip, encoders.split(","))}


def format_scores(rows: Mapping[str, Sequence[Scores]], *, reference: str) -> str:
    """Write a table in percent: a line for each encoder, with the figures of each task, such as "acc@1/@5".

    Several scores of one encoder are those of seeds: their mean, and behind it their standard deviation. The difference
    from the reference stands in brackets.

    rows (Mapping[str, Sequence[Scores]]): The scores of each encoder.
    reference (str): The encoder to compare with.
    RETURNS (str): Markdown.
    """
    base = rows[reference]
    lines = []
    for label, scores in rows.items():
        cells = []
        for task, figures in base[0].items():
            headlines = list_headlines(figures)
            values = {name: [100 * run[task][name] for run in scores] for name in headlines}
            cell = "/".join(format_values(of_figure, "±") for of_figure in values.values())
            if label != reference:
                gains = [mean(values[name]) - mean(100 * run[task][name] for run in base) for name in headlines]
                cell += f" ({'/'.join(f'{gain:+.1f}' for gain in gains)})"
            cells.append(cell)
        lines.append([label, *cells])
    header = [label_task(task, figures) for task, figures in base[0].items()]
    return format_rows(["", *header], lines, n_text_columns=1)


def describe_results(before: Scores | None, after: Scores) -> dict[str, dict[str, float]]:
    """Set the scores of a trained encoder beside those of its base.

    before (Scores | None): The base's, if it was measured.
    after (Scores): The trained encoder's.
    RETURNS (dict[str, dict[str, float]]): For each task, shares by "before acc@1", "acc@1" and so on; "row acc@1" where
        names are counted.
    """
    measured = [("before ", before)] if before else []
    return {
        task: {
            f"{label}{label_figure(name)}": scores[task][name]
            for label, scores in (*measured, ("", after))
            for name in list_headlines(figures)
        }
        for task, figures in after.items()
    }
