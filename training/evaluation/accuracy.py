"""How often the right concept is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.index import exact_search

from ..corpus_files import EQUAL_IDS
from .task import LinkingTask

RANKS = (1, 5)
# Concepts with many similar names can fill the first rows.
SEARCHED_ROWS = 200


def measure_accuracy(
    encoder: EncoderShim, tasks: Mapping[str, LinkingTask], *, batch_size: int = 256
) -> dict[str, dict[str, Any]]:
    """Measure how often the right concept is found. Strings that tasks share are encoded once.

    encoder (EncoderShim): The encoder.
    tasks (Mapping[str, LinkingTask]): Tasks by name.
    batch_size (int): Names in one forward pass.
    RETURNS (dict): For each task `acc_at_1`, `acc_at_5`: shares of queries with a right concept among the first
        distinct concepts, names of equal score in the order of the dictionary, averaged over folds; `row_acc_at_5`: the
        same among the first names, as it is published for SapBERT and BioSyn; and counts.
    """
    strings = list(dict.fromkeys(s for task in tasks.values() for part in (task.names, task.queries) for s in part))
    vectors = encoder.encode(strings, batch_size=batch_size)
    rows = {string: row for row, string in enumerate(strings)}
    return {name: _measure(task, vectors, rows) for name, task in tasks.items()}


def _measure(task: LinkingTask, vectors: np.ndarray, rows: dict[str, int]) -> dict[str, Any]:
    queries = list(dict.fromkeys(task.queries))
    place = {query: number for number, query in enumerate(queries)}
    k = min(SEARCHED_ROWS, len(task.names))
    found, _ = exact_search(vectors[[rows[name] for name in task.names]], vectors[[rows[q] for q in queries]], k)
    hits = np.zeros((len(task.queries), 2 * len(RANKS)), dtype=bool)
    for number, (query, gold) in enumerate(zip(task.queries, task.gold, strict=True)):
        hits[number] = find_hits([task.ids[row] for row in found[place[query]]], gold)
    folds = np.array(task.folds or [0] * len(task.queries))
    means = np.mean([hits[folds == fold].mean(axis=0) for fold in np.unique(folds)], axis=0)
    labels = [f"{prefix}acc_at_{rank}" for prefix in ("", "row_") for rank in RANKS]
    return {
        **{label: float(mean) for label, mean in zip(labels, means, strict=True)},
        "queries": len(task.queries),
        "names": len(task.names),
    }


def find_hits(ids: list[str], gold: list[str]) -> list[bool]:
    """Tell at which ranks a right concept has been found.

    ids (List[str]): The concept of each name found, best first; equal ids joined with "|".
    gold (List[str]): The right ids.
    RETURNS (List[bool]): For each of `RANKS`, whether it is among so many distinct concepts; then the same for names.
    """
    is_right = {
        joined: not set(gold).isdisjoint(joined.split(EQUAL_IDS)) for joined in dict.fromkeys(ids[:SEARCHED_ROWS])
    }
    distinct = list(is_right.values())
    return [any(distinct[:rank]) for rank in RANKS] + [any(is_right[joined] for joined in ids[:rank]) for rank in RANKS]
