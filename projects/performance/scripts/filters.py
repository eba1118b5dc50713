"""Searches limited to some concepts or names beside unlimited ones, and beside plain products with the rows allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inputs import read_settings, report

from training.bench import Contestant, Entry, measure

if TYPE_CHECKING:
    from spacy_sapbert.terminology import Terminology

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
        found[f"ids: {share:.1%} of concepts"] = {
            "ids": ids.sample(max(1, round(share * len(ids))), seed=seed).to_list()
        }
    return found


def search(given: dict[str, Any]) -> Iterator[Any]:
    """Search with each filter; the way decides with which rows, and how: "plain", "filtered" or "all"."""
    import numpy as np
    import polars as pl
    import spacy

    from spacy_sapbert.candidates import ConceptFilter
    from spacy_sapbert.index.approximate import TOLERANCE

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
    ways = ("filtered", "all", "plain")
    contestants = [Contestant(way, __file__, "search", {**settings, "way": way}) for way in ways]
    measured = measure(contestants, threads=settings["threads"])
    rows = []
    for step in measured.steps["filtered"]:
        if step.name.endswith(", compared"):
            name = step.name.removesuffix(", compared")
            times = {way: measured.ratio("filtered", way, f"{name}, search") for way in ("all", "plain")}
            rows += [
                Entry("filters", f"{name}, rows allowed", step.figures["rows"]),
                Entry("filters", f"{name}, time of a search / unfiltered, median", times["all"], "{:.2f}x"),
                Entry("filters", f"{name}, time of a search / plain products, median", times["plain"], "{:.2f}x"),
                Entry(
                    "filters",
                    f"{name}, time of find / unfiltered, median",
                    measured.ratio("filtered", "all", f"{name}, find"),
                    "{:.2f}x",
                ),
                Entry("filters", f"{name}, recall@1", step.figures["recall"], "{:.4f}"),
            ]
    report("filters", rows, [], settings["described"], {"measured": measured.to_dict()})
