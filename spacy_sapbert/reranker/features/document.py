"""Features of the document: what its other mentions propose."""

from __future__ import annotations

import numpy as np

from .base import DocumentBatch, FeatureGroup


def compute_document(batch: DocumentBatch) -> np.ndarray:
    """Compute the document's features. Mentions of one document with the same queries count as one.

    batch (DocumentBatch): The mentions.
    RETURNS (ndarray): Shape (candidates, features).
    """
    lists, scores = batch.lists, batch.scores
    if not lists.n_candidates:
        return np.zeros((0, len(DOCUMENT.features)), dtype=np.float32)
    # Equal proposals of a document: the first of them speaks for all.
    numbers: dict[tuple[int, int], int] = {}
    keys = zip(batch.documents.tolist(), map(id, batch.proposals), strict=True)
    group = np.array([numbers.setdefault(key, place) for place, key in enumerate(keys)])
    speaks = (group == np.arange(len(group)))[lists.mention]
    document = batch.documents[lists.mention]
    # Rows of one concept in one document, best first.
    _, same = np.unique(document * (batch.concepts.max() + 1) + batch.concepts, return_inverse=True)
    order = np.lexsort((-scores, same, ~speaks))[: int(speaks.sum())]
    starts = np.flatnonzero(np.diff(same[order], prepend=-1))
    count = np.zeros(same.max() + 1, dtype=np.int64)
    count[same[order[starts]]] = np.diff(np.append(starts, len(order)))
    best, second = np.zeros((2, len(count)), dtype=np.float32)
    holder = np.full(len(count), -1)
    best[same[order[starts]]] = scores[order[starts]]
    holder[same[order[starts]]] = group[lists.mention[order[starts]]]
    has_second = starts[count[same[order[starts]]] > 1] + 1
    second[same[order[has_second]]] = scores[order[has_second]]
    is_holder = holder[same] == group[lists.mention]
    others = np.where(is_holder, second[same], best[same])
    return np.stack([others, np.log1p(np.maximum(count[same] - 1, 0))], axis=1)


DOCUMENT = FeatureGroup(
    {
        "document_best": "near another mention of the document",
        "document_count": "proposed for other mentions of the document",
    },
    compute_document,
)
