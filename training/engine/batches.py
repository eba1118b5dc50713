"""Batches of pairs: shuffled, balanced over sources, or grouped with similar concepts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..data.pairs import PairData
from ..errors import Errors


class Batches:
    """Batches of pairs in an order determined by the seed, so that a run can be resumed at any batch.

    labels (np.ndarray): The concept of each pair; shape (pairs,), int64.
    size (int): Pairs in a batch.
    seed (int): Seed of the order, which differs between epochs.
    epochs (int): Passes over all pairs.
    weights (np.ndarray | None): Relative frequency of each pair; shape (pairs,). None: each pair once per epoch.
    neighbours (np.ndarray | None): Similar concepts of each concept, padded with -1; shape (concepts, pool). A batch
        then consists of groups: a pair, and one pair each of some neighbours of its concept.
    group (int): Neighbours of a group, drawn from the pool; 0 for all of the pool.
    """

    def __init__(
        self,
        labels: np.ndarray,
        size: int,
        seed: int,
        epochs: int = 1,
        weights: np.ndarray | None = None,
        neighbours: np.ndarray | None = None,
        group: int = 0,
    ) -> None:
        self.labels = labels
        self.size = size
        self.seed = seed
        self.epochs = epochs
        self.weights = weights
        self.neighbours = neighbours
        self.group = group or (0 if neighbours is None else neighbours.shape[1])
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
        seeds = rows[: max(1, round(len(rows) / (1 + self.group)))]
        pools = self.neighbours[self.labels[seeds]]
        if self.group < pools.shape[1]:
            # In random order, with the padding last.
            order = np.argsort(np.where(pools < 0, 2.0, rng.random(pools.shape)), axis=1)
            pools = np.take_along_axis(pools, order, axis=1)[:, : self.group]
        concepts = pools[pools >= 0]
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
