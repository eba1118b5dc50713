"""Cosines of positive and negative pairs of a batch: of all, and of those that are mined (SapBERT, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import torch

from spacy_sapbert.terminology import Terminology

from ..data.pairs import PairData, load_pairs, write_pairs
from ..engine.objectives import cosines, list_pairs, make_miner
from ..methods.pairs import Batches
from .pictures import COLOURS, check_format, fix_layout, house_style, save_picture
from .vectors import Vectors, compute_vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_PAIRS, MARGIN = 256, 0.2
BIN_WIDTH = 0.05
# Above the highest bar, for the legend.
HEADROOM = 1.3
PANEL_WIDTH, PANEL_HEIGHT = 3.25, 2.1


class NameBatch(NamedTuple):
    """The batch of a training step.

    names (list[str]): The first names of all pairs, then the second ones.
    labels (ndarray): The concept of each; shape (2 * pairs,), int64.
    """

    names: list[str]
    labels: np.ndarray


class Cosines(NamedTuple):
    """Cosines of pairs, each pair from both sides.

    positives (ndarray): Of names of one concept; float32.
    negatives (ndarray): Of names of different concepts; float32.
    """

    positives: np.ndarray
    negatives: np.ndarray


def read_pair_data(pairs: str | Path | Terminology, *, seed: int = 0) -> PairData:
    """Read pairs to draw a batch of.

    pairs (str | Path | Terminology): A folder that `write_pairs` has written, or concepts to pair the names of, as for
        training.
    seed (int): Of the pairs of concepts with many names.
    RETURNS (PairData): The pairs.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there are no pairs, or all are of one concept.
    """
    if not isinstance(pairs, Terminology):
        return load_pairs(pairs)
    with TemporaryDirectory() as folder:
        write_pairs(pairs, folder, seed=seed)
        return load_pairs(folder)


def draw_batch(data: PairData, n_pairs: int = N_PAIRS, *, seed: int = 0) -> NameBatch:
    """Draw the batch that is the first of a training run with this seed.

    data (PairData): The pairs.
    n_pairs (int): Pairs in the batch, at most; 256 in the paper.
    seed (int): Of the order of pairs.
    RETURNS (NameBatch): Twice as many names. One may be there more than once.
    """
    rows = next(Batches(data.labels, n_pairs, seed).iterate())
    names = pl.concat([data.names.gather(data.left[rows]), data.names.gather(data.right[rows])])
    return NameBatch(names.to_list(), np.tile(data.labels[rows], 2))


def split_cosines(vectors: np.ndarray, labels: np.ndarray, *, margin: float = MARGIN) -> dict[str, Cosines]:
    """Split the cosines of a batch as training does.

    vectors (ndarray): Shape (names, width), float32.
    labels (ndarray): The concept of each name; shape (names,), int64.
    margin (float): How much farther than a positive a negative has to be, in Euclidean distance of unit vectors, so
        that the two are not mined.
    RETURNS (dict[str, Cosines]): "all", and "mined": those pairs that the miner of training keeps.
    """
    embeddings = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    every = list_pairs(torch.from_numpy(labels))
    miner = make_miner("sapbert", margin)
    assert miner is not None
    similarities = cosines(embeddings)
    return {
        name: Cosines(similarities[pairs.positives].numpy(), similarities[pairs.negatives].numpy())
        for name, pairs in (("all", every), ("mined", miner(embeddings, every)))
    }


def draw_histograms(
    vectors: Mapping[str, Vectors],
    batch: NameBatch,
    path: str | Path | Sequence[str | Path],
    *,
    margin: float = MARGIN,
) -> str:
    """Draw the cosines of a batch: all pairs on the left, mined ones on the right, one row for each encoder.

    vectors (Mapping[str, Callable]): Functions from strings to normalised vectors, by the label of the row.
    batch (NameBatch): The names, as of `draw_batch`.
    path (str | Path | Sequence): The picture, or several of the same: .svg, .pdf or .png.
    margin (float): Of the miner: see `split_cosines`.
    RETURNS (str): The caption.
    RAISES (ImportError): If matplotlib is not installed.
    RAISES (ValueError): If a picture has another ending, or vectors can't be used.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    for single in paths:
        check_format(single)
    with house_style():
        found = {
            label: split_cosines(compute_vectors(label, single, batch.names), batch.labels, margin=margin)
            for label, single in vectors.items()
        }
        figure = _make_figure(found)
        for single in paths:
            save_picture(figure, single)
    return _describe(found, batch, margin)


def _make_figure(found: Mapping[str, Mapping[str, Cosines]]) -> Figure:
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * PANEL_WIDTH, 0.3 + PANEL_HEIGHT * len(found)), layout="constrained")
    panels = figure.subplots(len(found), 2, sharex=True, sharey=True, squeeze=False)
    lowest = min(part.min() for splits in found.values() for part in splits["all"] if len(part))
    bins = np.arange(np.floor(lowest / BIN_WIDTH), round(1 / BIN_WIDTH) + 1) * BIN_WIDTH
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for row, (label, splits) in zip(panels, found.items(), strict=True):
        for axes, (which, split) in zip(row, splits.items(), strict=True):
            _draw_densities(axes, split, bins)
            axes.set_title(f"({next(letters)}) {label}, {which} pairs", loc="left", fontsize="medium")
        row[0].set_ylabel("Density")
    for axes in panels[-1]:
        axes.set_xlabel("Cosine")
    # Shared, so it is the highest of all.
    panels[0, 0].set_ylim(0, HEADROOM * panels[0, 0].get_ylim()[1])
    fix_layout(figure)
    return figure


def _draw_densities(axes: Axes, split: Cosines, bins: np.ndarray) -> None:
    # The outlines differ for print without colours.
    for values, word, colour, line in (
        (split.negatives, "Negative", COLOURS[1], "--"),
        (split.positives, "Positive", COLOURS[0], "-"),
    ):
        # An empty histogram has no density.
        weights = np.full(len(values), 1 / (max(len(values), 1) * BIN_WIDTH))
        heights, _ = np.histogram(np.clip(values, bins[0], bins[-1]), bins, weights=weights)
        axes.stairs(heights, bins, fill=True, color=colour, alpha=0.35, linewidth=0)
        axes.stairs(heights, bins, color=colour, linestyle=line, label=f"{word} ({len(values):,})")
    axes.set_xlim(bins[0], bins[-1])
    axes.legend(fontsize="small", handlelength=1.6, loc="upper right", reverse=True)


def _describe(found: Mapping[str, Mapping[str, Cosines]], batch: NameBatch, margin: float) -> str:
    parts = []
    for label, splits in found.items():
        means = (
            f"{which} {split.positives.mean():.2f} and {split.negatives.mean():.2f}"
            for which, split in splits.items()
            if len(split.positives) and len(split.negatives)
        )
        parts.append(f"{label}: {', '.join(means) or 'nothing to compare'}")
    return (
        f"Cosines of positive and negative pairs in one batch of {len(batch.names):,} names of "
        f"{len(np.unique(batch.labels)):,} concepts, as densities: all pairs, and those that take part in a triplet "
        f"in which the negative is not farther from the anchor than the positive by more than {margin:g} (Euclidean "
        "distance of normalised vectors). In brackets: how many, each pair counted from both sides. Mean cosines of "
        f"positives and negatives: {'; '.join(parts)}."
    )
