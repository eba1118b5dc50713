"""What features are computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from ..lists import Lists, Proposal

if TYPE_CHECKING:
    from ..concepts import ConceptTable
    from ..recollections import Recollections


class QueryBatch(NamedTuple):
    """Mentions with their candidates, without the documents that they are in. Candidates are flat.

    forms (list[list[str]]): The strings that were looked up for each mention, the more telling one first.
    ids (list[str]): The id of each candidate.
    concepts (ndarray): The row of its concept in the terminology.
    names (ndarray): The row of the name that was found, or -1 for none.
    found_by (ndarray): The place of the form that found it.
    lists (Lists): Which candidates are whose.
    scores (ndarray): The cosine of each candidate by each linker; shape (candidates, linkers). A candidate that a
        linker did not find has its lowest cosine of that mention.
    recollections (Recollections | None): What the annotations say of the mentions; None without annotations.
    table (ConceptTable): What the terminology says of concepts.
    """

    forms: list[list[str]]
    ids: list[str]
    concepts: np.ndarray
    names: np.ndarray
    found_by: np.ndarray
    lists: Lists
    scores: np.ndarray
    recollections: Recollections | None
    table: ConceptTable

    @property
    def canonical_keys(self) -> np.ndarray:
        """Return the keys of canonical names in the table.

        RETURNS (ndarray): One for each candidate.
        """
        return ~self.concepts

    @property
    def name_keys(self) -> np.ndarray:
        """Return the keys of the names that were found, or of canonical names where none was.

        RETURNS (ndarray): One for each candidate.
        """
        return np.where(self.names >= 0, self.names, ~self.concepts)


class DocumentBatch(NamedTuple):
    """Mentions in their documents.

    proposals (Sequence[Proposal]): The candidates of each mention, with the features of its query.
    lists (Lists): The candidates of all mentions, flat.
    concepts (ndarray): The number of each candidate's concept.
    scores (ndarray): The first linker's cosine of each candidate.
    documents (ndarray): The number of each mention's document.
    """

    proposals: Sequence[Proposal]
    lists: Lists
    concepts: np.ndarray
    scores: np.ndarray
    documents: np.ndarray


Batch = TypeVar("Batch", QueryBatch, DocumentBatch)


class FeatureGroup(NamedTuple, Generic[Batch]):
    """Features that are computed together.

    features (dict[str, str]): The features, each with the words that explain a decision by it.
    compute (Callable[[QueryBatch | DocumentBatch], ndarray]): Computes them; shape (candidates, features).
    """

    features: dict[str, str]
    compute: Callable[[Batch], np.ndarray]
