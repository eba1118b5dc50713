"""The link of one block of documents: a table of documents in, tables of mentions and of errors out.

The same function serves one process and Ray actors, so both give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from documents import DOCUMENTS
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import get_probability
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.reranker.component import SapbertReranker
from spacy_sapbert.text import MAX_RUN, measure_run

CANDIDATE = pa.struct(
    [
        ("id", pa.string()),
        ("concept_id", pa.string()),
        ("name", pa.string()),
        ("canonical_name", pa.string()),
        ("score", pa.float32()),
        ("probability", pa.float32()),
    ]
)
MENTIONS = pa.schema(
    [
        ("document", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("label", pa.string()),
        ("mention", pa.string()),
        ("kb_id", pa.string()),
        ("probability", pa.float32()),
        ("candidates", pa.list_(CANDIDATE)),
        ("pipeline", pa.string()),
    ]
)
ERRORS = pa.schema([("document", pa.string()), ("error", pa.string())])
Entity = tuple[int, int, str]
# Words that stay in a pipeline's vocabulary.
KEPT_WORDS = 200_000


@dataclass(frozen=True)
class LinkingSettings:
    """What is linked, and what is written.

    max_length (int): Characters of a document at most; a longer one is an error.
    attribute (str): The extension attribute of spans with the candidates: the linker's setting of this name.
    max_run (int): Characters without white space at most, because spaCy's tokenizer takes minutes for long runs; a
        document with a longer run is an error.
    """

    max_length: int = 1_000_000
    attribute: str = "kb_candidates"
    max_run: int = MAX_RUN


class Mention(NamedTuple):
    """A linked entity: as in `MENTIONS`, with the candidates as the pipeline gives them."""

    start: int
    end: int
    label: str
    mention: str
    kb_id: str | None
    probability: float | None
    candidates: Sequence[dict[str, Any]]


class LinkedBlock(NamedTuple):
    """What was found in a block of documents.

    mentions (Table): A row for each entity, in the order of documents.
    errors (Table): A row for each document that could not be linked, and has no mentions.
    """

    mentions: pa.Table
    errors: pa.Table


class _Row(NamedTuple):
    """A document to link.

    number (int): Its row in the block.
    text (str): The text.
    entities (list | None): Start, end and label of each entity; None to find them.
    """

    number: int
    text: str
    entities: list[Entity] | None


class _Given(NamedTuple):
    """The given entities of a document, and their places, which are then not looked up twice.

    entities (list): Start, end and label of each.
    places (list): First token and end of each.
    n_tokens (int): The tokens of the document: with another number of them, these places no longer hold.
    """

    entities: list[Entity]
    places: list[tuple[int, int]]
    n_tokens: int


def link_block(
    nlp: Language, documents: pa.Table, fingerprint: str, settings: LinkingSettings | None = None
) -> LinkedBlock:
    """Link the documents of a block. A document that makes a component fail does not touch the others."""
    settings = settings or LinkingSettings()
    # A text may be longer than spaCy's own limit if the setting says so.
    nlp.max_length = max(nlp.max_length, settings.max_length)
    ids = documents["document"].to_pylist()
    errors: dict[int, str] = {}
    found: dict[int, list[Mention]] = {}
    rows = list(_list_rows(documents, settings, errors))
    finders = [name for name in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(name).assigns]
    # Once many words are known, new ones are forgotten behind the block: memory does not grow with the corpus. Before,
    # that would cost a quarter of the time, because frequent words would be made anew in each block.
    forget = nlp.memory_zone if len(nlp.vocab) >= KEPT_WORDS else nullcontext
    with forget():
        _empty_caches(nlp)
        _link_rows(nlp, [row for row in rows if row.entities is None], settings, found, errors)
        with nlp.select_pipes(disable=finders):
            _link_rows(nlp, [row for row in rows if row.entities is not None], settings, found, errors)
    mentions = [(ids[number], mention) for number in sorted(found) for mention in found[number]]
    failed = [{"document": ids[number], "error": errors[number]} for number in sorted(errors)]
    return LinkedBlock(make_mentions(mentions, fingerprint), pa.Table.from_pylist(failed, schema=ERRORS))


def _empty_caches(nlp: Language) -> None:
    """Empty the linkers' caches, so that rows depend on the block alone, to the last bit."""
    for _, component in nlp.pipeline:
        if isinstance(component, SapbertLinker) and component.is_ready:
            component.set_retriever(component.retriever)
        elif isinstance(component, SapbertReranker):
            # What it remembers of mentions.
            component._context = None


def _list_rows(documents: pa.Table, settings: LinkingSettings, errors: dict[int, str]) -> Iterator[_Row]:
    columns = [documents[name].to_pylist() for name in DOCUMENTS.names[1:]]
    for number, (text, entities, error) in enumerate(zip(*columns, strict=True)):
        asked = None
        if error is None and text is None:
            error = "it has no text"
        elif error is None and len(text) > settings.max_length:
            error = f"it has {len(text):,} characters, more than max_length = {settings.max_length:,}"
        elif error is None and (run := measure_run(text)) > settings.max_run:
            error = f"it has {run:,} characters without white space, more than max_run = {settings.max_run:,}"
        elif error is None and entities is not None:
            asked = sorted({_read_entity(entity) for entity in entities})
            error = _check_entities(asked, len(text))
        if error is None:
            yield _Row(number, text, asked)
        else:
            errors[number] = error


def _read_entity(entity: dict[str, Any] | None) -> Entity:
    start, end, label = (entity or {}).get("start"), (entity or {}).get("end"), (entity or {}).get("label")
    return -1 if start is None else start, -1 if end is None else end, label or ""


def _check_entities(entities: list[Entity], length: int) -> str | None:
    for start, end, _ in entities:
        if not 0 <= start < end <= length:
            return f"the entity from {start} to {end} is no part of its text of {length:,} characters"
    return None


def _link_rows(
    nlp: Language,
    rows: list[_Row],
    settings: LinkingSettings,
    found: dict[int, list[Mention]],
    errors: dict[int, str],
) -> None:
    """Link rows together. If that fails, halves are tried, so that only the documents at fault are left out."""
    if not rows:
        return
    try:
        linked = _pipe(nlp, rows, settings)
    except Exception as error:  # whatever a component of the user's own raises
        if len(rows) == 1:
            errors[rows[0].number] = f"{type(error).__name__}: {error}"
        else:
            half = len(rows) // 2
            _link_rows(nlp, rows[:half], settings, found, errors)
            _link_rows(nlp, rows[half:], settings, found, errors)
    else:
        found.update((row.number, mentions) for row, mentions in zip(rows, linked, strict=True))


def _pipe(nlp: Language, rows: list[_Row], settings: LinkingSettings) -> list[list[Mention]]:
    linked: list[list[Mention]] = [[] for _ in rows]
    asked = 0

    def make_docs() -> Iterator[tuple[Doc, tuple[int, _Given | None]]]:
        nonlocal asked
        for index, row in enumerate(rows):
            for doc, entities in _make_docs(nlp, row):
                asked += 1
                yield doc, (index, entities)

    given = 0
    for doc, (index, entities) in nlp.pipe(make_docs(), as_tuples=True):
        given += 1
        linked[index] += _read_doc(doc, entities, settings)
    if given < asked:
        # A pipeline may have an error handler of its own, which leaves documents out.
        raise ValueError("the pipeline gives no document back")
    return [sorted(mentions, key=lambda mention: mention[:3]) for mentions in linked]


def _make_docs(nlp: Language, row: _Row) -> Iterator[tuple[Doc, _Given | None]]:
    """Make the document of a row, and copies of it for given entities that overlap, which spaCy's documents can't."""
    if row.entities is None:
        yield nlp.make_doc(row.text), None
        return
    left = row.entities
    while left:
        doc = nlp.make_doc(row.text)
        ents: list[Span] = []
        chosen, others = [], []
        for entity in left:
            span = _find_span(doc, entity)
            if ents and span.start < ents[-1].end:
                others.append(entity)
            else:
                ents.append(span)
                chosen.append(entity)
        doc.set_ents(ents)
        yield doc, _Given(chosen, [(span.start, span.end) for span in ents], len(doc))
        left = others


def _find_span(doc: Doc, entity: Entity) -> Span:
    """Find the tokens of an entity, whole ones."""
    start, end, label = entity
    span = doc.char_span(start, end, label=label, alignment_mode="expand")
    if span is None:
        raise ValueError(f"no token of the text lies between {start} and {end}")
    return span


def _read_doc(doc: Doc, given: _Given | None, settings: LinkingSettings) -> Iterator[Mention]:
    if given is None:
        spans = list(doc.ents)
        entities = [(span.start_char, span.end_char, span.label_) for span in spans]
    elif len(doc) == given.n_tokens:
        entities = given.entities
        spans = [Span(doc, *place, label=entity[2]) for entity, place in zip(given.entities, given.places, strict=True)]
    else:
        # A component has merged or split tokens.
        entities, spans = given.entities, [_find_span(doc, entity) for entity in given.entities]
    for (start, end, label), span in zip(entities, spans, strict=True):
        candidates = span._.get(settings.attribute) or ()
        kb_id = span[0].ent_kb_id_ or None
        yield Mention(start, end, label, span.text, kb_id, get_probability(span), candidates)


def make_mentions(mentions: Sequence[tuple[str, Mention]], fingerprint: str) -> pa.Table:
    """Make the table of mentions, column by column, which is several times as fast as row by row."""
    columns = list(zip(*(mention for _, mention in mentions), strict=True)) or [()] * len(Mention._fields)
    start, end, label, text, kb_id, probability, candidates = columns
    flat = [candidate for found in candidates for candidate in found]
    offsets = np.cumsum([0, *map(len, candidates)], dtype=np.int32)
    fields = [_make_field(field, flat) for field in CANDIDATE]
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(fields, fields=list(CANDIDATE)))
    values = [[document for document, _ in mentions], start, end, label, text, kb_id, probability]
    arrays = [pa.array(column, field.type) for column, field in zip(values, MENTIONS, strict=False)]
    return pa.Table.from_arrays(
        [*arrays, lists, pa.repeat(fingerprint, len(mentions)).cast(pa.string())], schema=MENTIONS
    )


def _make_field(field: pa.Field, candidates: Sequence[dict[str, Any]]) -> pa.Array:
    # pyarrow makes a field's name anew each time, so it is asked for once.
    name = field.name
    return pa.array([candidate.get(name) for candidate in candidates], field.type)
