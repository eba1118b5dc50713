"""Encoders side by side: a quick table of figures, and the figures of cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

from ..data.headlines import label_figure, label_task, list_headlines
from ..encoders.bases import SMALL, load_base
from ..encoders.bases import EncoderChoice
from .report.significance import compare_seeds
from .report.values import format_values
from .report.writing import format_rows
from .systems.base import LazySystem, System
from .systems.encoder import EncoderSystem

F1 = "f1"
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


def format_tests(runs: Mapping[str, Mapping[int, Scores]]) -> str:
    """Write a table of paired t-tests: each variant against the first one, over the seeds that both have.

    The authors of SapBERT test over five seeds, and do not name the test (Liu et al., NAACL 2021, table 1).

    runs (Mapping[str, Mapping[int, Scores]]): The scores of each variant by seed.
    RETURNS (str): Markdown: differences of acc@1, F1 or the accuracy, in percent. Empty if no two variants share two
        seeds.
    """
    (first, reference), *others = runs.items()
    lines = []
    for label, by_seed in others:
        seeds = [seed for seed in by_seed if seed in reference]
        cells = []
        for task, figures in next(iter(by_seed.values())).items() if len(seeds) > 1 else ():
            headline = _choose_headline(figures)
            pair = [[100 * scores[seed][task][headline] for seed in seeds] for scores in (by_seed, reference)]
            cells.append(f"{mean(pair[0]) - mean(pair[1]):+.1f}: {compare_seeds(*pair)}")
        if cells:
            lines.append([label, *cells])
    if not lines:
        return ""
    heading = f"Differences from {first}, two-sided and not corrected for their number:"
    tasks = [
        f"{task} {label_figure(_choose_headline(figures))}" for task, figures in next(iter(reference.values())).items()
    ]
    return f"\n{heading}\n\n{format_rows(['', *tasks], lines, n_text_columns=len(tasks) + 1)}"


def _choose_headline(figures: Mapping[str, Any]) -> str:
    """Choose one figure of a task: F1, the accuracy at the first rank, or the accuracy."""
    headlines = list_headlines(figures)
    return F1 if F1 in headlines else headlines[0]


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
