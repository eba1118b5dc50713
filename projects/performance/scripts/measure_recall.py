"""Compare the indexes at several sizes: build, speed on mentions, size, loading, nearest names missed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
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

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.index import ExactIndex, ScannIndex, UsearchIndex, exact_search, read_index
from spacy_sapbert.index.recall import TOLERANCE, RecallTest
from spacy_sapbert.retrieval.altered_names import ALTERATIONS, alter_names, encode_altered_names
from spacy_sapbert.retrieval.token_rows import encode_groups, group_by_tokens
from spacy_sapbert.retrieval.vector_store import VectorStore
from spacy_sapbert.terminology import Terminology
from training.data.run_folder import write_json

K = 10
TURNS = 5
# Not the seed of the names that indexes are tuned with.
SEED = 1
KINDS = {"exact": ExactIndex, "scann": ScannIndex, "usearch": UsearchIndex}


def read_vectors(names: pl.Series, encoder: EncoderShim, store: VectorStore, *, stored: bool) -> np.ndarray:
    """Encode names, or take the vectors that are stored.

    names (pl.Series): The names.
    encoder (EncoderShim): The encoder.
    store (VectorStore): Its vectors.
    stored (bool): Leave out names that are not stored.
    RETURNS (ndarray): The vectors of distinct names, in random order.
    """
    groups = group_by_tokens(names, encoder)
    if stored:
        is_stored = store.read(groups.keys, np.empty((len(groups.tokens), encoder.width), dtype=np.float32))
        groups = groups.take(np.flatnonzero(is_stored))
    vectors = encode_groups(groups, encoder, batch_size=256, store=store)
    return vectors[np.random.default_rng(SEED).permutation(len(vectors))]


def count_missed(index: ExactIndex, vectors: np.ndarray, queries: np.ndarray) -> float:
    """Count the queries whose nearest name an index misses.

    index (ExactIndex): The index.
    vectors (ndarray): Its vectors.
    queries (ndarray): Shape (n, width).
    RETURNS (float): Their share.
    """
    expected = exact_search(vectors, queries, 1)[1]
    return float((index.search(queries, K)[1][:, 0] < expected[:, 0] - TOLERANCE).mean())


def measure_index(index: ExactIndex, vectors: np.ndarray, queries: dict[str, np.ndarray]) -> dict[str, Any]:
    """Measure what does not depend on the other indexes.

    index (ExactIndex): A built index.
    vectors (ndarray): Its vectors.
    queries (dict[str, ndarray]): Queries by kind.
    RETURNS (dict[str, Any]): Configuration, recorded recall, bytes on disk, seconds to load, shares missed by kind.
    """
    with tempfile.TemporaryDirectory() as folder:
        index.to_disk(folder)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        begin = time.perf_counter()
        read_index(folder)
        loading = time.perf_counter() - begin
    missed = {kind: count_missed(index, vectors, vectors_of_kind) for kind, vectors_of_kind in queries.items()}
    missed["left_out"] = 1 - RecallTest(vectors).measure(index)["at_1"]
    return {
        "configuration": index.configuration,
        "recorded": index.recall,
        "bytes": size,
        "load_seconds": loading,
        "missed": missed,
    }


def compare(vectors: np.ndarray, queries: dict[str, np.ndarray], make_altered: Callable[[], np.ndarray]) -> dict:
    """Build all indexes of the same vectors, and search them in turns.

    vectors (ndarray): The vectors.
    queries (dict[str, ndarray]): Queries by kind; those of the kind "mentions" are timed.
    make_altered (Callable[[], ndarray]): Encodes the altered names that indexes are tuned with.
    RETURNS (dict[str, Any]): The measurements of each index.
    """
    altered = make_altered()
    indexes, results = {}, {}
    for name, cls in KINDS.items():
        index = cls()
        begin = time.perf_counter()
        index.build(vectors, make_altered=lambda: altered)
        built = time.perf_counter() - begin
        indexes[name] = index
        results[name] = {"build_seconds": built, **measure_index(index, vectors, queries)}
    mentions = queries["mentions"]
    seconds: dict[str, list[float]] = {name: [] for name in indexes}
    ways = {name: partial(index.search, mentions, K) for name, index in indexes.items()}
    for turn in tqdm(range(TURNS), desc="Searching in turns", unit="turn"):
        for name, (elapsed, _) in take_turns(ways, turn).items():
            seconds[name].append(elapsed)
    for name, result in results.items():
        result["queries_per_second"] = len(mentions) / median(seconds[name])
        result["times_exact"] = median_ratio(seconds["exact"], seconds[name])
    return results


def write_table(measured: list[dict[str, Any]]) -> str:
    """Write the measurements as a Markdown table.

    measured (list[dict]): The measurements of each size.
    RETURNS (str): The table.
    """
    kinds = ["mentions", *ALTERATIONS, "left_out"]
    head = ["rows", "index", "build (s)", "mentions/s", "times exact", "MB", "load (s)"]
    lines = [head + [f"missed: {kind} (%)" for kind in kinds], ["---:"] * (len(head) + len(kinds))]
    for size in measured:
        for name, found in size["indexes"].items():
            figures = [f"{found['build_seconds']:.1f}", f"{found['queries_per_second']:,.0f}"]
            figures += [f"{found['times_exact']:.1f}", f"{found['bytes'] / 1e6:.0f}", f"{found['load_seconds']:.2f}"]
            figures += [f"{100 * found['missed'][kind]:.2f}" for kind in kinds]
            lines.append([f"{size['rows']:,}", name, *figures])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(run: Path, sizes: str = "0", vectors: Path = Path("output/vectors"), stored: bool = False) -> None:
    """Compare exact search, ScaNN and usearch at several sizes.

    run (Path): The folder of the run.
    sizes (str): Rows, drawn at random, with commas between them; 0 for all.
    vectors (Path): A folder that keeps the names' vectors.
    stored (bool): Use only the names whose vectors are in the folder.
    """
    settings = start(run)
    encoder = load_encoder(settings.encoder, "fp32")
    names = Terminology.from_disk(run / "terminology").names["name"]
    rows = read_vectors(names, encoder, VectorStore(vectors, encoder), stored=stored)
    texts = {kind: alter_names(names, kinds=[kind], seed=SEED) for kind in ALTERATIONS}
    texts["mentions"] = list(dict.fromkeys(srsly.read_json(run / "mentions.json")))
    queries = {kind: encoder.encode(strings) for kind, strings in texts.items()}
    make_altered = partial(encode_altered_names, names, encoder)
    measured = []
    for size in map(int, sizes.split(",")):
        part = rows[: size or None]
        measured.append({"rows": len(part), "indexes": compare(part, queries, make_altered)})
        write_json(run / "recall.json", {"sizes": measured})
        (run.parent / "recall.md").write_text(write_table(measured), "utf8")
    print(write_table(measured))


if __name__ == "__main__":
    typer.run(main)
