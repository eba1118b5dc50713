"""Accuracy of entity linking at several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...data.corpus_files import EQUAL_IDS
from ...data.headlines import ANSWER, ANSWER_FIGURES, CONCEPT, LEVEL, ROW, name_metric
from ...data.task import LinkingTask
from .searcher import Searcher

# Concepts with many similar names can fill the first rows.
SEARCHED_ROWS = 200
# Equal vectors have products that differ in the last digits.
TIE = 1e-6
ANY_TIED = "acc_at_1_any_tied"
ANSWERED = "answered"


class NearestNames(NamedTuple):
    """The names that a system has found for the queries of a task.

    rows (ndarray): Rows of names, shape (queries, k), int64, best first, padded with -1.
    scores (ndarray): Their scores, float32, padded with -inf.
    """

    rows: np.ndarray
    scores: np.ndarray

    def ids(self, task: LinkingTask, query: int) -> list[str]:
        """Get the concepts of the names found.

        task (LinkingTask): The task.
        query (int): The number of the query.
        RETURNS (list[str]): The concept of each name, best first; equal ids joined with "|".
        """
        return [task.ids[row] for row in self.rows[query] if row >= 0]


class Hits(NamedTuple):
    """Which mentions are right.

    labels (list[str]): The figures that are counted: `acc_at_1` and so on, and `answered` if answers are.
    is_hit (ndarray): Shape (mentions, labels), bool.
    folds (ndarray): The fold of each mention.
    """

    labels: list[str]
    is_hit: np.ndarray
    folds: np.ndarray

    def means(self) -> dict[str, float]:
        """Average over mentions, and over folds where there are several.

        RETURNS (dict[str, float]): Shares by label.
        """
        means = np.mean([self.is_hit[self.folds == fold].mean(axis=0) for fold in np.unique(self.folds)], axis=0)
        return {label: float(mean) for label, mean in zip(self.labels, means, strict=True)}


def summarise(task: LinkingTask, hits: Hits) -> dict[str, Any]:
    """Average hits, and count mentions, queries and names.

    task (LinkingTask): The task.
    hits (Hits): The hits of its mentions.
    RETURNS (dict[str, Any]): For each rank of the task, `acc_at_1` and so on: shares of mentions with a right concept
        among the first distinct concepts, names of equal score in the order of the dictionary, averaged over folds;
        `row_acc_at_1` and so on: the same among the first names, as it is published for SapBERT and BioSyn;
        `acc_at_1_any_tied`: what `acc_at_1` would be at best if names of equal score were in another order; and
        `mentions`, `queries` and `names`. A task that is not about concepts has its `level`, and one about answers
        precision, recall and F1.
    """
    counts = {"mentions": len(hits.is_hit), "queries": len(task.queries), "names": len(task.names)}
    figures: dict[str, Any] = {**hits.means(), **counts}
    if task.level == ANSWER:
        figures |= _score_answers(figures)
    # Tasks about concepts keep the figures of earlier versions.
    return figures if task.level == CONCEPT else {**figures, LEVEL: task.level}


def _score_answers(means: dict[str, Any]) -> dict[str, float]:
    """Score the first name of each mention as its one answer. A mention without a name found is not answered."""
    recall, answered = means[name_metric(1)], means[ANSWERED]
    precision = recall / answered if answered else 0.0
    f1 = 2 * precision * recall / (precision + recall) if recall else 0.0
    return dict(zip(ANSWER_FIGURES, (precision, recall, f1), strict=True))


def find(system: Searcher, task: LinkingTask) -> NearestNames:
    """Search the distinct queries of a task.

    system (Searcher): The system.
    task (LinkingTask): The task.
    RETURNS (NearestNames): At most `SEARCHED_ROWS` names of each query, and none for an empty query, which could only
        be right by chance.
    """
    k = min(SEARCHED_ROWS, len(task.names))
    queries = [query for query in dict.fromkeys(task.queries) if query.strip()]
    place = {query: number for number, query in enumerate(queries)}
    found = np.full((len(queries) + 1, k), -1, dtype=np.int64), np.full((len(queries) + 1, k), -np.inf, np.float32)
    if queries:
        found[0][:-1], found[1][:-1] = system.search(task.names, queries, k)
    order = [place.get(query, len(queries)) for query in task.queries]
    return NearestNames(found[0][order], found[1][order])


def judge(task: LinkingTask, found: NearestNames) -> Hits:
    """Decide which mentions are right.

    task (LinkingTask): The task.
    found (NearestNames): The names found for its queries.
    RETURNS (Hits): For each mention and rank of the task; a mention of several parts is right if all of them are.
    """
    labels = [name_metric(rank, level) for level in (CONCEPT, ROW) for rank in task.ranks] + [ANY_TIED]
    labels += [ANSWERED] * (task.level == ANSWER)
    hits = np.zeros((len(task.queries), len(labels)), dtype=bool)
    for number, gold in enumerate(task.gold):
        ids = found.ids(task, number)
        n_tied = _count_tied(found.scores[number, : len(ids)])
        is_hit = [*find_hits(ids, gold, task.ranks), any(_is_right(joined, gold) for joined in ids[:n_tied])]
        hits[number] = [*is_hit, bool(ids)] if task.level == ANSWER else is_hit
    return Hits(labels, *_join_parts(task, hits))


def _count_tied(scores: np.ndarray) -> int:
    """Count the scores that are equal to the best, but for rounding."""
    return int((scores >= scores[0] - TIE * max(1.0, abs(scores[0]))).sum()) if len(scores) else 0


def _join_parts(task: LinkingTask, hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join the queries of each mention, which is right if all are, and find its fold."""
    folds = np.array(task.folds or [0] * len(task.queries))
    if not task.mention_of:
        return hits, folds
    _, first, mention_of = np.unique(task.mention_of, return_index=True, return_inverse=True)
    joined = np.ones((len(first), hits.shape[1]), dtype=bool)
    np.logical_and.at(joined, mention_of, hits)
    return joined, folds[first]


def _is_right(joined: str, gold: list[str]) -> bool:
    return not set(gold).isdisjoint(joined.split(EQUAL_IDS))


def find_hits(ids: list[str], gold: list[str], ranks: Sequence[int]) -> list[bool]:
    """Decide at which ranks a right concept has been found.

    ids (list[str]): The concept of each name found, best first; equal ids joined with "|".
    gold (list[str]): The right ids.
    ranks (Sequence[int]): The ranks.
    RETURNS (list[bool]): For each of the ranks, whether it is among so many distinct concepts; then the same for names.
    """
    is_right = {joined: _is_right(joined, gold) for joined in dict.fromkeys(ids[:SEARCHED_ROWS])}
    distinct = list(is_right.values())
    return [any(distinct[:rank]) for rank in ranks] + [any(is_right[joined] for joined in ids[:rank]) for rank in ranks]
