"""Batches of groups: anchors with their neighbours and synonyms (CODER++: Zeng et al., BioNLP 2022)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .data import ConceptNames


class FindsNeighbours(Protocol):
    """A source of neighbours."""

    def take(self, anchors: np.ndarray) -> np.ndarray:
        """Return the nearest neighbours of anchors."""


class GroupedNames(NamedTuple):
    """The names of a batch, each once.

    names (np.ndarray): Rows in the table's names, ascending; shape (n,), int64.
    same (np.ndarray): Whether two of them have a concept in common; shape (n, n), bool, true on the diagonal.
    """

    names: np.ndarray
    same: np.ndarray


class GroupSampler:
    """Draw batches of groups: an anchor, its nearest names, and other names of its concepts.

    All anchors are drawn once per epoch. Anchors depend only on the batch's number and the seed, so neighbours can be
    searched in advance, and a run can resume at any batch. A name of several groups occurs in the batch once; the
    released code repeats it, and repeats anchors with too few synonyms.

    table (ConceptNames): The names.
    groups (int): Anchors in a batch.
    synonyms (int): Maximum number of synonyms of an anchor.
    seed (int): Seed of all draws.
    """

    def __init__(self, table: ConceptNames, groups: int, synonyms: int, *, seed: int = 0) -> None:
        self.table = table
        self.groups = groups
        self.synonyms = synonyms
        self.seed = seed
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def list_anchors(self, start: int, end: int) -> np.ndarray:
        """List the anchors of some batches."""
        n_anchors = len(self.table.anchors)
        places = np.arange(start * self.groups, end * self.groups)
        epochs = places // n_anchors
        parts = [self._shuffle(epoch)[places[epochs == epoch] % n_anchors] for epoch in np.unique(epochs).tolist()]
        return np.concatenate(parts)

    def draw(self, number: int, neighbours: FindsNeighbours) -> GroupedNames:
        """Draw a batch."""
        anchors = self.list_anchors(number, number + 1)
        rng = np.random.default_rng([self.seed, 1, number])
        synonyms = [self._draw_synonyms(anchor, rng) for anchor in anchors.tolist()]
        names = np.unique(np.concatenate([anchors, neighbours.take(anchors).ravel(), *synonyms]))
        return GroupedNames(names, self._compare(names))

    def _shuffle(self, epoch: int) -> np.ndarray:
        if epoch != self._epoch:
            self._order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.table.anchors)
            self._epoch = epoch
        return self._order

    def _draw_synonyms(self, anchor: int, rng: np.random.Generator) -> np.ndarray:
        synonyms = self.table.synonyms_of(anchor)
        return rng.choice(synonyms, size=min(self.synonyms, len(synonyms)), replace=False)

    def _compare(self, names: np.ndarray) -> np.ndarray:
        """Mark the names that share a concept."""
        concepts = [self.table.concepts_of(name) for name in names.tolist()]
        rows = np.repeat(np.arange(len(names)), [len(found) for found in concepts])
        distinct, columns = np.unique(np.concatenate(concepts), return_inverse=True)
        has = np.zeros((len(names), len(distinct)), dtype=np.float32)
        has[rows, columns] = 1.0
        return has @ has.T > 0
