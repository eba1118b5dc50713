"""Names of some concepts in the plane, before and after training (SapBERT, figures 1 and 3; CODER, figures 2 and 3)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from .pictures import COLOURS, MARKERS, PANEL_WIDTH, Vectors, check_format, compute_vectors, draw, fix_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_HEIGHT = 3.45
# How far a label may lie from the middle of its group, in points of print.
DISTANCES = (10.0, 14.0, 20.0, 28.0, 38.0, 50.0)


def draw_scatter(
    vectors: Mapping[str, Vectors],
    names: pl.DataFrame,
    paths: Sequence[str | Path],
    *,
    seed: int = 0,
    labelled: int = 8,
    group: str = "concept",
) -> str:
    """Draw names (of `draw_concepts`) by t-SNE (van der Maaten & Hinton, JMLR 2008), one panel for each encoder.

    Distances between groups in such a plane mean little. So below each panel stands what holds in the space of the
    vectors: see `measure_separation`. Some groups that lie far apart in the last panel are labelled. Returns the
    caption.
    """
    from sklearn.manifold import TSNE

    check_format(paths)
    names = names.sort("id", "name")
    titles = names.unique("id", keep="first", maintain_order=True)["concept"].to_list()
    if not 1 < len(titles) <= len(COLOURS) * len(MARKERS):
        reason = f"a picture takes 2 to {len(COLOURS) * len(MARKERS)}, of which each has a look of its own"
        raise ValueError(f"Can't draw {len(titles)} {group}s: {reason}. Ask for fewer.")
    concepts = names["id"].rank("dense").to_numpy().astype(np.int64) - 1
    # As many neighbours as a third of the names: with more there is nothing that could be far.
    perplexity = min(30.0, (names.height - 1) / 3)
    found = {label: compute_vectors(label, own, names["name"].to_list()) for label, own in vectors.items()}
    # Exact, since the faster method adds up in an order that depends on the number of threads.
    tsne = TSNE(metric="cosine", init="pca", method="exact", perplexity=perplexity, random_state=seed)
    planes = [tsne.fit_transform(own) for own in found.values()]
    chosen = {concept: titles[concept] for concept in spread_out(planes[-1], concepts, labelled)}
    measured = []
    with draw(paths, PANEL_WIDTH * len(planes), PANEL_HEIGHT) as figure:
        panels = figure.subplots(1, len(planes), squeeze=False)[0]
        for number, (axes, (label, own), plane) in enumerate(zip(panels, found.items(), planes, strict=True)):
            share, silhouette = measure_separation(own, concepts)
            measured.append(f"{label}: {100 * share:.1f} % and {silhouette:.2f}")
            letter = f"({chr(ord('a') + number)}) " if len(planes) > 1 else ""
            axes.set_title(letter + label, loc="left", fontsize="medium")
            axes.set_xlabel(f"Nearest name of the same {group}: {100 * share:.1f} %\nMean silhouette: {silhouette:.2f}")
            _draw_points(axes, plane, concepts)
        # Labels are placed in pixels, which are known when the layout is.
        fix_layout(figure)
        for axes, plane in zip(panels, planes, strict=True):
            _write_labels(axes, plane, concepts, chosen)
    return (
        f"{names.height:,} names of {len(titles):,} {group}s in the plane of t-SNE (cosine, perplexity "
        f"{perplexity:.3g}, started from principal components, seed {seed}). Colour and marker tell the {group}; some "
        "are labelled with its name. Below each panel, measured between the vectors themselves: the share of names "
        f"whose nearest other name is of the same {group}, and the mean silhouette by cosine distance "
        f"({'; '.join(measured)})."
    )


def measure_separation(vectors: np.ndarray, concepts: np.ndarray) -> tuple[float, float]:
    """Measure the share of names whose nearest other name is of the same concept, and the mean silhouette.

    The silhouette (Rousseeuw, 1987) is that of cosine distance, -1 to 1. Of equally near names the first counts.
    """
    from sklearn.metrics import silhouette_score

    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    share = float((concepts[cosines.argmax(axis=1)] == concepts).mean())
    return share, float(silhouette_score(vectors, concepts, metric="cosine"))


def spread_out(plane: np.ndarray, concepts: np.ndarray, n: int) -> list[int]:
    """Choose concepts whose middles lie far apart: each next one the farthest from those before (Gonzalez, 1985)."""
    middles = np.array([np.median(plane[concepts == concept], axis=0) for concept in range(concepts.max() + 1)])
    far = np.linalg.norm(middles - middles.mean(axis=0), axis=1)
    chosen: list[int] = []
    for _ in range(min(n, len(middles))):
        chosen.append(int(far.argmax()))
        distances = np.linalg.norm(middles - middles[chosen[-1]], axis=1)
        far = distances if len(chosen) == 1 else np.minimum(far, distances)
    return chosen


def choose_look(concept: int) -> tuple[str, str]:
    """Choose a colour and a marker that no other concept has both of."""
    round_number, colour = divmod(concept, len(COLOURS))
    return COLOURS[colour], MARKERS[(round_number + colour) % len(MARKERS)]


def _draw_points(axes: Axes, plane: np.ndarray, concepts: np.ndarray) -> None:
    for concept in range(concepts.max() + 1):
        colour, marker = choose_look(concept)
        x, y = plane[concepts == concept].T
        axes.scatter(x, y, s=16.0, c=colour, marker=marker, linewidths=0.3, edgecolors="white")
    axes.margins(0.09)
    # The units of t-SNE mean nothing.
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color="0.7")


def _write_labels(axes: Axes, plane: np.ndarray, concepts: np.ndarray, titles: Mapping[int, str]) -> None:
    """Write each label where it hides the fewest points, and neither others nor the frame."""
    from matplotlib.patheffects import withStroke
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    points, frame = axes.transData.transform(plane), axes.get_window_extent()
    taken: list[Bbox] = []
    for concept, title in titles.items():
        group, colour = plane[concepts == concept], choose_look(concept)[0]
        label = axes.annotate(
            textwrap.fill(textwrap.shorten(title, 36, placeholder="\u00a0…"), 18),
            xy=tuple(group[np.linalg.norm(group - np.median(group, axis=0), axis=1).argmin()]),
            xytext=(0, 0),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": colour, "shrinkA": 0, "shrinkB": 1},
            fontsize=7.5,
            ha="center",
            va="center",
            color=colour,
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )
        middle, size = axes.transData.transform(label.xy), np.array(Text.get_window_extent(label).size) + 4
        boxes, costs = {}, {}
        for distance, angle in product(DISTANCES, np.linspace(0, 2 * np.pi, 16, endpoint=False)):
            # Labels are wider than high, so they have to move farther to the sides.
            offset = (2 * distance * np.cos(angle), distance * np.sin(angle))
            corner = middle + np.array(offset) * axes.figure.dpi / 72 - size / 2
            box = boxes[offset] = Bbox([corner, corner + size])
            is_inside = frame.contains(*box.min) and frame.contains(*box.max)
            hidden = box.count_contains(points) + 30 * box.count_overlaps(taken) + 30 * (not is_inside)
            costs[offset] = hidden + 0.08 * distance
        label.xyann = min(costs, key=costs.__getitem__)
        taken.append(boxes[label.xyann])
