"""What features are computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from spacy.tokens import Span

from ...candidates import Candidate
from ..lists import Lists, Proposal

if TYPE_CHECKING:
    from ..concepts import ConceptFacts
    from ..memory import Recollection


class QueryBatch(NamedTuple):
    """Mentions with their candidates, without the documents that they are in.

    forms (list[list[str]]): The strings that were looked up for each mention, the more telling one first.
    candidates (list[Candidate]): The candidates of all mentions, flat.
    lists (Lists): Which candidates are whose.
    scores (ndarray): The cosine of each candidate by each linker; shape (candidates, linkers). A candidate that a
        linker did not find has its lowest cosine of that mention.
    facts (list[ConceptFacts]): What the terminology says of each candidate's concept.
    recollections (list[Recollection | None]): What the annotations say of each mention; None without annotations.
    """

    forms: list[list[str]]
    candidates: list[Candidate]
    lists: Lists
    scores: np.ndarray
    facts: list[ConceptFacts]
    recollections: list[Recollection | None]


class DocumentBatch(NamedTuple):
    """Mentions in their documents.

    proposals (Sequence[Proposal]): The candidates of each mention, with the features of its query.
    lists (Lists): The candidates of all mentions, flat.
    concepts (ndarray): The number of each candidate's concept.
    scores (ndarray): The first linker's cosine of each candidate.
    documents (ndarray): The number of each mention's document.
    spans (Sequence[Span]): The mentions.
    """

    proposals: Sequence[Proposal]
    lists: Lists
    concepts: np.ndarray
    scores: np.ndarray
    documents: np.ndarray
    spans: Sequence[Span]


Batch = TypeVar("Batch", QueryBatch, DocumentBatch)


class FeatureGroup(NamedTuple, Generic[Batch]):
    """Features that are computed together.

    features (dict[str, str]): The features, each with the words that explain a decision by it.
    compute (Callable[[QueryBatch | DocumentBatch], ndarray]): Computes them; shape (candidates, features).
    """

    features: dict[str, str]
    compute: Callable[[Batch], np.ndarray]
