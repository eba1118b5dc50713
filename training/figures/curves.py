"""Loss and accuracy of runs over their steps, drawn for print."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.run_folder import RunFolder
from ..errors import Errors, Warnings
from .pictures import COLOURS, check_format, check_matplotlib, house_style, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES, MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")
WIDTH, PANEL_HEIGHT = 5.0, 2.3
# A mean over a fiftieth of the steps shows the course and hides the differences between batches.
SHARE_SMOOTHED = 50
WHAT = "Curves of runs"


def draw_curves(runs: Mapping[str, str | Path], path: str | Path) -> None:
    """Draw runs into one picture. The same metrics give the same bytes.

    runs (Mapping[str, Path]): Folder of each run, by the name for the legend.
    path (str | Path): The picture: .svg, .pdf or .png.
    RAISES (ImportError): If matplotlib is not installed.
    RAISES (ValueError): If a run has taken no steps, or the picture has another ending.
    """
    check_format(path)
    with house_style(WHAT):
        save_picture(make_figure(runs), path)


def try_to_draw(runs: Mapping[str, str | Path], path: str | Path) -> None:
    """Draw finished runs. Errors become warnings, because a run should not fail after hours of training.

    runs (Mapping[str, Path]): As for `draw_curves`.
    path (str | Path): As for `draw_curves`.
    """
    try:
        draw_curves(runs, path)
    except (ImportError, ValueError, OSError) as error:
        warnings.warn(Warnings.W660.format(path=Path(path).parent, reason=error), stacklevel=3)


def make_figure(runs: Mapping[str, str | Path]) -> Figure:
    """Draw runs: the loss of each step, faint, with its mean; below, the accuracy where there are evaluations.

    runs (Mapping[str, Path]): Folder of each run, by the name for the legend.
    RETURNS (Figure): One panel, or two where there are evaluations.
    RAISES (ImportError): If matplotlib is not installed.
    RAISES (ValueError): If a run has taken no steps.
    """
    check_matplotlib(WHAT)
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib.figure import Figure

    losses, accuracies = {}, {}
    for name, run in runs.items():
        losses[name], accuracies[name] = read_curves(run)
    has_evaluations = any(len(steps) for steps, _ in accuracies.values())
    n_panels = 1 + has_evaluations
    figure = Figure(figsize=(WIDTH, PANEL_HEIGHT * n_panels), layout="constrained")
    panels = figure.subplots(n_panels, sharex=True, squeeze=False)[:, 0]
    _draw_losses(panels[0], losses)
    if has_evaluations:
        _draw_accuracies(panels[1], accuracies)
    panels[-1].set_xlabel("Training step")
    panels[0].legend()
    return figure


def read_curves(run: str | Path) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Read the curves of a run.

    run (str | Path): Its folder.
    RETURNS (Tuple): Steps and losses; steps and accuracies at 1 of evaluations, in percent.
    RAISES (ValueError): If it has taken no steps.
    """
    folder = RunFolder(run)
    metrics = folder.read_metrics()
    losses = [(entry["step"], entry["loss"]) for entry in metrics if "loss" in entry]
    if not losses:
        raise ValueError(Errors.E666.format(path=folder.metrics))
    scores = [(entry["step"], 100.0 * entry["evaluation"]["acc_at_1"]) for entry in metrics if "evaluation" in entry]
    return _as_columns(losses), _as_columns(scores)


def name_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """Name runs for a legend.

    arguments (Sequence[str]): Folders, or NAME=FOLDER. A folder's name is its last part.
    RETURNS (dict[str, Path]): Folder by name.
    RAISES (ValueError): If two have one name.
    """
    runs: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).is_dir():
            name, folder = Path(argument).resolve().name, argument
        if name in runs:
            raise ValueError(Errors.E668.format(name=name))
        runs[name] = Path(folder)
    return runs


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Average each value with its neighbours, of which there are fewer at the ends.

    values (ndarray): The values.
    window (int): How many to average, odd.
    RETURNS (ndarray): As many means.
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    rows = np.arange(len(values))
    first, last = np.maximum(rows - window // 2, 0), np.minimum(rows + window // 2 + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)


def _draw_losses(axes: Axes, losses: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    longest = max(len(steps) for steps, _ in losses.values())
    window = 2 * (longest // SHARE_SMOOTHED // 2) + 1
    for number, (name, (steps, values)) in enumerate(losses.items()):
        look = _choose_look(number)
        if window > 1:
            axes.plot(steps, values, color=look["color"], linewidth=0.5, alpha=0.25, zorder=1, label="_each step")
        axes.plot(steps, smooth(values, window), label=name, **look)
    axes.set_ylabel(f"Loss, mean of {window} steps\n(faint: of each)" if window > 1 else "Loss")


def _draw_accuracies(axes: Axes, accuracies: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for number, (name, (steps, values)) in enumerate(accuracies.items()):
        if len(steps):
            marker = MARKERS[number // len(COLOURS) % len(MARKERS)]
            axes.plot(steps, values, marker=marker, label=name, **_choose_look(number))
    axes.set_ylabel("Accuracy at 1 (%)\non held-out names")


def _choose_look(number: int) -> dict[str, Any]:
    """Choose a colour, and another kind of line when all colours are taken."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number // len(COLOURS) % len(LINES)]}


def _as_columns(rows: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([step for step, _ in rows], dtype=np.int64), np.array([value for _, value in rows], dtype=float)
