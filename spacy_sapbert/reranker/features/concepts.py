"""Features of the concept, as the terminology has it."""

from __future__ import annotations

import numpy as np

from .base import FeatureGroup, QueryBatch


def compute_concepts(batch: QueryBatch) -> np.ndarray:
    """Compute the concepts' features.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    return np.log1p(batch.table.count(batch.concepts).astype(np.float32))


CONCEPTS = FeatureGroup(
    {
        "n_names": "a concept with many names",
        "n_parents": "a concept with several parents",
        "n_types": "a concept with several semantic types",
    },
    compute_concepts,
)
