"""Curves: the loss and accuracy of runs, step by step; how sure pipelines are, and how often they are right."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..data.run_folder import RunFolder
from .pictures import COLOURS, MARKERS, PANEL_WIDTH, draw

LINES = ("-", "--", ":", "-.")
# A mean over a fiftieth of the steps shows the trend without the noise of single batches.
SHARE_SMOOTHED = 50
MEASURED = "measured.json"


def try_to_draw(runs: Mapping[str, str | Path], path: str | Path) -> None:
    """Draw finished runs. Errors become warnings, because a run should not fail after hours of training."""
    try:
        draw_curves(runs, path)
    except (ImportError, ValueError, OSError) as error:
        later = "Draw them later with `python -m training figures curves`."
        warnings.warn(f"The curves of {Path(path).parent} are not drawn: {error} {later}", stacklevel=3)


def draw_curves(runs: Mapping[str, str | Path], path: str | Path) -> None:
    """Draw runs, keyed by legend name: the loss of each step, faint, and its moving mean; below, held-out accuracy."""
    losses, accuracies = {}, {}
    for name, run in runs.items():
        metrics = RunFolder(run).read_metrics()
        losses[name] = np.array([(entry["step"], entry["loss"]) for entry in metrics if "loss" in entry])
        if not len(losses[name]):
            raise ValueError(f"There are no steps to draw in {run}. Give the folder of a run that has made a step.")
        accuracies[name] = [
            (one["step"], 100 * one["evaluation"]["acc_at_1"]) for one in metrics if "evaluation" in one
        ]
    n_panels = 1 + any(accuracies.values())
    window = 2 * (max(map(len, losses.values())) // SHARE_SMOOTHED // 2) + 1
    with draw([path], 5.0, 2.3 * n_panels) as figure:
        panels = figure.subplots(n_panels, sharex=True, squeeze=False)[:, 0]
        for number, (name, scores) in enumerate(accuracies.items()):
            round_number, place = divmod(number, len(COLOURS))
            look = {"color": COLOURS[place], "linestyle": LINES[round_number % len(LINES)]}
            steps, values = losses[name].T
            if window > 1:
                faint = {"color": look["color"], "linewidth": 0.5, "alpha": 0.25, "zorder": 1}
                panels[0].plot(steps, values, label="_each step", **faint)
            # At the ends there are fewer neighbours.
            means = pl.Series(values).rolling_mean(window, min_samples=1, center=True)
            panels[0].plot(steps, means, label=name, **look)
            if scores:
                marker = MARKERS[round_number % len(MARKERS)]
                panels[1].plot(*np.transpose(scores), marker=marker, label=name, **look)
        panels[0].set_ylabel(f"Loss, mean of {window} steps\n(faint: of each)" if window > 1 else "Loss")
        panels[0].legend()
        panels[-1].set_xlabel("Training step")
        if n_panels > 1:
            panels[1].set_ylabel("Accuracy at 1 (%)\non held-out names")


def read_confidence(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Read the curves of pipelines on documents from a folder of `measure`, keyed by legend name."""
    path = Path(folder) / MEASURED
    measured = json.loads(path.read_text(encoding="utf8"))
    entries = [entry for entry in measured["results"] if "risk_coverage" in entry["details"]]
    if not entries:
        raise ValueError(f"There are no curves in {path}: no pipeline has been measured on documents.")
    has_one_task = len({entry["task"] for entry in entries}) == 1
    curves = {}
    for entry in entries:
        title = measured["systems"][entry["system"]]["title"]
        if not has_one_task:
            title = f"{title}, {measured['tasks'][entry['task']]['title']}"
        curves[title] = entry["details"]
    return curves


def draw_confidence(curves: Mapping[str, Mapping[str, Any]], path: str | Path) -> None:
    """Draw the share of right answers by probability on the left, and the precision of the surest ones on the right.

    The area of a mark shows how many mentions are in its bin. Pipelines without probabilities are on the right only.
    """
    with draw([path], 2 * PANEL_WIDTH, 2.7 + 0.2 * ((len(curves) + 1) // 2)) as figure:
        left, right = figure.subplots(1, 2)
        left.set_title("(a) Is the probability right?", loc="left", fontsize="medium")
        right.set_title("(b) Precision of the surest answers", loc="left", fontsize="medium")
        left.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, zorder=1)
        right.axhline(95, color="0.6", linewidth=0.8, zorder=1)
        for number, (name, values) in enumerate(curves.items()):
            look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
            if "reliability" in values:
                mean, is_right, n = np.array(values["reliability"]).T
                points = 100 * mean, 100 * is_right
                left.plot(*points, color=look["color"], linewidth=0.8)
                left.scatter(*points, s=10 + 150 * n / n.sum(), clip_on=False, zorder=3, **look)
            coverage, precision = 100 * np.array(values["risk_coverage"])
            right.plot(coverage, precision, markevery=10, label=name, **look)
        left.set(xlabel="Probability (%)", ylabel="Right (%)", xlim=(0, 100), ylim=(0, 100))
        right.set(xlabel="Coverage (%)", ylabel="Precision (%)", xlim=(0, 100))
        figure.legend(loc="outside lower center", ncols=2)
