"""Cosines of positive and negative pairs of a batch: of all, and of those that are mined (SapBERT, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import torch

from ..data.pairs import PairData
from ..engine.objectives import cosines, list_pairs, make_miner
from ..methods.pairs import Batches
from .pictures import COLOURS, PANEL_WIDTH, Vectors, check_format, compute_vectors, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BIN_WIDTH = 0.05
PANEL_HEIGHT = 2.1
# A pair is mined if it is in a triplet whose negative is farther than the positive by no more than that.
MARGIN = 0.2

# The cosines of positive pairs and those of negative ones, each pair from both sides.
Split = tuple[np.ndarray, np.ndarray]


def draw_batch(data: PairData, n_pairs: int = 256, *, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Draw the first batch of a training run with this seed: all first names, all second ones; the concept of each."""
    rows = next(Batches(data.labels, n_pairs, seed).iterate())
    names = pl.concat([data.names.gather(data.left[rows]), data.names.gather(data.right[rows])])
    return names.to_list(), np.tile(data.labels[rows], 2)


def split_cosines(vectors: np.ndarray, labels: np.ndarray, *, margin: float = MARGIN) -> dict[str, Split]:
    """Split the cosines of a batch as training does: those of "all" pairs, and those of "mined" ones."""
    embeddings = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    every, miner = list_pairs(torch.from_numpy(labels)), make_miner("sapbert", margin)
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
    check_format(paths)
    found = {label: split_cosines(compute_vectors(label, own, names), labels) for label, own in vectors.items()}
    lowest = min(part.min() for splits in found.values() for part in splits["all"] if len(part))
    bins = np.arange(np.floor(lowest / BIN_WIDTH), round(1 / BIN_WIDTH) + 1) * BIN_WIDTH
    with draw(paths, 2 * PANEL_WIDTH, 0.3 + PANEL_HEIGHT * len(found)) as figure:
        panels = figure.subplots(len(found), 2, sharex=True, sharey=True, squeeze=False)
        for number, (label, splits) in enumerate(found.items()):
            for side, (which, split) in enumerate(splits.items()):
                _draw_densities(panels[number, side], split, bins)
                letter = chr(ord("a") + 2 * number + side)
                panels[number, side].set_title(f"({letter}) {label}, {which} pairs", loc="left", fontsize="medium")
            panels[number, 0].set_ylabel("Density")
        for axes in panels[-1]:
            axes.set_xlabel("Cosine")
        # Shared, so it is the highest of all; above it there is place for the legend.
        panels[0, 0].set_ylim(0, 1.3 * panels[0, 0].get_ylim()[1])
    means = "; ".join(f"{label}: {_describe_means(splits)}" for label, splits in found.items())
    return (
        f"Cosines of positive and negative pairs in one batch of {len(names):,} names of {len(np.unique(labels)):,} "
        "concepts, as densities: all pairs, and those that take part in a triplet in which the negative is not farther "
        f"from the anchor than the positive by more than {MARGIN:g} (Euclidean distance of normalised vectors). In "
        "brackets: how many, each pair counted from both sides. Mean cosines of positives and negatives: "
        f"{means}."
    )


def _draw_densities(axes: Axes, split: Split, bins: np.ndarray) -> None:
    # The outlines differ for print without colours.
    looks = (("Negative", COLOURS[1], "--"), ("Positive", COLOURS[0], "-"))
    for values, (word, colour, line) in zip(reversed(split), looks, strict=True):
        # An empty histogram has no density.
        weights = np.full(len(values), 1 / (max(len(values), 1) * BIN_WIDTH))
        heights, _ = np.histogram(np.clip(values, bins[0], bins[-1]), bins, weights=weights)
        axes.stairs(heights, bins, fill=True, color=colour, alpha=0.35, linewidth=0)
        axes.stairs(heights, bins, color=colour, linestyle=line, label=f"{word} ({len(values):,})")
    axes.set_xlim(bins[0], bins[-1])
    axes.legend(fontsize="small", handlelength=1.6, loc="upper right", reverse=True)


def _describe_means(splits: Mapping[str, Split]) -> str:
    means = [
        f"{which} {positives.mean():.2f} and {negatives.mean():.2f}"
        for which, (positives, negatives) in splits.items()
        if len(positives) and len(negatives)
    ]
    return ", ".join(means) or "nothing to compare"
