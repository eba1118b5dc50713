"""Which concepts a terminology does not tell apart, so that training should not push their names from each other."""

from __future__ import annotations

import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.text import normal_words

# A mention is often annotated with an ancestor that is so near.
STEPS = 3


class Relatedness:
    """Concepts that may be the same or contain each other: they share a name, in any order and spelling of its words,
    or one is an ancestor of the other.

    terminology (Terminology): Concepts with names and parents.
    steps (int): How far up ancestors count.
    """

    def __init__(self, terminology: Terminology, *, steps: int = STEPS) -> None:
        self.steps = steps
        ids, parents = (terminology.concepts[column].to_list() for column in ("id", "parents"))
        self._ids = ids
        self._row_of = {id_: row for row, id_ in enumerate(ids)}
        self._parents = dict(zip(ids, parents, strict=True))
        self._names, self._offsets = terminology.names["name"], terminology.name_offsets
        self._ancestors: dict[str, frozenset[str]] = {}
        self._words: dict[str, frozenset[str]] = {}

    def is_related(self, left: str, right: str) -> bool:
        """Check two concepts."""
        return (
            right in self._find_ancestors(left)
            or left in self._find_ancestors(right)
            or not self._list_words(left).isdisjoint(self._list_words(right))
        )

    def _find_ancestors(self, id_: str) -> frozenset[str]:
        if id_ not in self._ancestors:
            found: set[str] = set()
            last = {id_}
            for _ in range(self.steps):
                last = {parent for child in last for parent in self._parents.get(child, ())} - found
                found |= last
            self._ancestors[id_] = frozenset(found)
        return self._ancestors[id_]

    def _list_words(self, id_: str) -> frozenset[str]:
        """List the names of a concept as sorted normal words; names without words as they are written."""
        if id_ not in self._words:
            row = self._row_of.get(id_)
            names: pl.Series = pl.Series(dtype=pl.String())
            if row is not None:
                names = self._names[int(self._offsets[row]) : int(self._offsets[row + 1])]
            self._words[id_] = frozenset(" ".join(sorted(normal_words(name))) or name.lower() for name in names)
        return self._words[id_]
