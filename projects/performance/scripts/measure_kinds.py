"""Measure the kinds of indexes side by side: build, queries, recall, bytes on disk and loading."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import spacy
import srsly
import typer
from run import start
from tqdm import tqdm

from spacy_sapbert.index import ExactIndex, ScannIndex, UsearchIndex, read_index
from spacy_sapbert.index.recall import TOLERANCE
from training.data.run_folder import write_json

K = 10
TURNS = 5
KINDS = (ExactIndex, ScannIndex, UsearchIndex)


def measure_kind(
    kind: type[ExactIndex], vectors: np.ndarray, queries: np.ndarray, expected: np.ndarray
) -> dict[str, Any]:
    """Measure one kind of index.

    kind (type[ExactIndex]): The kind.
    vectors (ndarray): The rows.
    queries (ndarray): Vectors of mentions.
    expected (ndarray): The scores of exact search, shape (n, K).
    RETURNS (dict[str, Any]): The figures.
    """
    index = kind()
    begin = time.perf_counter()
    index.build(vectors, fingerprint="performance")
    built = time.perf_counter()
    with TemporaryDirectory() as folder:
        index.to_disk(folder)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        before = time.perf_counter()
        loaded = read_index(folder)
        load_seconds = time.perf_counter() - before
        loaded.search(queries, K)
        seconds = []
        for _ in range(TURNS):
            before = time.perf_counter()
            _, found = loaded.search(queries, K)
            seconds.append(time.perf_counter() - before)
    return {
        "configuration": index.configuration,
        "own_recall": index.recall,
        "build_seconds": built - begin,
        "queries_per_second": len(queries) / median(seconds),
        # By score, so that another row at the same distance counts as found.
        "recall_at_1": float((found[:, 0] >= expected[:, 0] - TOLERANCE).mean()),
        "recall_at_10": float((found >= expected[:, -1:] - TOLERANCE).mean()),
        "bytes": size,
        "load_seconds": load_seconds,
    }


def main(run: Path) -> None:
    """Measure all kinds on the names and mentions of a run.

    run (Path): The folder of the run.
    """
    start(run)
    linker = spacy.load(run / "pipeline").get_pipe("sapbert_linker")
    queries = linker.encoder.encode(list(dict.fromkeys(srsly.read_json(run / "mentions.json"))))
    vectors = np.array(linker.index.vectors)
    exact = ExactIndex()
    exact.build(vectors)
    expected = exact.search(queries, K)[1]
    kinds = {kind.kind: measure_kind(kind, vectors, queries, expected) for kind in tqdm(KINDS, desc="Kinds of indexes")}
    write_json(run / "kinds.json", {"rows": len(vectors), "queries": len(queries), "kinds": kinds})


if __name__ == "__main__":
    typer.run(main)
