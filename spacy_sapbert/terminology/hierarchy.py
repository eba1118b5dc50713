"""The hierarchy of a terminology: the parents of its concepts, and the walks up and down from a concept."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..columns import read_chunks
from ..forking import kept_property
from ..ragged import count_offsets, list_owners, make_offsets, sum_lists

if TYPE_CHECKING:
    from .table import Terminology

# Ids and lists of parents that are remembered. The upper concepts are asked for again and again.
KEPT = 1 << 16


class Hierarchy:
    """The parents of concepts, all by their rows. Parents that the terminology lacks are left out, and the concept that
    took a retired one's place stands for it. All parents are read when a walk down first needs them."""

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology
        self._listed = listed = terminology.concepts["parents"]
        find_row = lru_cache(KEPT)(terminology.find_row)
        self._list_parents = lru_cache(KEPT)(
            lambda concept: {row for id_ in listed[concept].to_list() if (row := find_row(id_)) is not None}
        )

    @kept_property
    def parents(self) -> tuple[np.ndarray, np.ndarray]:
        """The parents of all concepts, and the offsets of each concept's."""
        numbers: dict[str, int] = {}
        places: list[int] = []
        lengths: list[int] = []
        for chunk in read_chunks(self._listed):
            lengths += map(len, chunk)
            places += (numbers.setdefault(id_, len(numbers)) for of_concept in chunk for id_ in of_concept)
        rows = self._terminology.find_rows(numbers)[np.array(places, dtype=np.int64)]
        return rows[rows >= 0], make_offsets(sum_lists(rows >= 0, make_offsets(lengths)))

    @kept_property
    def children(self) -> tuple[np.ndarray, np.ndarray]:
        """The children of all concepts, and the offsets of each concept's."""
        parents, offsets = self.parents
        order = np.argsort(parents, kind="stable")
        return list_owners(offsets)[order], count_offsets(parents, len(self._terminology))

    def find_children(self, concept: int) -> np.ndarray:
        """Find the concepts that have a concept as a parent, each once and in order. None is its own child."""
        children, offsets = self.children
        below: np.ndarray = np.unique(children[offsets[concept] : offsets[concept + 1]])
        others: np.ndarray = below[below != concept]
        return others

    def find_below(self, concepts: np.ndarray) -> np.ndarray:
        """Find concepts and all their descendants: a mask of concepts."""
        parents, offsets = self.parents
        found, n_found = concepts, -1
        while found.sum() > n_found:
            n_found = found.sum()
            found = found | (sum_lists(found[parents], offsets) > 0)
        return found

    def find_above(self, concept: int) -> set[int]:
        """Find the parents of a concept, their parents and so on."""
        seen, pending = {concept}, [concept]
        while pending:
            new = self._list_parents(pending.pop()) - seen
            seen |= new
            pending += new
        return seen - {concept}
