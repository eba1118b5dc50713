"""What was found for a mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np


class Hit(NamedTuple):
    """A concept found for a mention.

    concept (int): Its row in the terminology's concepts.
    name (int): Row, in the terminology's names, of the name that matched best.
    score (float): Cosine of mention and name.
    """

    concept: int
    name: int
    score: float


class Hits:
    """The concepts found for one mention, best first, as arrays. Iterating yields each `Hit`.

    concepts (ndarray): Their rows in the terminology's concepts; int64.
    names (ndarray): The rows, in the terminology's names, of the names that matched best; int64.
    scores (ndarray): Cosines of mention and names; float64.
    """

    __slots__ = ("concepts", "names", "scores")

    def __init__(self, concepts: np.ndarray, names: np.ndarray, scores: np.ndarray) -> None:
        self.concepts, self.names, self.scores = concepts, names, scores

    @classmethod
    def of(cls, hits: Iterable[Hit]) -> Hits:
        """Make arrays of hits.

        hits (Iterable[Hit]): The hits.
        RETURNS (Hits): The same hits.
        """
        concepts, names, scores = zip(*hits, strict=True) if (hits := list(hits)) else ((), (), ())
        return cls(np.array(concepts, np.int64), np.array(names, np.int64), np.array(scores, np.float64))

    def __len__(self) -> int:
        """Return the number of concepts.

        RETURNS (int): The number.
        """
        return len(self.concepts)

    def __getitem__(self, place: int) -> Hit:
        """Return a hit.

        place (int): Its place.
        RETURNS (Hit): The hit.
        """
        return Hit(int(self.concepts[place]), int(self.names[place]), float(self.scores[place]))

    def __iter__(self) -> Iterator[Hit]:
        """Yield the hits.

        YIELDS (Hit): The next one.
        """
        return map(Hit, self.concepts.tolist(), self.names.tolist(), self.scores.tolist())
