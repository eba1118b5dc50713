"""Features of the annotated mentions of the training documents."""

from __future__ import annotations

import numpy as np

from .base import FeatureGroup, QueryBatch


def compute_annotations(batch: QueryBatch) -> np.ndarray:
    """Compute the annotations' features: zeros without annotations.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    found = np.zeros((batch.lists.n_candidates, len(ANNOTATIONS.features)), dtype=np.float32)
    for mention, recollection in enumerate(batch.recollections):
        if recollection is None:
            continue
        start, end = batch.lists.offsets[mention : mention + 2].tolist()
        for row in range(start, end):
            concept = batch.candidates[row]["id"]
            found[row] = (
                recollection.frequency(concept),
                recollection.share(concept),
                recollection.nearest.get(concept, recollection.floor),
                recollection.n_mentions,
            )
    found[:, [0, 3]] = np.log1p(found[:, [0, 3]])
    return found


ANNOTATIONS = FeatureGroup(
    {
        "concept_frequency": "annotated often",
        "concept_share": "annotated for this mention",
        "annotated_cosine": "annotated for similar mentions",
        "mention_frequency": "the mention is annotated often",
    },
    compute_annotations,
)
