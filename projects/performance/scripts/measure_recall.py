"""Compare exact search, ScaNN and usearch at several sizes: build, size, loading, speed, nearest names missed."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import srsly
import typer
from measure_encoder import load_encoder
from run import start
from tqdm import tqdm
from turns import median_ratio, take_turns

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.index import Index, ScannIndex, UsearchIndex, exact_search, read_index
from spacy_sapbert.index.approximate import TOLERANCE, RecallTest
from spacy_sapbert.retrieval.encoding import ALTERATIONS, VectorStore, alter_names, encode_groups, group_by_tokens
from spacy_sapbert.terminology import Terminology
from training.data.run_folder import write_json

K = 10
TURNS = 5
# Queries of each kind; at a share of 0.005, the standard error is 0.0022.
SAMPLE = 1000
# Not the seeds of the queries that indexes are tuned with (0) and that the steps of effort were chosen with (1).
SEED = 2
CLASSES = {cls.kind: cls for cls in (Index, ScannIndex, UsearchIndex)}


class Queries:
    """Queries of all kinds with their exact neighbours.

    vectors (ndarray): The vectors of the indexes.
    encoded (dict[str, ndarray]): Encoded queries by kind, without those that are rows left out.
    """

    def __init__(self, vectors: np.ndarray, encoded: dict[str, np.ndarray]) -> None:
        self.encoded = encoded
        self.best = {kind: exact_search(vectors, queries, 1)[1][:, 0] for kind, queries in encoded.items()}
        self.left_out = RecallTest(vectors, sample=SAMPLE, seed=SEED)

    def measure_missed(self, index: Index) -> dict[str, float]:
        """Measure for how many queries an index misses the nearest row.

        index (Index): The index.
        RETURNS (dict[str, float]): Shares by kind.
        """
        missed = {"left_out": 1 - self.left_out.measure(index)["at_1"]}
        for kind, queries in self.encoded.items():
            missed[kind] = float((index.search(queries, K)[1][:, 0] < self.best[kind] - TOLERANCE).mean())
        return missed


def measure_folder(index: Index) -> dict[str, float]:
    """Save and load an index.

    index (Index): The index.
    RETURNS (dict[str, float]): Bytes on disk and seconds to load.
    """
    with tempfile.TemporaryDirectory() as folder:
        index.to_disk(folder)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        begin = time.perf_counter()
        read_index(folder)
        return {"bytes": size, "load_seconds": time.perf_counter() - begin}


def compare(
    kinds: list[str], vectors: np.ndarray, encoded: dict[str, np.ndarray], altered: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Build indexes of the same vectors, and search them in turns.

    kinds (list[str]): Kinds of the indexes; "exact" is among them.
    vectors (ndarray): The vectors.
    encoded (dict[str, ndarray]): Encoded queries by kind; those of the kind "mentions" are timed.
    altered (ndarray): Encoded altered names to tune the indexes with.
    RETURNS (dict[str, dict]): The measurements of each index, by its kind.
    """
    queries = Queries(vectors, encoded)
    indexes: dict[str, Index] = {}
    results: dict[str, dict[str, Any]] = {}
    for kind in tqdm(kinds, desc=f"Indexes of {len(vectors):,} rows", unit="index"):
        index = indexes[kind] = CLASSES[kind]()
        begin = time.perf_counter()
        index.build(vectors, make_altered=lambda: altered)
        results[kind] = {
            "build_seconds": time.perf_counter() - begin,
            "configuration": index.configuration,
            "own_recall": index.recall,
            **measure_folder(index),
            "missed": queries.measure_missed(index),
        }
    seconds: dict[str, list[float]] = {kind: [] for kind in indexes}
    ways = {kind: partial(index.search, encoded["mentions"], K) for kind, index in indexes.items()}
    for turn in tqdm(range(TURNS), desc="Searching in turns", unit="turn"):
        for kind, (elapsed, _) in take_turns(ways, turn).items():
            seconds[kind].append(elapsed)
    for kind, result in results.items():
        result["queries_per_second"] = len(encoded["mentions"]) / median(seconds[kind])
        result["times_exact"] = median_ratio(seconds["exact"], seconds[kind])
    return results


def main(
    run: Path, sizes: str = "0", kinds: str = "exact,scann,usearch", vectors: Path = Path("output/vectors")
) -> None:
    """Compare exact search, ScaNN and usearch at several sizes.

    run (Path): The folder of the run.
    sizes (str): Rows, drawn at random, with commas between them; 0 for all.
    kinds (str): Kinds of indexes, with commas between them; "exact" has to be among them.
    vectors (Path): A folder that keeps the vectors of names and queries.
    """
    settings = start(run)
    encoder = load_encoder(settings.encoder, "fp32")
    names = Terminology.from_disk(run / "terminology").names["name"]
    rows = encode_distinct(names, encoder, VectorStore(vectors, encoder))
    rows = rows[np.random.default_rng(settings.seed).permutation(len(rows))]
    # Apart from the names' vectors, because a store reads all its files at each call.
    store = VectorStore(vectors / "queries", encoder)
    texts = {kind: alter_names(names, SAMPLE, kinds=[kind], seed=SEED) for kind in ALTERATIONS}
    texts["mentions"] = srsly.read_json(run / "mentions.json")
    encoded = {kind: encode_distinct(strings, encoder, store) for kind, strings in texts.items()}
    altered = encode_distinct(alter_names(names), encoder, store)
    measured = []
    for size in map(int, sizes.split(",")):
        part = rows[: size or None]
        measured.append({"rows": len(part), "kinds": compare(kinds.split(","), part, encoded, altered)})
    queries = {kind: len(encoded[kind]) for kind in encoded}
    write_json(run / "recall.json", {"queries": queries, "sizes": measured})


def encode_distinct(texts: list[str] | pl.Series, encoder: EncoderShim, store: VectorStore) -> np.ndarray:
    """Encode texts; those with the same tokens once.

    texts (list[str] | Series): The texts.
    encoder (EncoderShim): The encoder.
    store (VectorStore): Its vectors.
    RETURNS (ndarray): Shape (distinct texts, width).
    """
    groups = group_by_tokens(pl.Series(texts, dtype=pl.String), encoder)
    return encode_groups(groups, encoder, batch_size=256, store=store)


if __name__ == "__main__":
    typer.run(main)
