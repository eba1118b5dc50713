"""How often the right concept is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spacy_sapbert.encoder import EncoderShim

from ...data.corpus_files import EQUAL_IDS
from ...data.task import LinkingTask
from ..systems import EncoderSystem, Similarity, System

# To be raised whenever the same system may get other figures on the same task: kept ones are then measured again.
MEASUREMENT = 1
RANKS = (1, 5)
# Concepts with many similar names can fill the first rows.
SEARCHED_ROWS = 200
# Equal vectors give products that differ in the last digits.
TIE = 1e-6
ANY_TIED = "acc_at_1_any_tied"


class Found(NamedTuple):
    """What a system has found for the queries of a task.

    rows (ndarray): Rows of names, shape (queries, k), int64, best first, padded with -1.
    scores (ndarray): Their scores, float32, padded with -inf.
    """

    rows: np.ndarray
    scores: np.ndarray

    def ids(self, task: LinkingTask, query: int) -> list[str]:
        """Get the concepts of the names found.

        task (LinkingTask): The task.
        query (int): The number of the query.
        RETURNS (List[str]): The concept of each name, best first; equal ids joined with "|".
        """
        return [task.ids[row] for row in self.rows[query] if row >= 0]


class Hits(NamedTuple):
    """Where mentions have been linked right.

    labels (List[str]): What is counted: `acc_at_1` and so on.
    is_hit (ndarray): Shape (mentions, labels), bool.
    folds (ndarray): The fold of each mention.
    """

    labels: list[str]
    is_hit: np.ndarray
    folds: np.ndarray

    def means(self) -> dict[str, float]:
        """Average over mentions, and over folds where there are several.

        RETURNS (Dict[str, float]): Shares by label.
        """
        means = np.mean([self.is_hit[self.folds == fold].mean(axis=0) for fold in np.unique(self.folds)], axis=0)
        return {label: float(mean) for label, mean in zip(self.labels, means, strict=True)}


def measure_accuracy(
    encoder: EncoderShim,
    tasks: Mapping[str, LinkingTask],
    *,
    batch_size: int = 256,
    similarity: Similarity = "cosine",
) -> dict[str, dict[str, Any]]:
    """Measure how often an encoder finds the right concept. Strings that tasks share are encoded once.

    encoder (EncoderShim): The encoder.
    tasks (Mapping[str, LinkingTask]): Tasks by name.
    batch_size (int): Names in one forward pass.
    similarity (str): "cosine", or "dot" for the inner product of vectors that are not normalised.
    RETURNS (dict): For each task what `measure_system` gives.
    """
    system = EncoderSystem(encoder, similarity=similarity, batch_size=batch_size)
    system.embeddings.add(string for task in tasks.values() for part in (task.names, task.queries) for string in part)
    return measure_system(system, tasks)


def measure_system(system: System, tasks: Mapping[str, LinkingTask]) -> dict[str, dict[str, Any]]:
    """Measure how often the right concept is found.

    system (System): What finds names.
    tasks (Mapping[str, LinkingTask]): Tasks by name.
    RETURNS (dict): For each task `acc_at_1`, `acc_at_5`: shares of mentions with a right concept among the first
        distinct concepts, names of equal score in the order of the dictionary, averaged over folds; `row_acc_at_5`: the
        same among the first names, as it is published for SapBERT and BioSyn; `acc_at_1_any_tied`: what `acc_at_1`
        would be at best if names as good as the first were put in another order; and counts.
    """
    return {name: summarise(task, judge(task, find(system, task))) for name, task in tasks.items()}


def summarise(task: LinkingTask, hits: Hits) -> dict[str, Any]:
    """Average hits, and count what they are of.

    task (LinkingTask): The task.
    hits (Hits): Where its mentions have been linked right.
    RETURNS (dict): Shares by label, `mentions`, `queries` and `names`.
    """
    counts = {"mentions": len(hits.is_hit), "queries": len(task.queries), "names": len(task.names)}
    return {**hits.means(), **counts}


def find(system: System, task: LinkingTask) -> Found:
    """Look the queries of a task up; equal ones once.

    system (System): What finds names.
    task (LinkingTask): The task.
    RETURNS (Found): At most `SEARCHED_ROWS` names of each query. Of one without text none: what a system finds for it
        would be right by chance only.
    """
    k = min(SEARCHED_ROWS, len(task.names))
    queries = [query for query in dict.fromkeys(task.queries) if query.strip()]
    place = {query: number for number, query in enumerate(queries)}
    found = np.full((len(queries) + 1, k), -1, dtype=np.int64), np.full((len(queries) + 1, k), -np.inf, np.float32)
    if queries:
        found[0][:-1], found[1][:-1] = system.search(task.names, queries, k)
    order = [place.get(query, len(queries)) for query in task.queries]
    return Found(found[0][order], found[1][order])


def judge(task: LinkingTask, found: Found, ranks: Sequence[int] = RANKS) -> Hits:
    """Tell which mentions have been linked right.

    task (LinkingTask): The task.
    found (Found): What was found for its queries.
    ranks (Sequence[int]): How many concepts, and how many names, count as found.
    RETURNS (Hits): For each mention and rank; a mention of several parts is right if all of them are.
    """
    labels = [f"{prefix}acc_at_{rank}" for prefix in ("", "row_") for rank in ranks] + [ANY_TIED]
    hits = np.zeros((len(task.queries), len(labels)), dtype=bool)
    for number, gold in enumerate(task.gold):
        ids = found.ids(task, number)
        n_tied = _count_tied(found.scores[number, : len(ids)])
        hits[number] = [*find_hits(ids, gold, ranks), any(_is_right(joined, gold) for joined in ids[:n_tied])]
    return Hits(labels, *_join_parts(task, hits))


def _count_tied(scores: np.ndarray) -> int:
    """Count the scores that are equal to the best, but for rounding."""
    return int((scores >= scores[0] - TIE * max(1.0, abs(scores[0]))).sum()) if len(scores) else 0


def _join_parts(task: LinkingTask, hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join the queries of each mention, which is right if all are, and tell its fold."""
    folds = np.array(task.folds or [0] * len(task.queries))
    if not task.mention_of:
        return hits, folds
    _, first, mention_of = np.unique(task.mention_of, return_index=True, return_inverse=True)
    joined = np.ones((len(first), hits.shape[1]), dtype=bool)
    np.logical_and.at(joined, mention_of, hits)
    return joined, folds[first]


def _is_right(joined: str, gold: list[str]) -> bool:
    return not set(gold).isdisjoint(joined.split(EQUAL_IDS))


def find_hits(ids: list[str], gold: list[str], ranks: Sequence[int] = RANKS) -> list[bool]:
    """Tell at which ranks a right concept has been found.

    ids (List[str]): The concept of each name found, best first; equal ids joined with "|".
    gold (List[str]): The right ids.
    ranks (Sequence[int]): The ranks.
    RETURNS (List[bool]): For each of the ranks, whether it is among so many distinct concepts; then the same for names.
    """
    is_right = {joined: _is_right(joined, gold) for joined in dict.fromkeys(ids[:SEARCHED_ROWS])}
    distinct = list(is_right.values())
    return [any(distinct[:rank]) for rank in ranks] + [any(is_right[joined] for joined in ids[:rank]) for rank in ranks]
