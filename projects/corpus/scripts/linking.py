"""The link of one block of documents: a table of documents in, tables of mentions and of errors out.

One process and Ray actors call the same function, so both give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from documents import Columns
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import get_probability
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.text import MAX_RUN, measure_run

TEXT, NUMBER, SHARE = pa.string(), pa.int64(), pa.float32()
CANDIDATE = pa.struct(
    {"id": TEXT, "concept_id": TEXT, "name": TEXT, "canonical_name": TEXT, "score": SHARE, "probability": SHARE}
)
MENTIONS = pa.schema(
    {
        **{"document": TEXT, "start": NUMBER, "end": NUMBER, "label": TEXT, "mention": TEXT, "kb_id": TEXT},
        **{"probability": SHARE, "candidates": pa.list_(CANDIDATE), "pipeline": TEXT},
    }
)
ERRORS = pa.schema({"document": TEXT, "error": TEXT})
Entity = tuple[int, int, str]
# Words that stay in a pipeline's vocabulary.
KEPT_WORDS = 200_000


@dataclass(frozen=True)
class Job:
    """What decides the rows of an output folder, but for the documents."""

    pipeline: str
    fingerprint: str
    columns: Columns
    # Documents of a block at most.
    block: int = 1000
    # Characters of a document; a longer one is an error.
    max_length: int = 1_000_000
    # Characters without white space; spaCy's tokenizer would take minutes for longer runs, which are errors.
    max_run: int = MAX_RUN
    # A file of Python that registers what the pipeline needs; empty for none. Its content is in the fingerprint.
    code: str = ""


class Mention(NamedTuple):
    """A linked entity: as in `MENTIONS`, with the candidates as the pipeline gives them."""

    start: int
    end: int
    label: str
    mention: str
    kb_id: str | None
    probability: float | None  # of the id; without one, that no concept is right
    candidates: Sequence[dict[str, Any]]


class Row(NamedTuple):
    """A document to link: its place in the block, and its entities, which are None if they are to be found."""

    number: int
    text: str
    entities: list[Entity] | None


def link_block(nlp: Language, documents: pa.Table, job: Job) -> tuple[pa.Table, pa.Table]:
    """Link the documents of a block: a row for each entity, in the order of documents, and one for each document that
    could not be linked. A document that makes a component fail does not touch the others."""
    # A text may be longer than spaCy's own limit if the setting says so.
    nlp.max_length = max(nlp.max_length, job.max_length)
    ids = documents["document"].to_pylist()
    rows: list[Row] = []
    errors: dict[int, str] = {}
    by_document: dict[int, list[Mention]] = {}
    for number, document in enumerate(documents.to_pylist()):
        try:
            rows.append(_read_row(number, document, job))
        except ValueError as error:
            errors[number] = str(error)
    finders = [name for name in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(name).assigns]
    # Once many words are known, new ones are forgotten behind the block: memory does not grow with the corpus. Before,
    # that would cost a quarter of the time, because frequent words would be made again for each block.
    forget = nlp.memory_zone if len(nlp.vocab) >= KEPT_WORDS else nullcontext
    with forget():
        _empty_caches(nlp)
        _link_rows(nlp, [row for row in rows if row.entities is None], by_document, errors)
        with nlp.select_pipes(disable=finders):
            _link_rows(nlp, [row for row in rows if row.entities is not None], by_document, errors)
    mentions = [(ids[number], mention) for number in sorted(by_document) for mention in by_document[number]]
    failed = [{"document": ids[number], "error": errors[number]} for number in sorted(errors)]
    return make_mentions(mentions, job.fingerprint), pa.Table.from_pylist(failed, schema=ERRORS)


def _empty_caches(nlp: Language) -> None:
    """Empty the linkers' caches, so that rows depend on the block alone, to the last bit."""
    for _, component in nlp.pipeline:
        if isinstance(component, SapbertLinker):
            component.clear_cache()


def _read_row(number: int, document: dict[str, Any], job: Job) -> Row:
    """Read a document, or say why it can't be linked."""
    text, entities = document["text"], document["entities"]
    if document["error"] is not None:
        raise ValueError(document["error"])
    if text is None:
        raise ValueError("it has no text")
    if len(text) > job.max_length:
        raise ValueError(f"it has {len(text):,} characters, more than max_length = {job.max_length:,}")
    if (run := measure_run(text)) > job.max_run:
        raise ValueError(f"it has {run:,} characters without white space, more than max_run = {job.max_run:,}")
    if entities is None:
        return Row(number, text, None)
    return Row(number, text, sorted({_read_entity(entity or {}, len(text)) for entity in entities}))


def _read_entity(entity: dict[str, Any], length: int) -> Entity:
    start, end = (-1 if entity.get(key) is None else entity[key] for key in ("start", "end"))
    if not 0 <= start < end <= length:
        raise ValueError(f"the entity from {start} to {end} is not part of its text of {length:,} characters")
    return start, end, entity.get("label") or ""


def _link_rows(nlp: Language, rows: list[Row], found: dict[int, list[Mention]], errors: dict[int, str]) -> None:
    """Link rows together. If that fails, halves are tried, so that only the documents at fault are left out."""
    if not rows:
        return
    try:
        linked = _pipe(nlp, rows)
    except Exception as error:  # a user's component may raise anything
        if len(rows) == 1:
            errors[rows[0].number] = f"{type(error).__name__}: {error}"
        else:
            half = len(rows) // 2
            _link_rows(nlp, rows[:half], found, errors)
            _link_rows(nlp, rows[half:], found, errors)
    else:
        found.update((row.number, mentions) for row, mentions in zip(rows, linked, strict=True))


def _pipe(nlp: Language, rows: list[Row]) -> list[list[Mention]]:
    # The last linker shows its candidates there, and decides on ids.
    attribute = [part for _, part in nlp.pipeline if isinstance(part, SapbertLinker)][-1].attribute
    linked: list[list[Mention]] = [[] for _ in rows]
    asked: list[int] = []

    def make_docs() -> Iterator[tuple[Doc, tuple[int, list[Entity] | None]]]:
        for index, row in enumerate(rows):
            for doc, entities in _make_docs(nlp, row):
                asked.append(index)
                yield doc, (index, entities)

    n_given = 0
    for doc, (index, entities) in nlp.pipe(make_docs(), as_tuples=True):
        n_given += 1
        linked[index] += _read_doc(doc, entities, attribute)
    if n_given < len(asked):
        # A pipeline may have an error handler of its own, which leaves documents out.
        raise ValueError("the pipeline gives no document back")
    return [sorted(mentions, key=lambda mention: mention[:3]) for mentions in linked]


def _make_docs(nlp: Language, row: Row) -> Iterator[tuple[Doc, list[Entity] | None]]:
    """Make the document of a row, and copies of it for given entities that overlap, which spaCy's documents can't."""
    if row.entities is None:
        yield nlp.make_doc(row.text), None
        return
    left = row.entities
    while left:
        doc = nlp.make_doc(row.text)
        chosen: dict[Entity, Span] = {}
        end = 0
        for entity in left:
            span = _find_span(doc, entity)
            if span.start >= end:
                chosen[entity], end = span, span.end
        doc.set_ents(list(chosen.values()))
        yield doc, list(chosen)
        left = [entity for entity in left if entity not in chosen]


def _find_span(doc: Doc, entity: Entity) -> Span:
    """Find the tokens of an entity, whole ones."""
    start, end, label = entity
    span = doc.char_span(start, end, label=label, alignment_mode="expand")
    if span is None:
        raise ValueError(f"no token of the text lies between {start} and {end}")
    return span


def _read_doc(doc: Doc, entities: list[Entity] | None, attribute: str) -> Iterator[Mention]:
    for entity in entities or [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents]:
        # Given entities are found again, because a component may have merged or split tokens.
        span = _find_span(doc, entity)
        kb_id = span[0].ent_kb_id_ or None
        candidates = span._.get(attribute) or ()
        yield Mention(*entity, span.text, kb_id, get_probability(span), candidates)


def make_mentions(mentions: Sequence[tuple[str, Mention]], fingerprint: str) -> pa.Table:
    """Make the table of mentions, column by column, which is several times as fast as row by row."""
    documents = [document for document, _ in mentions]
    *columns, candidates = list(zip(*(mention for _, mention in mentions), strict=True)) or [()] * len(Mention._fields)
    flat = [*chain.from_iterable(candidates)]
    offsets = np.cumsum([0, *map(len, candidates)], dtype=np.int32)
    # pyarrow makes the name of a field each time, so it is asked for once.
    types = {field.name: field.type for field in CANDIDATE}
    fields = [pa.array([candidate.get(name) for candidate in flat], type_) for name, type_ in types.items()]
    structs = pa.StructArray.from_arrays(fields, fields=list(CANDIDATE))
    lists = pa.ListArray.from_arrays(pa.array(offsets), structs)
    fingerprints = pa.array([fingerprint] * len(mentions), TEXT)
    arrays = [pa.array(column, field.type) for column, field in zip([documents, *columns], MENTIONS, strict=False)]
    return pa.Table.from_arrays([*arrays, lists, fingerprints], schema=MENTIONS)
