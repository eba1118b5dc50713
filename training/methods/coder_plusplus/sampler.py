"""The names of a batch: anchors, each with its neighbours and its synonyms (CODER++: Zeng et al., BioNLP 2022)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .data import NameTable


class FindsNeighbours(Protocol):
    """Where the neighbours of anchors come from."""

    def take(self, anchors: np.ndarray) -> np.ndarray:
        """Give the nearest names of anchors.

        anchors (ndarray): Names, shape (n,).
        RETURNS (ndarray): Other names, nearest first, shape (n, neighbours), int64.
        """


class GroupedNames(NamedTuple):
    """The names of a batch, each once.

    names (ndarray): Where they stand in the table's, ascending; shape (n,), int64.
    same (ndarray): Whether two of them have a concept in common; shape (n, n), bool, true on the diagonal.
    """

    names: np.ndarray
    same: np.ndarray


class GroupSampler:
    """Draw batches of groups: an anchor, the names nearest to it, and other names of its concepts.

    Each anchor comes once before any comes a second time. Anchors depend on the batch's number and the seed alone, so
    that neighbours can be looked for ahead, and a run can go on at any batch. A name that several groups bring along is
    there once; the released code has it several times, and repeats anchors that have too few synonyms.

    table (NameTable): The names.
    groups (int): Anchors in a batch.
    synonyms (int): Names of an anchor's concepts at most.
    seed (int): Of all draws.
    """

    def __init__(self, table: NameTable, groups: int, synonyms: int, *, seed: int = 0) -> None:
        self.table = table
        self.groups = groups
        self.synonyms = synonyms
        self.seed = seed
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def list_anchors(self, start: int, end: int) -> np.ndarray:
        """List the anchors of some batches.

        start (int): The first batch.
        end (int): The one after the last.
        RETURNS (ndarray): Names, shape ((end - start) * groups,), int64, batch by batch.
        """
        n_anchors = len(self.table.anchors)
        places = np.arange(start * self.groups, end * self.groups)
        epochs = places // n_anchors
        parts = [self._shuffle(epoch)[places[epochs == epoch] % n_anchors] for epoch in np.unique(epochs).tolist()]
        return np.concatenate(parts)

    def draw(self, number: int, neighbours: FindsNeighbours) -> GroupedNames:
        """Draw a batch.

        number (int): Which one, from 0.
        neighbours (FindsNeighbours): Of its anchors.
        RETURNS (GroupedNames): The batch.
        """
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
        """Tell which names have a concept in common."""
        concepts = [self.table.concepts_of(name) for name in names.tolist()]
        rows = np.repeat(np.arange(len(names)), [len(found) for found in concepts])
        distinct, columns = np.unique(np.concatenate(concepts), return_inverse=True)
        has = np.zeros((len(names), len(distinct)), dtype=np.float32)
        has[rows, columns] = 1.0
        return has @ has.T > 0
