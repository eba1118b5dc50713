"""The list of all features, in the order of the network's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .annotations import ANNOTATIONS
from .base import Batch, DocumentBatch, FeatureGroup, QueryBatch
from .concepts import CONCEPTS
from .document import DOCUMENT
from .labels import LABELS
from .scores import SCORES
from .strings import STRINGS

# Of the query only: computed once for all mentions with the same queries.
QUERY_GROUPS: tuple[FeatureGroup[QueryBatch], ...] = (SCORES, STRINGS, CONCEPTS, ANNOTATIONS)
# Of the document, computed for each mention.
DOCUMENT_GROUPS: tuple[FeatureGroup[DocumentBatch], ...] = (DOCUMENT, LABELS)
# Those that a reranker can lack.
OPTIONAL: tuple[FeatureGroup[DocumentBatch], ...] = (LABELS,)
# Each feature with the words that explain a decision by it.
FEATURES: dict[str, str] = {
    name: words
    for features in [*(group.features for group in QUERY_GROUPS), *(group.features for group in DOCUMENT_GROUPS)]
    for name, words in features.items()
}


def list_features(*, has_types: bool) -> tuple[str, ...]:
    """List the features that a reranker is trained with.

    has_types (bool): Whether annotated concepts have semantic types.
    RETURNS (tuple[str, ...]): The features, in the order of the network's input.
    """
    return tuple(name for name in FEATURES if has_types or name not in LABELS.features)


def choose_document_groups(features: Sequence[str]) -> tuple[FeatureGroup[DocumentBatch], ...]:
    """Choose the groups of the document's features.

    features (Sequence[str]): The features that a reranker was trained with.
    RETURNS (tuple[FeatureGroup, ...]): The groups that give them.
    """
    return tuple(group for group in DOCUMENT_GROUPS if group not in OPTIONAL or set(group.features) <= set(features))


def can_compute(features: Sequence[str]) -> bool:
    """Check whether this version computes the features that a reranker was trained with.

    features (Sequence[str]): The features.
    RETURNS (bool): Whether they are those of all groups, or of all but some optional ones.
    """
    of_query = [name for group in QUERY_GROUPS for name in group.features]
    of_document = [name for group in choose_document_groups(features) for name in group.features]
    return list(features) == of_query + of_document


def compute_features(groups: tuple[FeatureGroup[Batch], ...], batch: Batch) -> np.ndarray:
    """Compute the features of some groups.

    groups (tuple[FeatureGroup, ...]): The groups.
    batch (QueryBatch | DocumentBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features), float32.
    """
    columns = [group.compute(batch) for group in groups]
    return np.hstack(columns).astype(np.float32, copy=False)
