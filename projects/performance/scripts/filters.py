"""Searches limited to some concepts or names beside unlimited ones, and beside plain products with the rows allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import spacy
from inputs import compare, read_settings, report

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.index.approximate import TOLERANCE
from spacy_sapbert.terminology import Terminology
from training.bench import Entry

K, BATCH, TURNS, MENTIONS = 10, 128, 5, 2000
# With encoding, which takes most of the time and is the same with and without a filter.
FIND_MENTIONS = 100
# Shares of the concepts that filters by id allow.
SHARES = (0.5, 0.05, 0.005)


def make_filters(terminology: Terminology, seed: int) -> dict[str, dict[str, list[str]]]:
    """Make filters, as keyword arguments of `find`: the most frequent value of each column with several, random ids."""
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
            found[f"{key}: {counted.item(0, 0)}"] = {key: [counted.item(0, 0)]}
    ids = concepts["id"]
    for share in SHARES:
        chosen = ids.sample(max(1, round(share * len(ids))), seed=seed)
        found[f"ids: {share:.1%} of concepts"] = {"ids": chosen.to_list()}
    return found


def search(given: dict[str, Any]) -> Iterator[Any]:
    """Search with each filter; the way decides with which rows, and how: "plain", "filtered" or "all"."""
    run, way = Path(given["run"]), given["way"]
    linker = spacy.load(run / "pipeline").get_pipe("sapbert_linker")
    retriever, vectors_of_rows = linker.retriever, np.array(linker.index.vectors)
    texts = list(dict.fromkeys(json.loads((run / "mentions.json").read_text(encoding="utf8"))["mentions"]))
    texts = pl.Series(texts).sample(min(MENTIONS, len(texts)), seed=given["seed"]).to_list()
    vectors = linker.encoder.encode(texts)
    batches = [slice(start, start + BATCH) for start in range(0, len(texts), BATCH)]
    retriever.search(texts[batches[0]], vectors[batches[0]], K, None)
    yield "load", {"queries": len(texts)}
    for name, arguments in make_filters(linker.terminology, given["seed"]).items():
        allowed = ConceptFilter(**arguments) if way != "all" else None
        mask = retriever.allow(ConceptFilter(**arguments)).rows
        rows = vectors_of_rows[mask]
        for _ in range(TURNS):
            if way == "plain":
                best = np.concatenate([(vectors[batch] @ rows.T).max(axis=1) for batch in batches])
            else:
                found = [retriever.search(texts[batch], vectors[batch], K, allowed) for batch in batches]
            yield f"{name}, search"
            # Putting the same retriever in place again empties the cache.
            linker.set_retriever(retriever)
            if way != "plain":
                linker.find(texts[:FIND_MENTIONS], **(arguments if way == "filtered" else {}))
            yield f"{name}, find"
        figures = {"rows": int(mask.sum()), "recall": 1.0}
        if way == "filtered":
            firsts = [np.append(part.score, -np.inf)[np.where(part.lengths, part.offsets[:-1], -1)] for part in found]
            best = np.concatenate([(vectors[batch] @ rows.T).max(axis=1) for batch in batches])
            figures["recall"] = float((np.concatenate(firsts) >= best - TOLERANCE).mean())
        yield f"{name}, compared", figures


def main() -> None:
    """Measure filtered searches in the pipeline of the run."""
    settings = read_settings()
    ways = dict.fromkeys(("filtered", "all", "plain"), {**settings, "function": "search"})
    measured = compare(__file__, ways, settings["threads"])
    rows = []
    for step in measured.steps["filtered"]:
        name, _, what = step.name.rpartition(", ")
        if what == "compared":
            search, find = f"{name}, search", f"{name}, find"
            rows.append(Entry("filters", f"{name}, rows allowed", step.figures["rows"]))
            for label, step_name, other in (
                ("a search / unfiltered", search, "all"),
                ("a search / plain products", search, "plain"),
                ("find / unfiltered", find, "all"),
            ):
                ratio = measured.ratio("filtered", other, step_name)
                rows.append(Entry("filters", f"{name}, time of {label}, median", ratio, "{:.2f}x"))
            rows.append(Entry("filters", f"{name}, recall@1", step.figures["recall"], "{:.4f}"))
    report("filters", rows, [], settings["described"], measured)
