"""Pictures of vectors: cosines of pairs (SapBERT, figure 2), and names in the plane (SapBERT, figures 1 and 3; CODER,
figures 2 and 3)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import torch

from ..data.pairs import PairData
from ..engine.objectives import cosines, list_pairs, make_miner
from ..methods.pairs import Batches
from .pictures import COLOURS, MARKERS, PANEL_WIDTH, Vectors, draw, fix_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH = 256
BIN_WIDTH = 0.05
# A triplet is mined if its negative is farther than its positive by no more than this.
MARGIN = 0.2
# How many groups get a label, and how far from its group a label may lie, in points.
N_LABELS = 8
DISTANCES = (10.0, 14.0, 20.0, 28.0, 38.0, 50.0)

# Cosines of positive and of negative pairs. Each pair counts twice, once from each side.
Split = tuple[np.ndarray, np.ndarray]


def draw_batch(data: PairData) -> tuple[list[str], np.ndarray]:
    """Draw the first batch of a training run with seed 0: all first names, then all second ones, and their concepts."""
    rows = next(Batches(data.labels, BATCH, 0).iterate())
    names = pl.concat([data.names.gather(data.left[rows]), data.names.gather(data.right[rows])])
    return names.to_list(), np.tile(data.labels[rows], 2)


def split_cosines(vectors: np.ndarray, labels: np.ndarray, *, margin: float = MARGIN) -> dict[str, Split]:
    """Compute the cosines of "all" pairs of a batch, and of the "mined" ones that training would use."""
    embeddings = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    every = list_pairs(torch.from_numpy(labels))
    miner = make_miner("sapbert", margin)
    assert miner is not None
    similarities = cosines(embeddings)
    return {
        name: (similarities[pairs.positives].numpy(), similarities[pairs.negatives].numpy())
        for name, pairs in (("all", every), ("mined", miner(embeddings, every)))
    }


def draw_histograms(
    vectors: Mapping[str, Vectors], names: Sequence[str], labels: np.ndarray, paths: Sequence[str | Path]
) -> str:
    """Draw a batch: all pairs on the left, mined ones on the right, one row for each encoder. Returns the caption."""
    means = []
    with draw(paths, 2 * PANEL_WIDTH, 0.3 + 2.1 * len(vectors)) as figure:
        cosines = {label: split_cosines(encode(names), labels) for label, encode in vectors.items()}
        lowest = min(part.min() for splits in cosines.values() for part in splits["all"])
        bins = np.arange(np.floor(lowest / BIN_WIDTH), round(1 / BIN_WIDTH) + 1) * BIN_WIDTH
        panels = figure.subplots(len(cosines), 2, sharex=True, sharey=True, squeeze=False)
        letters = iter(ascii_lowercase)
        for row, (label, splits) in zip(panels, cosines.items(), strict=True):
            for axes, (which, split) in zip(row, splits.items(), strict=True):
                _draw_densities(axes, split, bins)
                axes.set_title(f"({next(letters)}) {label}, {which} pairs", loc="left", fontsize="medium")
            row[0].set_ylabel("Density")
            # If no positive pair is mined, no negative one is.
            own = [
                f"{which} {one.mean():.2f} and {other.mean():.2f}" for which, (one, other) in splits.items() if len(one)
            ]
            means.append(f"{label}: {', '.join(own)}")
        for axes in panels[-1]:
            axes.set_xlabel("Cosine")
        # The panels share this limit. The extra height is for the legend.
        panels[0, 0].set_ylim(0, 1.3 * panels[0, 0].get_ylim()[1])
    return (
        f"Cosines of positive and negative pairs in one batch of {len(names):,} names of {len(np.unique(labels)):,} "
        "concepts, as densities: all pairs, and mined ones, whose triplet has a negative at most "
        f"{MARGIN:g} farther from the anchor than the positive (Euclidean distance of normalised vectors). The number "
        "of pairs is in brackets; each counts from both sides. Mean cosines of positives and negatives: "
        f"{'; '.join(means)}."
    )


def _draw_densities(axes: Axes, split: Split, bins: np.ndarray) -> None:
    # The outlines differ too, for prints in black and white.
    looks = (("Negative", COLOURS[1], "--"), ("Positive", COLOURS[0], "-"))
    for values, (word, colour, line) in zip(reversed(split), looks, strict=True):
        counts, _ = np.histogram(np.clip(values, bins[0], bins[-1]), bins)
        # An empty histogram has no density.
        heights = counts / (max(len(values), 1) * BIN_WIDTH)
        axes.stairs(heights, bins, fill=True, color=colour, alpha=0.35, linewidth=0)
        axes.stairs(heights, bins, color=colour, linestyle=line, label=f"{word} ({len(values):,})")
    axes.set_xlim(bins[0], bins[-1])
    axes.legend(fontsize="small", handlelength=1.6, loc="upper right", reverse=True)


def draw_scatter(
    vectors: Mapping[str, Vectors],
    names: pl.DataFrame,
    paths: Sequence[str | Path],
    *,
    seed: int = 0,
    group: str = "concept",
) -> str:
    """Draw names (of `draw_concepts`) by t-SNE (van der Maaten & Hinton, JMLR 2008), one panel for each encoder.

    Distances between groups mean little in such a plane, so each panel also states what `measure_separation` finds
    between the vectors. Some groups that lie far apart in the last panel get labels. Returns the caption.
    """
    from sklearn.manifold import TSNE

    names = names.sort("id", "name")
    titles = names.unique("id", keep="first", maintain_order=True)["concept"].to_list()
    if not 1 < len(titles) <= len(COLOURS) * len(MARKERS):
        reason = f"a picture has distinct looks for 2 to {len(COLOURS) * len(MARKERS)}"
        raise ValueError(f"Can't draw {len(titles)} {group}s: {reason}. Ask for fewer.")
    concepts = names["id"].rank("dense").to_numpy().astype(np.int64) - 1
    # At most a third of the names count as neighbours: others have to be far.
    perplexity = min(30.0, (names.height - 1) / 3)
    # Exact, because the sums of the faster method depend on the number of threads.
    tsne = TSNE(metric="cosine", init="pca", method="exact", perplexity=perplexity, random_state=seed)
    planes = []
    measured = []
    with draw(paths, PANEL_WIDTH * len(vectors), 3.45) as figure:
        panels = figure.subplots(1, len(vectors), squeeze=False)[0]
        for axes, letter, (label, encode) in zip(panels, ascii_lowercase, vectors.items(), strict=False):
            encoded = encode(names["name"].to_list())
            planes.append(tsne.fit_transform(encoded))
            share, silhouette = measure_separation(encoded, concepts)
            measured.append(f"{label}: {100 * share:.1f} % and {silhouette:.2f}")
            axes.set_title(f"({letter}) {label}" if len(vectors) > 1 else label, loc="left", fontsize="medium")
            axes.set_xlabel(f"Nearest name of the same {group}: {100 * share:.1f} %\nMean silhouette: {silhouette:.2f}")
            for concept in range(len(titles)):
                colour, marker = choose_look(concept)
                points = planes[-1][concepts == concept].T
                axes.scatter(*points, s=16.0, c=colour, marker=marker, linewidths=0.3, edgecolors="white")
            axes.margins(0.09)
            # The units of t-SNE mean nothing.
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color="0.7")
        # Labels are placed in pixels, so the layout comes first.
        fix_layout(figure)
        labelled = {concept: titles[concept] for concept in spread_out(planes[-1], concepts, N_LABELS)}
        for axes, plane in zip(panels, planes, strict=True):
            _write_labels(axes, plane, concepts, labelled)
    return (
        f"{names.height:,} names of {len(titles):,} {group}s in the plane of t-SNE (cosine, perplexity "
        f"{perplexity:.3g}, started from principal components, seed {seed}). Each {group} has its own colour and "
        "marker; some have a label. Below each panel, measured between the vectors themselves: the share of names "
        f"whose nearest other name is of the same {group}, and the mean silhouette by cosine distance "
        f"({'; '.join(measured)})."
    )


def measure_separation(vectors: np.ndarray, concepts: np.ndarray) -> tuple[float, float]:
    """Measure the share of names whose nearest other name is of the same concept, and the mean silhouette.

    The silhouette (Rousseeuw, 1987), -1 to 1, uses cosine distance. Among equally near names, the first counts.
    """
    from sklearn.metrics import silhouette_score

    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    share = float((concepts[cosines.argmax(axis=1)] == concepts).mean())
    return share, float(silhouette_score(vectors, concepts, metric="cosine"))


def spread_out(plane: np.ndarray, concepts: np.ndarray, n: int) -> list[int]:
    """Choose concepts that lie far apart: the next one is always the farthest from those before (Gonzalez, 1985)."""
    middles = np.array([np.median(plane[concepts == concept], axis=0) for concept in range(concepts.max() + 1)])
    far = np.linalg.norm(middles - middles.mean(axis=0), axis=1)
    chosen: list[int] = []
    for _ in range(min(n, len(middles))):
        chosen.append(int(far.argmax()))
        distances = np.linalg.norm(middles - middles[chosen[-1]], axis=1)
        far = distances if len(chosen) == 1 else np.minimum(far, distances)
    return chosen


def choose_look(concept: int) -> tuple[str, str]:
    """Choose a combination of colour and marker that no other concept has."""
    round_number, colour = divmod(concept, len(COLOURS))
    return COLOURS[colour], MARKERS[(round_number + colour) % len(MARKERS)]


def _write_labels(axes: Axes, plane: np.ndarray, concepts: np.ndarray, titles: Mapping[int, str]) -> None:
    """Write each label where it hides the fewest points, and stays off other labels and the frame."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    points = axes.transData.transform(plane)
    frame = axes.get_window_extent()
    frames: list[Bbox] = []
    for concept, title in titles.items():
        group = plane[concepts == concept]
        colour = choose_look(concept)[0]
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
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5},
        )
        middle = axes.transData.transform(label.xy)
        size = np.array(Text.get_window_extent(label).size) + 12
        boxes, costs = {}, {}
        for distance, angle in product(DISTANCES, np.linspace(0, 2 * np.pi, 16, endpoint=False)):
            # Labels are wider than high, so they have to move farther to the sides.
            offset = (2 * distance * np.cos(angle), distance * np.sin(angle))
            corner = middle + np.array(offset) * axes.figure.dpi / 72 - size / 2
            box = boxes[offset] = Bbox([corner, corner + size])
            is_inside = frame.contains(*box.min) and frame.contains(*box.max)
            hidden = 3 * box.count_contains(points) + 30 * box.count_overlaps(frames) + 30 * (not is_inside)
            costs[offset] = hidden + 0.08 * distance
        label.xyann = min(costs, key=costs.__getitem__)
        frames.append(boxes[label.xyann])
