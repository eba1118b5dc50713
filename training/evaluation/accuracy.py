"""How often the right concept is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spacy_sapbert.encoder import EncoderShim

from ..corpus_files import EQUAL_IDS
from .systems import EncoderSystem, Similarity, System
from .task import LinkingTask

RANKS = (1, 5)
# Concepts with many similar names can fill the first rows.
SEARCHED_ROWS = 200
# Equal vectors give products that differ in the last digits.
TIE = 1e-6


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
    system.encode(string for task in tasks.values() for part in (task.names, task.queries) for string in part)
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
    return {name: _measure(task, system) for name, task in tasks.items()}


def _measure(task: LinkingTask, system: System) -> dict[str, Any]:
    queries = list(dict.fromkeys(task.queries))
    place = {query: number for number, query in enumerate(queries)}
    rows, scores = system.search(task.names, queries, min(SEARCHED_ROWS, len(task.names)))
    hits = np.zeros((len(task.queries), 2 * len(RANKS) + 1), dtype=bool)
    for number, (query, gold) in enumerate(zip(task.queries, task.gold, strict=True)):
        found = rows[place[query]]
        ids = [task.ids[row] for row in found[found >= 0]]
        n_tied = _count_tied(scores[place[query], : len(ids)])
        hits[number] = [*find_hits(ids, gold), any(_is_right(joined, gold) for joined in ids[:n_tied])]
    hits, folds = _join_parts(task, hits)
    means = np.mean([hits[folds == fold].mean(axis=0) for fold in np.unique(folds)], axis=0)
    labels = [f"{prefix}acc_at_{rank}" for prefix in ("", "row_") for rank in RANKS] + ["acc_at_1_any_tied"]
    return {
        **{label: float(mean) for label, mean in zip(labels, means, strict=True)},
        "mentions": len(hits),
        "queries": len(task.queries),
        "names": len(task.names),
    }


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


def find_hits(ids: list[str], gold: list[str]) -> list[bool]:
    """Tell at which ranks a right concept has been found.

    ids (List[str]): The concept of each name found, best first; equal ids joined with "|".
    gold (List[str]): The right ids.
    RETURNS (List[bool]): For each of `RANKS`, whether it is among so many distinct concepts; then the same for names.
    """
    is_right = {joined: _is_right(joined, gold) for joined in dict.fromkeys(ids[:SEARCHED_ROWS])}
    distinct = list(is_right.values())
    return [any(distinct[:rank]) for rank in RANKS] + [any(is_right[joined] for joined in ids[:rank]) for rank in RANKS]
