"""The order of concepts with equal scores."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

from .hits import Hit

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# Scores of equal vectors can differ by this much, and so in digits after the sixth.
TIE = 1e-6
DIGITS = 6
# Of a concept without parents nothing is known. It comes after those with any number of ancestors.
UNKNOWN = float("inf")


class TieBreaker:
    """Order concepts whose scores are equal.

    terminology (Terminology): The concepts and their names.
    """

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology
        # Getting a column from its table takes longer than reading a value.
        self._names, self._preferred = terminology.names["name"], terminology.names["preferred"]
        self._canonical_names, self._parents = (terminology.concepts[name] for name in ("canonical_name", "parents"))
        self._n_ancestors: dict[int, float] = {}

    def order(self, text: str, hits: list[Hit]) -> list[Hit]:
        """Sort the concepts found for a mention by their scores.

        Of equal scores, the concept comes first whose name is written like the mention but for case, then the one whose
        canonical name it is, then the one written in the same case, then the one with fewer ancestors, which is more
        general, then the one of which it is a preferred name, then the smaller id.

        text (str): The mention.
        hits (list[Hit]): The concepts.
        RETURNS (list[Hit]): Best first.
        """
        hits = sorted(hits, key=attrgetter("score"), reverse=True)
        scores = [hit.score for hit in hits]
        # Most mentions have no ties, and rounding takes longer than comparing.
        if not any(above - below <= TIE for above, below in pairwise(scores)):
            return hits
        groups = groupby(hits, key=lambda hit: round(hit.score, DIGITS))
        return [hit for _, tied in groups for hit in self._break(text, list(tied))]

    def _break(self, text: str, tied: list[Hit]) -> list[Hit]:
        if len(tied) == 1:
            return tied
        small = text.lower()

        def compare_names(hit: Hit) -> tuple[bool, bool, bool]:
            name = self._names[hit.name]
            lowered = name.lower()
            is_canonical = lowered == self._canonical_names[hit.concept].lower()
            return lowered != small, not is_canonical, name != text

        def compare_concepts(hit: Hit) -> tuple[float, bool, int]:
            generality = self.count_ancestors(hit.concept) or UNKNOWN
            return generality, not self._preferred[hit.name], hit.concept

        # Ancestors take longest, and few concepts have the same key of names.
        keys = {hit: compare_names(hit) for hit in tied}
        groups = (list(group) for _, group in groupby(sorted(tied, key=keys.__getitem__), key=keys.__getitem__))
        return [hit for group in groups for hit in (sorted(group, key=compare_concepts) if len(group) > 1 else group)]

    def count_ancestors(self, concept: int) -> float:
        """Count the concepts above a concept. The number is kept.

        concept (int): The concept's row.
        RETURNS (float): Its parents, their parents and so on, each once, as far as the terminology has them.
        """
        if concept not in self._n_ancestors:
            seen = {concept}
            pending = [concept]
            while pending:
                above = [row for row in self._list_parents(pending.pop()) if row not in seen]
                seen.update(above)
                pending += above
            self._n_ancestors[concept] = len(seen) - 1
        return self._n_ancestors[concept]

    def _list_parents(self, concept: int) -> Iterator[int]:
        for parent in self._parents[concept].to_list():
            row = self._terminology.find_row(parent)
            if row is not None:
                yield row
