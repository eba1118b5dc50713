"""Compare decisions with gold, to calibrate them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .deciding import Scored


class Calibration(NamedTuple):
    """What calibrating has changed, on the documents that it was fitted to.

    n_mentions (int): Annotated mentions.
    error_before (float): Expected calibration error of the best concepts' probabilities before.
    error_after (float): The same afterwards.
    """

    n_mentions: int
    error_before: float
    error_after: float


class Judged(NamedTuple):
    """Probabilities of the softmax, and whether they were right.

    best (ndarray): Of the best concept of each mention that has candidates.
    is_right (ndarray): Whether it is right; bool.
    nil (ndarray): Of NIL for each mention.
    is_nil (ndarray): Whether no concept of the terminology is right; bool.
    """

    best: np.ndarray
    is_right: np.ndarray
    nil: np.ndarray
    is_nil: np.ndarray


def judge(batches: Sequence[tuple[Scored, Sequence[frozenset[str]]]]) -> Judged:
    """Judge decisions.

    batches (Sequence[tuple[Scored, Sequence[frozenset[str]]]]): Scored mentions, and the ids of which any is right.
    RETURNS (Judged): All of them together.
    """
    parts = [_judge(scored, right) for scored, right in batches]
    return Judged(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _judge(scored: Scored, right: Sequence[frozenset[str]]) -> Judged:
    lists = scored.lists
    has_candidates = lists.lengths > 0
    firsts = scored.order[lists.offsets[:-1][has_candidates]]
    chosen = [
        scored.proposals[mention].ids[place]
        for mention, place in zip(lists.mention[firsts].tolist(), lists.place[firsts].tolist(), strict=True)
    ]
    gold = [ids for ids, filled in zip(right, has_candidates.tolist(), strict=True) if filled]
    is_right = [id_ in ids for id_, ids in zip(chosen, gold, strict=True)]
    is_nil = np.array([not ids for ids in right], dtype=bool)
    return Judged(scored.raw[firsts], np.array(is_right, dtype=bool), scored.raw_nil, is_nil)
