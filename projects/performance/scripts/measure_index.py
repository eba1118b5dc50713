"""Measure the default index against exact search, with mentions as queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import spacy
import srsly
import torch
import typer
from exact_search import largest_batch, search_all_rows
from run import start
from tqdm import tqdm
from turns import median_ratio, take_turns

from spacy_sapbert.index import ScannIndex
from spacy_sapbert.index.approximate import TOLERANCE
from training.data.run_folder import write_json

K = 10
BATCH_SIZE = 128
BUILDS = 3
TURNS = 7
# Seconds that one way should take in a turn: less is hard to time.
LONG_ENOUGH = 0.5


def build_indexes(vectors: np.ndarray) -> tuple[ScannIndex, list[float]]:
    """Build the same index several times.

    vectors (ndarray): The rows.
    RETURNS (tuple[ScannIndex, list[float]]): The last one, and the seconds that each took.
    """
    seconds = []
    for _ in tqdm(range(BUILDS), desc="Building indexes", unit="index"):
        index = ScannIndex()
        begin = time.perf_counter()
        index.build(vectors, fingerprint="performance")
        seconds.append(time.perf_counter() - begin)
    return index, seconds


def search_in_batches(index: ScannIndex, queries: np.ndarray, batch_size: int) -> np.ndarray:
    """Search the index.

    index (ScannIndex): The index.
    queries (ndarray): Shape (n, width).
    batch_size (int): Queries in a call.
    RETURNS (ndarray): The scores, shape (n, K).
    """
    starts = range(0, len(queries), batch_size)
    return np.concatenate([index.search(queries[start : start + batch_size], K)[1] for start in starts])


def repeat(search: Callable[[], np.ndarray]) -> tuple[int, Callable[[], None]]:
    """Repeat a search until it takes long enough to time.

    search (Callable): The search.
    RETURNS (tuple[int, Callable]): How often, and the repeated search.
    """
    begin = time.perf_counter()
    search()
    times = max(1, round(LONG_ENOUGH / (time.perf_counter() - begin)))

    def repeated() -> None:
        for _ in range(times):
            search()

    return times, repeated


def main(run: Path) -> None:
    """Measure build time, queries a second and recall.

    run (Path): The folder of the run.
    """
    start(run)
    linker = spacy.load(run / "pipeline").get_pipe("sapbert_linker")
    queries = linker.encoder.encode(list(dict.fromkeys(srsly.read_json(run / "mentions.json"))))
    vectors = np.array(linker.index.vectors)
    index, build_seconds = build_indexes(vectors)
    rows = torch.from_numpy(vectors)
    at_once = largest_batch(len(queries), len(vectors))
    searches = {
        "exact_batches": partial(search_all_rows, rows, queries, K, BATCH_SIZE),
        "exact_at_once": partial(search_all_rows, rows, queries, K, at_once),
        "index_batches": partial(search_in_batches, index, queries, BATCH_SIZE),
        "index_at_once": partial(search_in_batches, index, queries, len(queries)),
    }
    expected, found = searches["exact_at_once"](), searches["index_at_once"]()
    repeated = {name: repeat(search) for name, search in searches.items()}
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    for turn in tqdm(range(TURNS), desc="Searching in turns", unit="turn"):
        for name, (elapsed, _) in take_turns({name: again for name, (_, again) in repeated.items()}, turn).items():
            seconds[name].append(elapsed / repeated[name][0])
    faster = min(("exact_batches", "exact_at_once"), key=lambda name: median(seconds[name]))
    result = {
        "rows": len(vectors),
        "queries": len(queries),
        "queries_at_once": at_once,
        "configuration": index.configuration,
        "own_recall": index.recall,
        "build_seconds": median(build_seconds),
        # By score, so that another row at the same distance counts as found.
        "recall_at_1": float((found[:, 0] >= expected[:, 0] - TOLERANCE).mean()),
        "recall_at_10": float((found >= expected[:, -1:] - TOLERANCE).mean()),
        "queries_per_second": {name: len(queries) / median(elapsed) for name, elapsed in seconds.items()},
        "faster_exact": faster,
        "times_exact": {name: median_ratio(seconds[faster], seconds[name]) for name in searches if name != faster},
        "seconds": seconds,
    }
    write_json(run / "index.json", result)


if __name__ == "__main__":
    typer.run(main)
