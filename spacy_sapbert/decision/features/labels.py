"""Features of the mention's label: what semantic types its concepts have."""

from __future__ import annotations

import numpy as np

from .base import DocumentBatch, FeatureGroup


def compute_labels(batch: DocumentBatch) -> np.ndarray:
    """Compute the label's features.

    batch (DocumentBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    if batch.label_types is None:
        return np.zeros((batch.lists.n_candidates, len(LABELS.features)), dtype=np.float32)
    labels = [span.label_ for span in batch.spans]
    rows, concepts = np.unique(batch.rows, return_inverse=True)
    types = batch.table.list_types(rows)
    lifts = batch.label_types.compare(labels, batch.left_out, types, batch.lists.mention, concepts)
    return lifts.astype(np.float32)[:, None]


LABELS = FeatureGroup({"label_type": "its semantic type is usual for the label"}, compute_labels)
