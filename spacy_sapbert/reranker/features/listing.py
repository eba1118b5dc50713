"""The list of all features, in the order of the network's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .annotations import ANNOTATIONS
from .base import Batch, DocumentBatch, FeatureGroup, QueryBatch
from .concepts import CONCEPTS
from .document import DOCUMENT
from .scores import SCORES
from .strings import STRINGS

# Of the query only: computed once for all mentions with the same queries.
QUERY_GROUPS: tuple[FeatureGroup[QueryBatch], ...] = (SCORES, STRINGS, CONCEPTS, ANNOTATIONS)
# Of the document, computed for each mention.
DOCUMENT_GROUPS: tuple[FeatureGroup[DocumentBatch], ...] = (DOCUMENT,)
# Each feature with the words that explain a decision by it.
FEATURES: dict[str, str] = {
    name: words
    for features in [*(group.features for group in QUERY_GROUPS), *(group.features for group in DOCUMENT_GROUPS)]
    for name, words in features.items()
}


def can_compute(features: Sequence[str]) -> bool:
    """Check whether this version computes the features that a reranker was trained with.

    features (Sequence[str]): The features.
    RETURNS (bool): Whether they are the same.
    """
    return list(features) == [name for group in (*QUERY_GROUPS, *DOCUMENT_GROUPS) for name in group.features]


def compute_features(groups: tuple[FeatureGroup[Batch], ...], batch: Batch) -> np.ndarray:
    """Compute the features of some groups.

    groups (tuple[FeatureGroup, ...]): The groups.
    batch (QueryBatch | DocumentBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features), float32.
    """
    columns = [group.compute(batch) for group in groups]
    return np.hstack(columns).astype(np.float32, copy=False)
