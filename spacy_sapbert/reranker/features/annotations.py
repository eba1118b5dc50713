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
    said = batch.recollections
    if said is None:
        return np.zeros((batch.lists.n_candidates, len(ANNOTATIONS.features)), dtype=np.float32)
    mention = batch.lists.mention
    numbers = said.number(batch.ids)
    keys = said.make_keys(mention, numbers)
    nearest = said.nearest.get(keys, said.floor[mention])
    n_mentions, votes = said.n_mentions[mention], said.votes.get(keys)
    columns = [
        np.log1p(said.get_totals(numbers) - said.left_out.get(keys)),
        said.same.get(keys) / np.maximum(n_mentions, 1),
        nearest,
        np.log1p(n_mentions),
        nearest - said.best[mention],
        votes / (said.total_votes[mention] + PRIOR_VOTES),
        np.log1p(votes),
    ]
    return np.stack(columns, axis=1)


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
