"""Measure searches that are limited to some concepts or names, against unlimited and against exact ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import spacy
import srsly
import typer
from exact_search import largest_batch
from run import start
from tqdm import tqdm
from turns import median_ratio, take_turns

from spacy_sapbert.candidates import Candidate, Candidates, ConceptFilter
from spacy_sapbert.index.approximate import TOLERANCE
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.terminology import Terminology
from training.data.run_folder import write_json

K = 10
BATCH_SIZE = 128
TURNS = 5
MENTIONS = 2000
# With encoding, which takes most of the time and is the same with and without a filter.
FIND_MENTIONS = 100
# Shares of the concepts that filters by id allow.
SHARES = (0.5, 0.05, 0.005)


def make_filters(terminology: Terminology, seed: int) -> dict[str, dict[str, list[str]]]:
    """Make filters of several kinds: the most frequent value of each column with more than one, and random ids.

    terminology (Terminology): The terminology.
    seed (int): Seed of the choice of ids.
    RETURNS (dict[str, dict]): The filters, as keyword arguments of `SapbertLinker.find`, by a name for the table.
    """
    # A terminology of some of its names has concepts without any, which no search can find.
    concepts = terminology.concepts[terminology.names["concept"].unique().sort()]
    found: dict[str, dict[str, list[str]]] = {}
    columns = {
        "types": concepts["types"].explode(),
        "sources": terminology.names["source"].str.split("|").explode(),
        "languages": terminology.names["language"].str.split("|").explode(),
    }
    for key, values in columns.items():
        counted = values.drop_nulls().value_counts(sort=True)
        if counted.height > 1:
            value = counted.item(0, 0)
            found[f"{key}: {value}"] = {key: [value]}
    ids = concepts["id"]
    for share in SHARES:
        some = ids.sample(max(1, round(share * len(ids))), seed=seed)
        found[f"ids: {share:.1%} of concepts"] = {"ids": some.to_list()}
    return found


def search(retriever: Retriever, texts: list[str], vectors: np.ndarray, allowed: ConceptFilter | None) -> Candidates:
    """Search in batches, as the linker does.

    retriever (Retriever): The retriever.
    texts (list[str]): The mentions.
    vectors (ndarray): Their vectors.
    allowed (ConceptFilter | None): The filter; None for none.
    RETURNS (Candidates): What was found for each mention.
    """
    found = []
    for first in range(0, len(texts), BATCH_SIZE):
        batch = slice(first, first + BATCH_SIZE)
        found.append(retriever.search(texts[batch], vectors[batch], K, allowed))
    return Candidates.join(found)


def find_best_scores(retriever: Retriever, vectors: np.ndarray, allowed: ConceptFilter) -> np.ndarray:
    """Find the score of the nearest name that a filter allows, by comparing with all of them.

    retriever (Retriever): The retriever.
    vectors (ndarray): The vectors of mentions.
    allowed (ConceptFilter): The filter.
    RETURNS (ndarray): Shape (n,).
    """
    rows = np.array(retriever.index.vectors)[retriever.allow(allowed).rows]
    size = largest_batch(len(vectors), len(rows))
    starts = range(0, len(vectors), size)
    return np.concatenate([(vectors[first : first + size] @ rows.T).max(axis=1) for first in starts])


def find(linker: SapbertLinker, texts: list[str], arguments: dict[str, list[str]]) -> list[list[Candidate]]:
    """Find candidates of mentions that the cache does not know: the search and all that it takes beside it.

    linker (SapbertLinker): The linker.
    texts (list[str]): The mentions.
    arguments (dict): The filter, as keyword arguments.
    RETURNS (list[list[Candidate]]): The candidates of each mention.
    """
    # Putting the same retriever in place again empties the cache.
    linker.set_retriever(linker.retriever)
    return linker.find(texts, **arguments)


def measure_filter(
    linker: SapbertLinker, texts: list[str], vectors: np.ndarray, arguments: dict[str, list[str]]
) -> dict[str, Any]:
    """Measure one filter.

    linker (SapbertLinker): The linker.
    texts (list[str]): The mentions.
    vectors (ndarray): Their vectors.
    arguments (dict): The filter, as keyword arguments of `SapbertLinker.find`.
    RETURNS (dict): Its share of the rows, seconds to apply it, queries a second with it and without, recall.
    """
    retriever, allowed = linker.retriever, ConceptFilter(**arguments)
    begin = time.perf_counter()
    rows = retriever.allow(allowed).rows
    apply_seconds = time.perf_counter() - begin
    ways: dict[str, Callable[[], Any]] = {
        "filtered": partial(search, retriever, texts, vectors, allowed),
        "all": partial(search, retriever, texts, vectors, None),
        "find_filtered": partial(find, linker, texts[:FIND_MENTIONS], arguments),
        "find_all": partial(find, linker, texts[:FIND_MENTIONS], {}),
    }
    found = [way() for way in ways.values()][0]
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(TURNS):
        for way, (elapsed, _) in take_turns(ways, turn).items():
            seconds[way].append(elapsed)
    scores = np.append(found.score, -np.inf)[np.where(found.lengths, found.offsets[:-1], -1)]
    best = find_best_scores(retriever, vectors, allowed)
    return {
        "rows": int(rows.sum()),
        "share": float(rows.mean()),
        "apply_seconds": apply_seconds,
        "recall_at_1": float((scores >= best - TOLERANCE).mean()),
        "queries_per_second": {way: len(texts) / median(seconds[way]) for way in ("filtered", "all")},
        "times_unfiltered": median_ratio(seconds["filtered"], seconds["all"]),
        "find_times_unfiltered": median_ratio(seconds["find_filtered"], seconds["find_all"]),
        "seconds": seconds,
    }


def main(run: Path) -> None:
    """Measure filtered searches.

    run (Path): The folder of the run.
    """
    settings = start(run)
    linker = spacy.load(run / "pipeline").get_pipe("sapbert_linker")
    texts = list(dict.fromkeys(srsly.read_json(run / "mentions.json")))
    texts = pl.Series(texts).sample(min(MENTIONS, len(texts)), seed=settings.seed).to_list()
    vectors = linker.encoder.encode(texts)
    filters = make_filters(linker.terminology, settings.seed)
    measured = {
        name: measure_filter(linker, texts, vectors, arguments)
        for name, arguments in tqdm(filters.items(), desc="Measuring filters", unit="filter")
    }
    write_json(run / "filters.json", {"queries": len(texts), "filters": measured})


if __name__ == "__main__":
    typer.run(main)
