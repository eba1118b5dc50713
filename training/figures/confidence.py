"""How confident pipelines are, and how often they are right: reliability, and precision by coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .pictures import COLOURS, MARKERS, check_format, fix_layout, house_style, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_WIDTH, PANEL_HEIGHT = 3.25, 2.7
WHAT = "Pictures of confidence"
GREY = "0.6"
PROMISED = 95.0


def draw_confidence(figures: Mapping[str, Mapping[str, Any]], path: str | Path | Sequence[str | Path]) -> str:
    """Draw the reliability of probabilities on the left, and the precision of the most confident answers on the right.

    figures (Mapping[str, Mapping[str, Any]]): What `summarise_links` returns, by the name for the legend. Those without
        probabilities are drawn on the right only.
    path (str | Path | Sequence): The picture, or several of the same: .svg, .pdf or .png.
    RETURNS (str): The caption.
    RAISES (ImportError): If matplotlib is not installed.
    RAISES (ValueError): If a picture has another ending.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    for single in paths:
        check_format(single)
    with house_style(WHAT):
        figure = _make_figure(figures)
        for single in paths:
            save_picture(figure, single)
    return (
        "Left: share of right answers in bins of the probability of the first concept; the area of a mark shows the "
        "number of mentions. Right: precision of the most confident answers, by the share of mentions that they are."
    )


def _make_figure(figures: Mapping[str, Mapping[str, Any]]) -> Figure:
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * PANEL_WIDTH, PANEL_HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot([0, 100], [0, 100], color=GREY, linewidth=0.8, zorder=1)
    right.axhline(PROMISED, color=GREY, linewidth=0.8, zorder=1)
    for number, (name, values) in enumerate(figures.items()):
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        if "reliability" in values:
            _draw_reliability(left, values["reliability"], look)
        coverages, precisions = ([100 * value for value in part] for part in values["risk_coverage"])
        right.plot(coverages, precisions, color=look["color"], label=name)
    left.set(xlabel="Probability (%)", ylabel="Right (%)", xlim=(0, 100), ylim=(0, 100))
    right.set(xlabel="Coverage (%)", ylabel="Precision (%)", xlim=(0, 100))
    right.legend(fontsize="small")
    fix_layout(figure)
    return figure


def _draw_reliability(axes: Axes, bins: Sequence[Sequence[float]], look: Mapping[str, Any]) -> None:
    total = sum(n for _, _, n in bins)
    x, y = [100 * mean for mean, _, _ in bins], [100 * right for _, right, _ in bins]
    axes.plot(x, y, color=look["color"], linewidth=0.8)
    axes.scatter(x, y, s=[10 + 150 * n / total for _, _, n in bins], clip_on=False, zorder=3, **look)
