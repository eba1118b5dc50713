"""Linking documents, with an empty and a filled cache, beside a plain loop over the mentions of the same documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from inputs import compare, read_settings, report
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from training.bench import MB, Entry

TURNS = 5


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


def main() -> None:
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
