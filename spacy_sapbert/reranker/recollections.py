"""What the annotated mentions say of other mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

# Concepts of the nearest annotated mentions that become candidates, and the cosine that they need.
ADDED, ADDED_COSINE = 5, 0.6


class Lookup(NamedTuple):
    """Values by key.

    keys (ndarray): Distinct keys, sorted; int64.
    values (ndarray): The value of each.
    """

    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray) -> Lookup:
        """Sum values by key.

        keys (ndarray): Keys.
        values (ndarray): Integers.
        RETURNS (Lookup): The sum for each distinct key.
        """
        distinct, places = np.unique(keys, return_inverse=True)
        return cls(distinct, np.bincount(places, weights=values, minlength=len(distinct)).astype(np.int64))

    def get(self, keys: np.ndarray, default: np.ndarray | int = 0) -> np.ndarray:
        """Get values.

        keys (ndarray): The keys.
        default (ndarray | int): The values of other keys.
        RETURNS (ndarray): A value for each.
        """
        if not len(self.keys):
            return np.broadcast_to(np.asarray(default), keys.shape)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.values[places], default)


class Recollections(NamedTuple):
    """What the annotations say of mentions. Keys stand for a mention and a concept.

    numbers (Mapping[str, int]): The number of each concept, by its id.
    totals (ndarray): How often each concept is annotated.
    nearest (Lookup): Cosine of the nearest annotated mention of a concept.
    order (ndarray): For each key of `nearest` where it came among all: the nearest first.
    votes (Lookup): Votes of similar mentions for a concept.
    total_votes (ndarray): All votes for each mention.
    floor (ndarray): For each mention the cosine of concepts that no near mention has.
    best (ndarray): For each mention the cosine of the nearest annotated mention.
    same (Lookup): How often a concept is annotated for the same string.
    n_mentions (ndarray): How often each string is annotated.
    left_out (Lookup): How often a concept is annotated in the document that is left out.
    """

    numbers: Mapping[str, int]
    totals: np.ndarray
    nearest: Lookup
    order: np.ndarray
    votes: Lookup
    total_votes: np.ndarray
    floor: np.ndarray
    best: np.ndarray
    same: Lookup
    n_mentions: np.ndarray
    left_out: Lookup

    def number(self, ids: Sequence[str]) -> np.ndarray:
        """Number concepts.

        ids (Sequence[str]): Their ids.
        RETURNS (ndarray): The number of each; -1 for those that nothing is annotated with.
        """
        return np.array([self.numbers.get(id_, -1) for id_ in ids], dtype=np.int64)

    def get_totals(self, numbers: np.ndarray) -> np.ndarray:
        """Count the annotations of concepts.

        numbers (ndarray): What `number` gave for them.
        RETURNS (ndarray): How often each is annotated.
        """
        return np.where(numbers >= 0, np.append(self.totals, 0)[numbers], 0)

    def make_keys(self, mentions: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Make keys.

        mentions (ndarray): The place of each mention.
        numbers (ndarray): What `number` gave for the concepts.
        RETURNS (ndarray): The keys; -1 for concepts that nothing is annotated with.
        """
        return np.where(numbers >= 0, mentions * len(self.totals) + numbers, -1)

    def list_added(self) -> list[list[str]]:
        """List the concepts that become candidates because near mentions are annotated with them.

        RETURNS (list[list[str]]): Their ids for each mention, best first.
        """
        added: list[list[str]] = [[] for _ in self.n_mentions]
        near = np.flatnonzero(self.nearest.values >= ADDED_COSINE)
        keys = self.nearest.keys[near[np.argsort(self.order[near], kind="stable")]]
        n_concepts, ids = max(len(self.totals), 1), [*self.numbers]
        for mention, number in zip((keys // n_concepts).tolist(), (keys % n_concepts).tolist(), strict=True):
            if len(added[mention]) < ADDED:
                added[mention].append(ids[number])
        return added
