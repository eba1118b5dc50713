"""Stored rankings of a system, in the form that the common measure reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measuring import Ranking

from training.methods.biosyn.scorer import pad


class StoredRankings:
    """Looks up what a system has found before, with the interface of `training.evaluation.System`.

    ids (Sequence[str]): The concept of each name in the dictionary.
    rankings (dict[str, Ranking]): Ids and scores of each query.
    """

    def __init__(self, ids: Sequence[str], rankings: dict[str, Ranking]) -> None:
        # Which of a concept's names was found does not matter to the measure.
        self._row_of = {concept_id: row for row, concept_id in reversed(list(enumerate(ids)))}
        self._rankings = rankings

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find what has been found, in the order of the system. See `System.search`."""
        found = []
        for query in queries:
            ids, scores = self._rankings[query]
            rows = [self._row_of[concept_id] for concept_id in ids[:k]]
            found.append((np.array(rows, dtype=np.int64), np.array(scores[:k], dtype=np.float32)))
        return pad(found, k)


def read_rankings(path: Path) -> dict[str, Ranking]:
    """Read what `measuring.write_rankings` has written.

    path (Path): The file.
    RETURNS (dict[str, Ranking]): Ids and scores of each query.
    """
    with path.open(encoding="utf8") as file:
        records = [json.loads(line) for line in file]
    return {record["query"]: (record["ids"], record["scores"]) for record in records}


def share_of_equal_firsts(one: dict[str, Ranking], other: dict[str, Ranking]) -> float:
    """Tell how often two systems put the same concept first.

    one (dict[str, Ranking]): What the one has found.
    other (dict[str, Ranking]): What the other has found for the same queries.
    RETURNS (float): The share of queries.
    """
    return float(np.mean([one[query][0][:1] == other[query][0][:1] for query in one]))


def to_rankings(ids: Sequence[str], rows: np.ndarray, scores: np.ndarray) -> list[Ranking]:
    """Turn rows of the dictionary into rankings.

    ids (Sequence[str]): The concept of each name.
    rows (ndarray): Rows, shape (queries, k), best first, padded with -1.
    scores (ndarray): Their scores, same shape.
    RETURNS (list[Ranking]): The concept and the score of each row found.
    """
    return [
        ([ids[row] for row in of_query[of_query >= 0]], scores_of_query[of_query >= 0].tolist())
        for of_query, scores_of_query in zip(rows, scores, strict=True)
    ]
