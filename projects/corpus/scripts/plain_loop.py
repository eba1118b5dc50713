"""A plain loop over `nlp.pipe`, for comparison: documents with given entities, from memory, nothing written."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc


def main(pipeline: Path, corpus: Path, block: int) -> None:
    """Link documents, and print the seconds and the number of linked entities as JSON."""
    rows = [row for path in sorted(corpus.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    nlp = spacy.load(pipeline)
    begin, processor = time.perf_counter(), time.process_time()
    linked = sum(bool(ent.kb_id_) for doc in nlp.pipe(make_docs(nlp, rows), batch_size=block) for ent in doc.ents)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"seconds": seconds, "loop_processor_seconds": processor, "linked": linked}))


def make_docs(nlp: Language, rows: list[dict]) -> Iterator[Doc]:
    """Make documents with entities."""
    for row in rows:
        doc = nlp.make_doc(row["text"])
        spans = (doc.char_span(e["start"], e["end"], e["label"], alignment_mode="expand") for e in row["entities"])
        doc.ents = spacy.util.filter_spans(spans)
        yield doc


if __name__ == "__main__":
    typer.run(main)
