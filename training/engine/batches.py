"""Batches of pairs: shuffled, balanced over sources, or grouped with similar concepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.files import save_array

from ..data.pairs import PairData
from ..data.run_folder import write_whole
from ..errors import Errors
from .nearest import search_others


class Batches:
    """Batches of pairs in an order determined by the seed, so that a run can be resumed at any batch.

    labels (np.ndarray): The concept of each pair; shape (pairs,), int64.
    size (int): Pairs in a batch.
    seed (int): Seed of the order, which differs between epochs.
    epochs (int): Passes over all pairs.
    weights (np.ndarray | None): Relative frequency of each pair; shape (pairs,). None: each pair once per epoch.
    neighbours (np.ndarray | None): Similar concepts of each concept; shape (concepts, n). A batch then consists of
        groups: a pair, and one pair of each neighbour of its concept.
    """

    def __init__(
        self,
        labels: np.ndarray,
        size: int,
        seed: int,
        epochs: int = 1,
        weights: np.ndarray | None = None,
        neighbours: np.ndarray | None = None,
    ) -> None:
        self.labels = labels
        self.size = size
        self.seed = seed
        self.epochs = epochs
        self.weights = weights
        self.neighbours = neighbours
        self._by_concept = np.argsort(labels, kind="stable")
        self._counts = np.bincount(labels)
        self._starts = self._counts.cumsum() - self._counts

    @property
    def per_epoch(self) -> int:
        """Return the number of batches in an epoch.

        RETURNS (int): Batches.
        """
        return -(-len(self.labels) // self.size)

    def iterate(self, start: int = 0) -> Iterator[np.ndarray]:
        """Iterate over the batches of all epochs. The last one of an epoch may be smaller.

        start (int): Batches to skip, for a resumed run.
        YIELDS (np.ndarray): The rows of a batch.
        """
        for epoch in range(start // self.per_epoch, self.epochs):
            order = self._draw_order(epoch)
            first = start - epoch * self.per_epoch if start > epoch * self.per_epoch else 0
            for batch in range(first, self.per_epoch):
                rows = order[batch * self.size : (batch + 1) * self.size]
                yield rows if self.neighbours is None else self._add_neighbours(rows, epoch, batch)

    def _draw_order(self, epoch: int) -> np.ndarray:
        rng, n = np.random.default_rng([self.seed, epoch]), len(self.labels)
        if self.weights is None:
            return rng.permutation(n)
        return rng.choice(n, size=n, p=self.weights / self.weights.sum())

    def _add_neighbours(self, rows: np.ndarray, epoch: int, batch: int) -> np.ndarray:
        """Keep one pair for each group, and fill the groups with random pairs of neighbours."""
        assert self.neighbours is not None
        rng = np.random.default_rng([self.seed, epoch, batch])
        seeds = rows[: max(1, round(len(rows) / (1 + self.neighbours.shape[1])))]
        concepts = self.neighbours[self.labels[seeds]].ravel()
        starts, counts = self._starts[concepts], self._counts[concepts]
        chosen = self._by_concept[starts + rng.integers(0, counts)]
        # Groups may share neighbours. A repeated pair adds nothing.
        return np.unique(np.concatenate([seeds, chosen]))


def balance_sources(data: PairData, balance: float) -> np.ndarray:
    """Weight pairs so that small sources are drawn more often.

    First a source is drawn, in proportion to its number of pairs to the power of 1 - balance, then one of its pairs.
    Pairs of a concept with several sources can be drawn through each of them.

    data (PairData): The pairs, with the sources of their concepts.
    balance (float): 1 to draw all sources equally often, 0 in proportion to their pairs.
    RETURNS (np.ndarray): Relative weights; shape (pairs,), float64.
    RAISES (ValueError): If the sources are not known.
    """
    if data.sources is None:
        raise ValueError(Errors.E675)
    # One row per concept and source.
    split = [joined.split("|") for joined in data.sources]
    concepts = np.repeat(np.arange(len(split)), [len(sources) for sources in split])
    _, sources = np.unique([source for sources in split for source in sources], return_inverse=True)
    pairs_of_concept = np.bincount(data.labels, minlength=len(split))
    n_pairs = np.bincount(sources, pairs_of_concept[concepts])
    rates = np.divide(n_pairs ** (1.0 - balance), n_pairs, out=np.zeros_like(n_pairs), where=n_pairs > 0)
    return np.bincount(concepts, rates[sources])[data.labels]


def find_neighbours(data: PairData, encoder: EncoderShim, n: int, path: Path) -> np.ndarray:
    """Find the most similar concepts of each concept, by the vector of one name each.

    data (PairData): The pairs.
    encoder (EncoderShim): The encoder.
    n (int): Neighbours of a concept; fewer if there are fewer concepts.
    path (Path): The file (.npy) that stores them, so that a resumed run draws the same batches.
    RETURNS (np.ndarray): Rows of concepts; shape (concepts, n), int64.
    """
    n = min(n, len(data.concepts) - 1)
    kept = _read_neighbours(path, len(data.concepts))
    if kept is not None and kept.shape[1] >= n:
        return kept[:, :n]
    _, first_pair = np.unique(data.labels, return_index=True)
    vectors = encoder.encode(data.names.gather(data.left[first_pair]).to_list())
    neighbours, _ = search_others(vectors, np.arange(len(vectors)), n, encoder.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as temporary, temporary.open("wb") as file:
        save_array(file, neighbours)
    return neighbours


def _read_neighbours(path: Path, n_concepts: int) -> np.ndarray | None:
    """Read stored neighbours; None if there are none or the file is damaged: they are searched again."""
    try:
        kept = np.load(path)
    except (OSError, ValueError, EOFError):
        return None
    is_whole = kept.ndim == 2 and len(kept) == n_concepts and kept.dtype == np.int64 and kept.size
    return kept if is_whole and 0 <= kept.min() and kept.max() < n_concepts else None
