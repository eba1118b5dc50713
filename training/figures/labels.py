"""Labels beside groups of points, where they hide the least."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT_SIZE = 7.5
LINE_LENGTH, LONGEST = 18, 36
ANGLES = np.linspace(0, 2 * np.pi, 24, endpoint=False)
# How far the middle of a label may lie from that of its group, in points of print.
DISTANCES = (0.0, 12.0, 18.0, 26.0, 36.0, 48.0, 62.0)
# What a label costs: hiding a point, a share of its area over another label, and a point of distance.
POINT_COST, OVERLAP_COST, DISTANCE_COST = 1.0, 30.0, 0.08
PADDING, LINE_SPACING = 2.0, 0.95
DARKER = 0.7


class Label(NamedTuple):
    """What to write beside which points.

    text (str): What to write; shortened if it is long.
    points (ndarray): The points, in the units of the axes; shape (n, 2).
    colour (str): Of the text.
    """

    text: str
    points: np.ndarray
    colour: str


def place_labels(axes: Axes, points: np.ndarray, labels: list[Label]) -> None:
    """Write labels, each where it hides the fewest points and labels placed before, with a line to its group.

    axes (Axes): Where to write. Their place in the figure has to be known.
    points (ndarray): All points, in the units of the axes; shape (n, 2).
    labels (list[Label]): The labels.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    scale = figure.dpi / 72.0
    drawn = axes.transData.transform(points)
    frame = np.array(axes.get_window_extent().padded(-2 * scale).extents)
    taken: list[np.ndarray] = []
    for label in labels:
        group = axes.transData.transform(label.points)
        middle = group[np.linalg.norm(group - np.median(group, axis=0), axis=1).argmin()]
        # Nowhere yet, only to measure it.
        text = axes.text(0.0, 0.0, wrap(label.text), fontsize=FONT_SIZE, linespacing=LINE_SPACING)
        size = np.array(text.get_window_extent().size) + 2 * PADDING * scale
        text.remove()
        place = choose_place(middle, size, drawn, taken, frame, scale)
        taken.append(make_box(place, size))
        is_inside = bool((np.abs(place - middle) <= size / 2).all())
        _write(axes, label, *axes.transData.inverted().transform([place, middle]), with_line=not is_inside)


def _write(axes: Axes, label: Label, place: np.ndarray, target: np.ndarray, *, with_line: bool) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "linewidth": 0.6, "color": label.colour, "shrinkA": 0, "shrinkB": 1}
    axes.annotate(
        wrap(label.text),
        xy=tuple(target),
        xytext=tuple(place),
        arrowprops=line if with_line else None,
        fontsize=FONT_SIZE,
        linespacing=LINE_SPACING,
        # The colours are made for surfaces: thin letters have to be darker.
        color=tuple(DARKER * part for part in to_rgb(label.colour)),
        ha="center",
        va="center",
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )


def wrap(text: str) -> str:
    """Break a text into two or three lines, and shorten it where that is not enough.

    text (str): The text.
    RETURNS (str): The text with line ends.
    """
    if len(text) > LONGEST:
        # Between words, but for names of a single long one.
        text = (text[:LONGEST].rpartition(" ")[0] or text[:LONGEST]) + " …"
    return textwrap.fill(text, LINE_LENGTH)


def choose_place(
    middle: np.ndarray,
    size: np.ndarray,
    points: np.ndarray,
    taken: list[np.ndarray],
    frame: np.ndarray,
    scale: float,
) -> np.ndarray:
    """Choose where a label hides the least. All is in pixels.

    middle (ndarray): The middle of its group; shape (2,).
    size (ndarray): Its width and height; shape (2,).
    points (ndarray): All points; shape (n, 2).
    taken (list[ndarray]): Boxes of labels: left, bottom, right, top.
    frame (ndarray): The box that it has to stay in, if it is large enough.
    scale (float): Pixels in a point of print.
    RETURNS (ndarray): The middle of the label; shape (2,).
    """
    best, lowest = middle, np.inf
    for distance in DISTANCES:
        for angle in ANGLES:
            # Labels are wider than high, so they have to move farther to the sides.
            stretch = np.array([1.0 + size[0] / size[1] / 4, 1.0])
            place = middle + distance * scale * stretch * np.array([np.cos(angle), np.sin(angle)])
            place = np.clip(place, frame[:2] + size / 2, np.maximum(frame[2:] - size / 2, frame[:2] + size / 2))
            box = make_box(place, size)
            hidden = ((points >= box[:2]) & (points <= box[2:])).all(axis=1).sum()
            overlap = sum(_overlap(box, other) for other in taken) / float(size.prod())
            away = float(np.linalg.norm(place - middle)) / scale
            cost = POINT_COST * hidden + OVERLAP_COST * overlap + DISTANCE_COST * away
            if cost < lowest - 1e-9:
                best, lowest = place, cost
    return best


def make_box(place: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Make a box around its middle.

    place, size (ndarray): Its middle, and its width and height; shape (2,).
    RETURNS (ndarray): Left, bottom, right, top.
    """
    return np.concatenate([place - size / 2, place + size / 2])


def _overlap(box: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    return float(np.clip(sides, 0.0, None).prod())
