"""Curves: loss and accuracy of runs over their steps; how sure pipelines are of links, and how often they are right."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.run_folder import RunFolder
from .pictures import COLOURS, MARKERS, PANEL_WIDTH, check_format, house_style, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ("-", "--", ":", "-.")
# A mean over a fiftieth of the steps shows the course and hides the differences between batches.
SHARE_SMOOTHED = 50
MEASURED = "measured.json"


def draw_curves(runs: Mapping[str, str | Path], path: str | Path) -> None:
    """Draw runs, by the name for the legend, into one picture. The same metrics give the same bytes."""
    check_format(path)
    with house_style("Curves of runs"):
        save_picture(make_figure(runs), path)


def try_to_draw(runs: Mapping[str, str | Path], path: str | Path) -> None:
    """Draw finished runs. Errors become warnings, because a run should not fail after hours of training."""
    try:
        draw_curves(runs, path)
    except (ImportError, ValueError, OSError) as error:
        later = "Draw them later with `python -m training figures curves`."
        warnings.warn(f"The curves of {Path(path).parent} are not drawn: {error} {later}", stacklevel=3)


def make_figure(runs: Mapping[str, str | Path]) -> Figure:
    """Draw runs: the loss of each step, faint, with its mean; below, the accuracy where there are evaluations."""
    from matplotlib.figure import Figure

    losses, accuracies = {}, {}
    for name, run in runs.items():
        metrics = RunFolder(run).read_metrics()
        losses[name] = np.array([(entry["step"], entry["loss"]) for entry in metrics if "loss" in entry])
        if not len(losses[name]):
            raise ValueError(f"There are no steps to draw in {run}. Give the folder of a run, after its first step.")
        found = [(entry["step"], 100 * entry["evaluation"]["acc_at_1"]) for entry in metrics if "evaluation" in entry]
        accuracies[name] = np.array(found) if found else None
    n_panels = 1 + any(scores is not None for scores in accuracies.values())
    figure = Figure(figsize=(5.0, 2.3 * n_panels), layout="constrained")
    panels = figure.subplots(n_panels, sharex=True, squeeze=False)[:, 0]
    window = 2 * (max(map(len, losses.values())) // SHARE_SMOOTHED // 2) + 1
    for number, (name, scores) in enumerate(accuracies.items()):
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number // len(COLOURS) % len(LINES)]}
        steps, values = losses[name].T
        if window > 1:
            panels[0].plot(steps, values, color=look["color"], linewidth=0.5, alpha=0.25, zorder=1, label="_each step")
        panels[0].plot(steps, smooth(values, window), label=name, **look)
        if scores is not None:
            panels[1].plot(*scores.T, marker=MARKERS[number // len(COLOURS) % len(MARKERS)], label=name, **look)
    panels[0].set_ylabel(f"Loss, mean of {window} steps\n(faint: of each)" if window > 1 else "Loss")
    panels[0].legend()
    panels[-1].set_xlabel("Training step")
    if n_panels > 1:
        panels[1].set_ylabel("Accuracy at 1 (%)\non held-out names")
    return figure


def name_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """Name folders of runs for a legend. Each is given as FOLDER, whose last part is its name, or as NAME=FOLDER."""
    runs: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).is_dir():
            name, folder = Path(argument).resolve().name, argument
        if name in runs:
            raise ValueError(f"Two of the runs are called '{name}'. Give one another name, as in NAME=FOLDER.")
        runs[name] = Path(folder)
    return runs


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Average each value with its neighbours (the window is odd), of which there are fewer at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    rows = np.arange(len(values))
    first, last = np.maximum(rows - window // 2, 0), np.minimum(rows + window // 2 + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)


def read_confidence(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Read the curves of pipelines on documents from a folder of `measure`, by the name for the legend."""
    path = Path(folder) / MEASURED
    measured = json.loads(path.read_text(encoding="utf8"))
    found = [entry for entry in measured["results"] if "risk_coverage" in entry["details"]]
    if not found:
        raise ValueError(f"There are no curves in {path}: no pipeline has been measured on documents.")
    has_one_task = len({entry["task"] for entry in found}) == 1
    titles = {name: system["title"] for name, system in measured["systems"].items()}
    return {
        titles[entry["system"]] + ("" if has_one_task else f", {entry['task']}"): entry["details"] for entry in found
    }


def draw_confidence(curves: Mapping[str, Mapping[str, Any]], path: str | Path) -> None:
    """Draw how probabilities hold on the left, and the precision of the most confident answers on the right.

    Left: the share of right answers in bins of the probability of the first concept; the area of a mark shows the
    number of mentions. The curves are the details of the task `documents`, by the name for the legend; those without
    probabilities are drawn on the right only.
    """
    check_format(path)
    with house_style("Pictures of confidence"):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * PANEL_WIDTH, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, zorder=1)
        right.axhline(95, color="0.6", linewidth=0.8, zorder=1)
        for number, (name, values) in enumerate(curves.items()):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            if "reliability" in values:
                _draw_reliability(left, np.array(values["reliability"]), colour, marker)
            right.plot(*(100 * np.array(values["risk_coverage"])), color=colour, label=name)
        left.set(xlabel="Probability (%)", ylabel="Right (%)", xlim=(0, 100), ylim=(0, 100))
        right.set(xlabel="Coverage (%)", ylabel="Precision (%)", xlim=(0, 100))
        right.legend(fontsize="small")
        save_picture(figure, path)


def _draw_reliability(axes: Axes, bins: np.ndarray, colour: str, marker: str) -> None:
    mean, is_right, n = bins.T
    axes.plot(100 * mean, 100 * is_right, color=colour, linewidth=0.8)
    areas = 10 + 150 * n / n.sum()
    axes.scatter(100 * mean, 100 * is_right, s=areas, clip_on=False, zorder=3, color=colour, marker=marker)
