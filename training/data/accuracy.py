"""Accuracy of linking: what is a hit, at which ranks, and the figures of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spacy_sapbert.index import exact_search

from .mentions import EQUAL_IDS
from .task import ANSWER, CONCEPT, ROW, LinkingTask

# Concepts with many similar names can fill the first rows.
SEARCHED_ROWS = 200
# Equal vectors have products that differ in the last digits.
TIE = 1e-6
SMALLEST_LENGTH = 1e-12
ACCURACY = "acc"
ROW_ACCURACY = "row_acc"
ANY_TIED = "acc_any_tied"
ANSWERED = "answered"
ANSWER_METRICS = ("precision", "recall", "f1")


class Figure(NamedTuple):
    """One figure of a system on a task."""

    metric: str  # Such as acc, row_acc, f1, spearman, never with the rank in its name.
    rank: int | None
    value: float  # Shares are from 0 to 1; NaN for a figure that is not defined.
    n: int  # The mentions, pairs or triples that it counts.


# Finds k names of a dictionary at most for each query. Given names, queries and k, it returns the rows of names, shape
# (queries, k), int64, best first, equal ones by row, padded with -1; and their scores, float32, padded with -inf.
Search = Callable[[Sequence[str], Sequence[str], int], tuple[np.ndarray, np.ndarray]]


class NearestNames(NamedTuple):
    """The names found for the queries of a task."""

    rows: np.ndarray  # Shape (queries, k), int64, best first, padded with -1.
    scores: np.ndarray  # Float32, padded with -inf.


class Hits(NamedTuple):
    """Which mentions are right, by what is counted: metric and rank."""

    labels: list[tuple[str, int | None]]
    is_hit: np.ndarray  # Shape (mentions, labels), bool.
    folds: np.ndarray  # Shape (mentions,).

    def means(self) -> dict[tuple[str, int | None], float]:
        """Average over mentions, and over folds where there are several."""
        of_folds = [self.is_hit[self.folds == fold].mean(axis=0) for fold in np.unique(self.folds)]
        means = np.mean(of_folds, axis=0)
        return dict(zip(self.labels, means.tolist(), strict=True))


def find(search: Search, task: LinkingTask) -> NearestNames:
    """Search the distinct queries of a task: at most `SEARCHED_ROWS` names of each. An empty query finds nothing:
    it could only be right by chance."""
    k = min(SEARCHED_ROWS, len(task.names))
    queries = [query for query in dict.fromkeys(task.queries) if query.strip()]
    place = {query: number for number, query in enumerate(queries)}
    rows = np.full((len(queries) + 1, k), -1, dtype=np.int64)
    scores = np.full((len(queries) + 1, k), -np.inf, dtype=np.float32)
    if queries:
        rows[:-1], scores[:-1] = search(task.names, queries, k)
    order = [place.get(query, len(queries)) for query in task.queries]
    return NearestNames(rows[order], scores[order])


def judge(task: LinkingTask, found: NearestNames) -> Hits:
    """Decide which mentions are right: `acc` and `row_acc` at the ranks of the task, `acc_any_tied`, and for a task
    about answers `answered`. A mention of several parts is right if all of them are."""
    labels: list[tuple[str, int | None]] = [(ACCURACY, rank) for rank in task.ranks]
    labels += [(ROW_ACCURACY, rank) for rank in task.ranks]
    labels.append((ANY_TIED, 1))
    if task.level == ANSWER:
        labels.append((ANSWERED, None))
    hits = np.zeros((len(task.queries), len(labels)), dtype=bool)
    for number, gold in enumerate(task.gold):
        ids = [task.ids[row] for row in found.rows[number] if row >= 0]
        best = found.scores[number, :1]
        scores = found.scores[number, : len(ids)]
        lowest = best - TIE * np.maximum(1.0, np.abs(best))
        is_any_tied = any(_is_right(ids[place], gold) for place in np.flatnonzero(scores >= lowest))
        of_query = [*find_hits(ids, gold, task.ranks), is_any_tied, bool(ids)]
        hits[number] = of_query[: len(labels)]
    mentions = task.group_queries()
    is_hit = np.array([hits[queries].all(axis=0) for queries in mentions])
    folds = [task.folds[queries[0]] if task.folds else 0 for queries in mentions]
    return Hits(labels, is_hit, np.array(folds))


def summarise(task: LinkingTask, hits: Hits) -> list[Figure]:
    """Average hits: at each rank of the task `acc`, the share of mentions with a right concept among the first distinct
    concepts, names of equal score in the order of the dictionary, averaged over folds; `row_acc`, the same among the
    first names, as it is published for SapBERT and BioSyn; `acc_any_tied`, what `acc` would be at best if names of
    equal score were in another order; and of a task about answers precision, recall and F1."""
    means = hits.means()
    n = len(hits.is_hit)
    figures = [Figure(metric, rank, value, n) for (metric, rank), value in means.items()]
    if task.level != ANSWER:
        return figures
    # The first name of each mention is its one answer. A mention without a name found is not answered.
    recall = means[ACCURACY, 1]
    answered = means[ANSWERED, None]
    precision = recall / answered if answered else 0.0
    f1 = 2 * precision * recall / (precision + recall) if recall else 0.0
    for metric, value in zip(ANSWER_METRICS, (precision, recall, f1), strict=True):
        figures.append(Figure(metric, None, value, n))
    return figures


def find_hits(ids: list[str], gold: list[str], ranks: Sequence[int]) -> list[bool]:
    """Decide for each rank k whether a right concept is among the first k distinct concepts; then the same for names.
    `ids` are the concepts of the names found, best first; equal ids are joined with "|"."""
    is_right = {joined: _is_right(joined, gold) for joined in dict.fromkeys(ids[:SEARCHED_ROWS])}
    of_concepts = list(is_right.values())
    of_names = [is_right[joined] for joined in ids[: max(ranks, default=0)]]
    return [any(of_concepts[:rank]) for rank in ranks] + [any(of_names[:rank]) for rank in ranks]


def _is_right(joined: str, gold: list[str]) -> bool:
    return not set(gold).isdisjoint(joined.split(EQUAL_IDS))


def evaluate_names(
    encode: Callable[[list[str]], np.ndarray],
    task: LinkingTask,
    *,
    search: Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]] = exact_search,
) -> dict[str, Any]:
    """Measure the accuracy of an encoder by cosines, as training runs report it: `acc_at_1` and so on, and the numbers
    of `mentions`, `queries` and `names`. `encode` gives vectors of any length, and is called once; `search` finds the
    rows with the highest inner products.
    """

    def compare(names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        strings = list(dict.fromkeys([*names, *queries]))
        row_of = {string: row for row, string in enumerate(strings)}
        vectors = encode(strings)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.maximum(lengths, SMALLEST_LENGTH)
        of_names = vectors[[row_of[name] for name in names]]
        of_queries = vectors[[row_of[query] for query in queries]]
        return search(of_names, of_queries, k)

    hits = judge(task, find(compare, task))
    return list_named(task, summarise(task, hits))


def list_named(task: LinkingTask, figures: Sequence[Figure]) -> dict[str, Any]:
    """List figures by names that have the rank in them, with the counts and the level of their task."""
    named: dict[str, Any] = {name_figure(figure.metric, figure.rank): figure.value for figure in figures}
    named |= {"mentions": task.n_mentions, "queries": len(task.queries), "names": len(task.names)}
    if task.level != CONCEPT:
        named["level"] = task.level
    return named


def name_figure(metric: str, rank: int | None) -> str:
    """Write metric and rank as one name: acc_at_1, row_acc_at_5, acc_at_1_any_tied, f1."""
    return metric if rank is None else metric.replace(ACCURACY, f"{ACCURACY}_at_{rank}", 1)


def label_figure(metric: str, rank: int | None = None) -> str:
    """Write metric and rank for readers: acc@1, row acc@5, F1."""
    label = metric.replace("row_acc", "row acc").replace("f1", "F1")
    return label if rank is None else f"{label}@{rank}"


def list_headlines(level: str, ranks: Sequence[int]) -> list[tuple[str, int | None]]:
    """List what tables show of a linking task: metrics and ranks."""
    if level == ANSWER:
        return [(metric, None) for metric in ANSWER_METRICS]
    return [(ROW_ACCURACY if level == ROW else ACCURACY, rank) for rank in ranks]


def take_headlines(named: Mapping[str, Any]) -> dict[str, float]:
    """Take what tables and cards show out of the figures of a run: shares by "acc@1", "row acc@1" or "F1"."""
    level = named.get("level", CONCEPT)
    stem = name_figure(ROW_ACCURACY if level == ROW else ACCURACY, 0)[:-1]
    ends = [name.removeprefix(stem) for name in named]
    headlines = list_headlines(level, [int(end) for end in ends if end.isdecimal()])
    return {label_figure(*headline): named[name_figure(*headline)] for headline in headlines}
