"""Lists of candidates, flat: the candidates of many mentions one after another, and where each mention's start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..candidates import Candidate
from ..retrieval.hits import Hit


class Proposal(NamedTuple):
    """What is known of a mention apart from its document. Mentions with the same queries share one.

    forms (list[str]): The strings that were looked up, the more telling one first.
    ids (list[str]): The candidates' ids, best first, in the order of the first linker.
    made (dict[int, Candidate]): The candidates at some places as plain data, filled as they are written.
    numbers (ndarray): A number for each id, the same in all proposals of a reranker; int64.
    concepts (ndarray): Rows of their concepts in the terminology; int64.
    names (ndarray): Rows of the names that were found, or -1 for none; int64.
    found_by (ndarray): The places of the forms that found them; int64.
    cosines (ndarray): The cosine by which each was found; float64.
    scores (ndarray): The first linker's cosine of each; float32.
    features (ndarray): The features of the query; shape (candidates, features), float32.
    """

    forms: list[str]
    ids: list[str]
    made: dict[int, Candidate]
    numbers: np.ndarray
    concepts: np.ndarray
    names: np.ndarray
    found_by: np.ndarray
    cosines: np.ndarray
    scores: np.ndarray
    features: np.ndarray

    def get_hit(self, place: int) -> Hit:
        """Get what was found.

        place (int): The place of a candidate.
        RETURNS (Hit): Its concept, name and cosine.
        """
        return Hit(self.concepts.item(place), self.names.item(place), self.cosines.item(place))


class Lists:
    """The places of candidates and mentions in flat arrays.

    lengths (list[int]): The number of each mention's candidates.
    """

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.n_mentions, self.n_candidates = len(self.lengths), int(self.offsets[-1])
        # Which mention each candidate belongs to, and its place in that mention's list.
        self.mention = np.repeat(np.arange(self.n_mentions), self.lengths)
        self.place = np.arange(self.n_candidates) - self.offsets[self.mention]

    def best(self, values: np.ndarray, empty: float = 0.0) -> np.ndarray:
        """Get the largest value of each list.

        values (ndarray): A value or a row for each candidate.
        empty (float): The value of lists without candidates.
        RETURNS (ndarray): A value or a row for each mention.
        """
        found = np.full((self.n_mentions, *values.shape[1:]), empty, dtype=values.dtype)
        filled = self.lengths > 0
        if filled.any():
            # Without the empty lists, the end of each is the start of the next.
            found[filled] = np.maximum.reduceat(values, self.offsets[:-1][filled], axis=0)
        return found

    def first(self, values: np.ndarray, empty: float = 0.0) -> np.ndarray:
        """Get the value of each list's first candidate.

        values (ndarray): A value or a row for each candidate.
        empty (float): The value of lists without candidates.
        RETURNS (ndarray): A value or a row for each mention.
        """
        found = np.full((self.n_mentions, *values.shape[1:]), empty, dtype=values.dtype)
        filled = self.lengths > 0
        found[filled] = values[self.offsets[:-1][filled]]
        return found

    def sort(self, logits: np.ndarray) -> np.ndarray:
        """Sort the candidates of each list by their scores. Those with equal scores stay in their order.

        logits (ndarray): Scores of candidates and NIL, as `with_nil` makes them.
        RETURNS (ndarray): The rows of the candidates, best first, mention after mention.
        """
        scores = logits[np.arange(self.n_candidates) + self.mention]
        return np.lexsort((self.place, -scores, self.mention))

    def with_nil(self, values: np.ndarray, nil: np.ndarray) -> np.ndarray:
        """Put a value for NIL behind the candidates of each list.

        values (ndarray): A value for each candidate.
        nil (ndarray): A value for each mention.
        RETURNS (ndarray): The values; a candidate's place moves by the number of its mention.
        """
        rows = np.empty(self.n_candidates + self.n_mentions, dtype=np.result_type(values, nil))
        rows[np.arange(self.n_candidates) + self.mention] = values
        rows[self.nil_rows] = nil
        return rows

    @property
    def nil_rows(self) -> np.ndarray:
        """Return the rows of NIL in arrays that `with_nil` makes.

        RETURNS (ndarray): A row for each mention.
        """
        return self.offsets[1:] + np.arange(self.n_mentions)

    @property
    def starts(self) -> np.ndarray:
        """Return the first row of each mention in arrays that `with_nil` makes.

        RETURNS (ndarray): A row for each mention.
        """
        return self.offsets[:-1] + np.arange(self.n_mentions)

    def softmax(self, logits: np.ndarray) -> np.ndarray:
        """Turn scores of candidates and NIL into probabilities.

        logits (ndarray): Scores, as `with_nil` makes them.
        RETURNS (ndarray): Probabilities in the same places, which sum to one for each mention.
        """
        if not self.n_mentions:
            return np.zeros(0, dtype=np.float64)
        sizes = self.lengths + 1
        top = np.repeat(np.maximum.reduceat(logits, self.starts), sizes)
        powers = np.exp((logits - top).astype(np.float64))
        probabilities: np.ndarray = powers / np.repeat(np.add.reduceat(powers, self.starts), sizes)
        return probabilities
