"""Features of the annotated mentions of the training documents."""

from __future__ import annotations

import numpy as np

from .base import FeatureGroup, QueryBatch

# Votes of similar mentions that stand for those that nobody has annotated.
PRIOR_VOTES = 0.001


def compute_annotations(batch: QueryBatch) -> np.ndarray:
    """Compute the annotations' features: zeros without annotations.

    batch (QueryBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    found = np.zeros((batch.lists.n_candidates, len(ANNOTATIONS.features)), dtype=np.float32)
    for mention, recollection in enumerate(batch.recollections):
        if recollection is None:
            continue
        best = next(iter(recollection.nearest.values()), recollection.floor)
        total = sum(recollection.votes.values())
        start, end = batch.lists.offsets[mention : mention + 2].tolist()
        for row in range(start, end):
            concept = batch.candidates[row]["id"]
            found[row] = (
                recollection.frequency(concept),
                recollection.share(concept),
                recollection.nearest.get(concept, recollection.floor),
                recollection.n_mentions,
                recollection.nearest.get(concept, recollection.floor) - best,
                recollection.votes.get(concept, 0.0) / (total + PRIOR_VOTES),
                recollection.votes.get(concept, 0.0),
            )
    found[:, [0, 3, 6]] = np.log1p(found[:, [0, 3, 6]])
    return found


ANNOTATIONS = FeatureGroup(
    {
        "concept_frequency": "annotated often",
        "concept_share": "annotated for this mention",
        "annotated_cosine": "annotated for similar mentions",
        "mention_frequency": "the mention is annotated often",
        "annotated_margin": "annotated for the most similar mention",
        "vote_share": "annotated for most of the similar mentions",
        "votes": "annotated for many similar mentions",
    },
    compute_annotations,
)
