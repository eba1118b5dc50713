"""The saved pipeline of a run, loaded and linking documents, each time in a new process: time, memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inputs import RUN, Entry, compare, count_bytes, report

from training.bench import MB

TURNS = 5
WARM_UP = 10
# About as many as an abstract has.
MENTIONS_A_DOCUMENT = 10
CACHES = ("empty cache", "filled cache")
# By the kind of encoder: seconds to load, and megabytes after linking.
TARGETS = {"transformer": (1.5, 1500), "static": (0.3, 400)}


def link(given: dict[str, Any]) -> Iterator[Any]:
    """Load the pipeline, and link the documents twice, from an empty cache."""
    import spacy
    import srsly
    from spacy.tokens import Doc, Span
    from spacy.util import minibatch

    spacy.blank("en")
    yield "blank"
    nlp = spacy.load(Path(given["run"], "pipeline"))
    linker = nlp.get_pipe("sapbert_linker")
    yield "load", {"kind": linker.encoder.content.kind}
    mentions = srsly.read_json(Path(given["run"], "mentions.json"))
    # Each mention is a token and an entity, so that only linking is measured.
    docs = [Doc(nlp.vocab, words=words) for words in minibatch(mentions, MENTIONS_A_DOCUMENT)]
    for doc in docs:
        doc.ents = [Span(doc, token.i, token.i + 1, label="ENTITY") for token in doc]
    list(nlp.pipe(doc.copy() for doc in docs[:WARM_UP]))
    linker.clear_cache()
    yield "read", {"documents": len(docs), "distinct mentions": len(set(mentions))}
    for cache in CACHES:
        linked = sum(bool(ent.kb_id_) for doc in nlp.pipe([doc.copy() for doc in docs]) for ent in doc.ents)
        yield cache, {"entities with an id": linked}


def measure_pipeline() -> None:
    """Measure loading and linking; a first turn, which does not count, fills the page cache."""
    import srsly

    settings = srsly.read_json(RUN / "settings.json")
    ways = {"link": settings}
    compare(__file__, ways, settings["threads"])
    measured = compare(__file__, ways, settings["threads"], TURNS)
    figures = measured.figures("link")
    seconds, memory = TARGETS[figures["kind"]]
    rows = [
        Entry("saved pipeline", "spacy.blank before loading", measured.median("link", "blank"), "{:.3f} s"),
        Entry("saved pipeline", "spacy.load", measured.median("link", "load"), "{:.3f} s", at_most=seconds),
        Entry("saved pipeline", "peak memory, spacy.blank (MB)", measured.peak("link", "blank") / MB),
        Entry("saved pipeline", "peak memory, loaded (MB)", measured.peak("link", "load") / MB),
        Entry("saved pipeline", "peak memory, linked (MB)", measured.peak("link") / MB, at_most=memory),
        Entry("saved pipeline", "on disk (MB)", count_bytes(RUN / "pipeline") / MB),
        Entry("linker", "documents", figures["documents"]),
        Entry("linker", "entities with an id", figures["entities with an id"]),
    ]
    for cache in CACHES:
        seconds = measured.median("link", cache)
        for what in ("documents", "distinct mentions"):
            rows.append(Entry("linker", f"{cache}, {what}", figures[what] / seconds, "{:,.0f}/s"))
    report("pipeline", rows, [], settings["described"], measured=measured.to_dict())
