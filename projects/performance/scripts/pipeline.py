"""The saved pipeline: documents beside a plain loop over their mentions, and searches with filters beside others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import spacy
from inputs import compare, read_settings, report
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.index.approximate import TOLERANCE
from spacy_sapbert.terminology import Terminology
from training.bench import MB, Entry

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


def load(given: dict[str, Any]) -> tuple[Language, list[Doc]]:
    """Load the pipeline of the run and its documents."""
    run = Path(given["run"])
    nlp = spacy.load(run / "pipeline")
    return nlp, list(DocBin().from_disk(run / "docs.spacy").get_docs(nlp.vocab))


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """Documents through `nlp.pipe`."""
    nlp, docs = load(given)
    linker = nlp.get_pipe("sapbert_linker")
    list(nlp.pipe(doc.copy() for doc in docs[:10]))
    mentions = [ent.text for doc in docs for ent in doc.ents]
    yield "load", {"docs": len(docs), "distinct": len(set(mentions))}
    for _ in range(TURNS):
        # Putting the same retriever in place again empties the cache.
        linker.set_retriever(linker.retriever)
        for cache in ("empty cache", "filled cache"):
            linked = sum(bool(ent.kb_id_) for doc in nlp.pipe([doc.copy() for doc in docs]) for ent in doc.ents)
            yield cache, {"linked": linked}


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """Each mention encoded by itself and compared with all names."""
    nlp, docs = load(given)
    linker = nlp.get_pipe("sapbert_linker")
    rows = np.array(linker.index.vectors)
    linker.encoder.encode(["warm"])
    yield "load"
    for _ in range(TURNS):
        for cache in ("empty cache", "filled cache"):
            # The second pass is the same work again, so that both contestants alternate.
            linked = 0
            for doc in docs:
                for ent in doc.ents:
                    scores = linker.encoder.encode([ent.text]) @ rows.T
                    linked += bool(scores.argmax() >= 0)
            yield cache, {"linked": linked}


def measure_documents() -> None:
    """Measure documents and distinct mentions a second."""
    settings = read_settings()
    measured = compare(__file__, {"plain": settings, "ours": settings}, settings["threads"])
    found = measured.figures("ours")
    rows = [Entry("linker", "documents", found["docs"]), Entry("linker", "entities with an id", found["linked"])]
    for cache in ("empty cache", "filled cache"):
        seconds = measured.median("ours", cache)
        rows += [
            Entry("linker", f"{cache}, documents", found["docs"] / seconds, "{:,.0f}/s"),
            Entry("linker", f"{cache}, distinct mentions", found["distinct"] / seconds, "{:,.0f}/s"),
            Entry("linker", f"{cache} / plain loop, median", measured.ratio("plain", "ours", cache), "{:.1f}x"),
        ]
    rows.append(Entry("linker", "peak memory (MB)", measured.peak("ours") / MB))
    report("pipeline", rows, [], settings["described"], measured)


def measure_filters() -> None:
    """Measure filtered searches in the pipeline of the run."""
    settings = read_settings()
    ways = dict.fromkeys(("filtered", "all", "plain"), {**settings, "function": "search"})
    measured = compare(__file__, ways, settings["threads"])
    rows = []
    for step in measured.steps["filtered"]:
        name, _, what = step.name.rpartition(", ")
        if what == "compared":
            rows.append(Entry("filters", f"{name}, rows allowed", step.figures["rows"]))
            for label, other in (
                ("a search / unfiltered", "all"),
                ("a search / plain products", "plain"),
                ("find / unfiltered", "all"),
            ):
                ratio = measured.ratio("filtered", other, f"{name}, {'find' if label.startswith('find') else 'search'}")
                rows.append(Entry("filters", f"{name}, time of {label}, median", ratio, "{:.2f}x"))
            rows.append(Entry("filters", f"{name}, recall@1", step.figures["recall"], "{:.4f}"))
    report("filters", rows, [], settings["described"], measured)
