"""What the terminology says of candidates' concepts, looked up once for each concept."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..candidates import CandidateMaker
from .comparing import StringStore

if TYPE_CHECKING:
    from ..candidates import Candidate
    from ..retrieval.hits import Hit
    from ..retrieval.retriever import Retriever

# Concepts whose facts are kept.
KEPT_CONCEPTS = 1 << 16


class ConceptTable:
    """Ids, names and facts of concepts, looked up as candidates come.

    retriever (Retriever): The retriever of the first linker.
    output_source (str | None): The linker's setting, by which ids are codes.
    """

    def __init__(self, retriever: Retriever, output_source: str | None) -> None:
        self.retriever, self._output_source = retriever, output_source
        self._maker = CandidateMaker(retriever, output_source)
        self._offsets = retriever.terminology.name_offsets
        # Columns, because getting one from the table takes longer than reading a value.
        self._parents, self._types = (retriever.terminology.concepts[column] for column in ("parents", "types"))
        self._numbers: dict[str, int] = {}
        self._get_id = lru_cache(KEPT_CONCEPTS)(self._maker.get_id)
        self._count = lru_cache(KEPT_CONCEPTS)(self._count_facts)
        self._get_types = lru_cache(KEPT_CONCEPTS)(self._read_types)
        self.strings = StringStore(self.get_name)

    def list_ids(self, concepts: np.ndarray) -> list[str]:
        """List the ids of candidates.

        concepts (ndarray): The concepts' rows.
        RETURNS (list[str]): Their ids.
        """
        return [self._get_id(concept) for concept in concepts.tolist()]

    def number(self, ids: list[str]) -> np.ndarray:
        """Number ids.

        ids (list[str]): The ids.
        RETURNS (ndarray): A number for each, the same for the same id; int64.
        """
        numbers = self._numbers
        return np.array([numbers.setdefault(id_, len(numbers)) for id_ in ids], dtype=np.int64)

    def count(self, concepts: np.ndarray) -> np.ndarray:
        """Count what the terminology has of concepts.

        concepts (ndarray): The concepts' rows.
        RETURNS (ndarray): Their names, parents and semantic types; shape (concepts, 3), int64.
        """
        distinct, places = np.unique(concepts, return_inverse=True)
        counts = [self._count(concept) for concept in distinct.tolist()]
        return np.array(counts, dtype=np.int64).reshape(len(counts), 3)[places]

    def list_types(self, concepts: np.ndarray) -> list[tuple[str, ...]]:
        """List the semantic types of concepts.

        concepts (ndarray): The concepts' rows.
        RETURNS (list[tuple[str, ...]]): The types of each.
        """
        return [self._get_types(concept) for concept in concepts.tolist()]

    def list_names(self, concept: int) -> list[str]:
        """List the names of a concept.

        concept (int): Its row.
        RETURNS (list[str]): The names, in the order of the terminology.
        """
        return [self.get_name(row) for row in range(*self._offsets[concept : concept + 2].tolist())]

    def count_types(self) -> dict[str, int]:
        """Count the concepts of each semantic type in the terminology.

        RETURNS (dict[str, int]): The number of concepts by type.
        """
        return dict(self._types.explode().drop_nulls().value_counts().iter_rows())

    def get_name(self, key: int) -> str:
        """Get a name.

        key (int): The row of a name, or the complement (~) of a concept's row for its canonical name.
        RETURNS (str): The name.
        """
        name: str = self.retriever.names[key] if key >= 0 else self._maker.get_canonical_name(~key)
        return name

    def make(self, form: str, hit: Hit) -> Candidate:
        """Make a candidate as plain data.

        form (str): The form that found it.
        hit (Hit): What was found.
        RETURNS (Candidate): The candidate.
        """
        return self._maker.make(form, hit)

    def __reduce__(self) -> tuple[type[ConceptTable], tuple[Retriever, str | None]]:
        # Caches cannot be pickled, and a copy can fill its own.
        return type(self), (self.retriever, self._output_source)

    def _count_facts(self, concept: int) -> tuple[int, int, int]:
        n_names = int(self._offsets[concept + 1] - self._offsets[concept])
        return n_names, len(self._parents[concept]), len(self._types[concept])

    def _read_types(self, concept: int) -> tuple[str, ...]:
        return tuple(self._types[concept].to_list())
