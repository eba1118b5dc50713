"""The loss of a reranker: cross-entropy over each list of candidates with a last row for NIL."""

from __future__ import annotations

import numpy as np

from .lists import Lists


def listwise_loss(
    logits: np.ndarray, is_right: np.ndarray, lists: Lists, *, start: np.ndarray, pull: float
) -> tuple[float, np.ndarray]:
    """Compute the loss and its gradient.

    The loss of a mention is -log of the probability of all right rows together, plus `pull` times the mean squared
    distance between the candidates' logits and those of the linker alone.

    logits (ndarray): Scores of candidates and NIL, as `Lists.with_nil` makes them.
    is_right (ndarray): Whether each row is right; bool. Each mention has at least one right row.
    lists (Lists): The places of the rows.
    start (ndarray): The candidates' logits by the linker alone.
    pull (float): The weight of the distance to them.
    RETURNS (tuple[float, ndarray]): The mean loss of the mentions, and its gradient by the logits.
    """
    probabilities = lists.softmax(logits)
    sizes = lists.lengths + 1
    right = np.add.reduceat(np.where(is_right, probabilities, 0.0), lists.starts)
    right = np.maximum(right, 1e-30)
    among_right = np.where(is_right, probabilities, 0.0) / np.repeat(right, sizes)
    gradient = probabilities - among_right
    loss = -np.log(right).sum()
    if pull and lists.n_candidates:
        rows = np.arange(lists.n_candidates) + lists.mention
        distance = logits[rows] - start
        weights = pull / lists.lengths[lists.mention]
        loss += float((weights * distance**2).sum())
        gradient[rows] += 2 * weights * distance
    return float(loss / lists.n_mentions), (gradient / lists.n_mentions).astype(np.float32)
