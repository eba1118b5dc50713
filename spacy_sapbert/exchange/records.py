"""Texts with their mentions as records: tasks of Prodigy, in lines of JSON, and rows of Parquet. A mention has the same
keys in both. Prodigy keeps those that it doesn't know."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ..annotations import NIL, read_attribute
from ..context import FLAGS, MentionContext
from ..files import check_is_file
from ..forking import check_polars
from . import fields
from .documents import AnnotatedText, Annotation, ExchangeReport, find_candidate, number_name, tidy_pieces

ID_KEY = "kb_id"
CONTEXT = "context"
PERSON = "person"
PIECES = "pieces"
ENTITIES = "entities"
ACCEPTED = "accept"
OF_CANDIDATE = ("name", "canonical_name", "score", "probability")
PRODIGY_FORM = '{"text": "a head cold", "spans": [{"start": 2, "end": 11, "label": "DISEASE", "kb_id": "C0009443"}]}'
PARQUET_FORM = "rows with a text, entities (a list of start, end, label and kb_id), and if you like an id"
ENTITY = pl.Struct(
    {
        **{"start": pl.Int64, "end": pl.Int64, "label": pl.String, ID_KEY: pl.String, "mention": pl.String},
        **{key: pl.String if "name" in key else pl.Float64 for key in OF_CANDIDATE},
        CONTEXT: pl.List(pl.String),
        PIECES: pl.String,
    }
)


def _make_span(annotation: Annotation) -> dict[str, Any]:
    span = {"start": annotation.start, "end": annotation.end, "label": annotation.label}
    context: dict[str, Any] = {} if annotation.context is None else {CONTEXT: annotation.context.words}
    if annotation.context and annotation.context.person:
        context |= {PERSON: annotation.context.person}
    pieces = {PIECES: fields.write_pieces(annotation.pieces)} if annotation.pieces else {}
    return span | {ID_KEY: annotation.kb_id} | context | pieces


def parse_spans(
    record: Mapping[str, Any], id_key: str, place: str, report: ExchangeReport, form: str = PRODIGY_FORM
) -> list[Annotation]:
    """Read the spans of a record, with their ids as written."""
    text = record["text"]
    written = []
    for span in record.get("spans") or []:
        values = span if isinstance(span, dict) else {}
        start, end = (offset if type(offset) is int else -1 for offset in map(values.get, ("start", "end")))
        mention = values.get("mention")
        if not isinstance(mention, str):
            mention = text[max(start, 0) : end] if end <= len(text) else ""
        if not 0 <= start < end or not mention.strip():
            report.refuse(place, f"a span without a place in the text: {span!r:.80}", form)
            continue
        pieces = values.get(PIECES)
        if pieces and not fields.is_in_pieces(str(pieces), start, end):
            report.refuse(place, f"the pieces {pieces!r:.80} are not '{start} END;...;START {end}'", form)
            continue
        ids = fields.join_ids(values.get(ACCEPTED, values.get(id_key)), place, report, form)
        places = tuple(fields.read_pieces(pieces)) if pieces else ()
        # Others may have something else of this name.
        context = None
        words = values.get(CONTEXT)
        if isinstance(words, list) and all(word in FLAGS for word in words):
            person = values.get(PERSON)
            context = MentionContext.of(words, person if isinstance(person, str) else "")
        label = str(values.get("label") or "")
        annotation = Annotation(start, end, label, ids, place, context=context, pieces=places)
        written.append((annotation, mention))
    annotations = fields.place_mentions(text, written, place, report, form)
    return [tidy_pieces(text, annotation) for annotation in annotations]


def parse_prodigy(
    lines: Iterable[tuple[int, str]], label: str, part: str, report: ExchangeReport
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Read the names, the places for messages and the records of examples that are neither rejected nor ignored. `part`
    names documents that have no name, with their number behind it. Texts of one document are numbered as well; choices
    for the mentions of one text are joined."""
    named: set[str] = set()
    choices: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {}
    for number, place, record in fields.parse_records(lines, label, report, PRODIGY_FORM):
        spans = record.get("spans") or []
        if not record["text"].strip():
            report.refuse(place, "'text' is empty", PRODIGY_FORM)
        elif not isinstance(spans, list):
            report.refuse(place, "'spans' has to be a list", PRODIGY_FORM)
        elif "options" in record and not (len(spans) == 1 and isinstance(spans[0], dict)):
            report.refuse(place, "'options' are for one span", PRODIGY_FORM)
        elif record.get("answer") in ("reject", "ignore"):
            report.leave_out("examples that were rejected or ignored", place)
        else:
            own_name = _find_name(record)
            name = own_name or f"{part}-{number}"
            if "options" not in record:
                yield number_name(name, named, number), place, record
                continue
            text = record["text"]
            first = name, place, {"text": text, "spans": []}
            of_text = choices.setdefault((own_name, text), first)[-1]
            accepted = {ACCEPTED: record[ACCEPTED]} if ACCEPTED in record else {}
            of_text["spans"].append({**spans[0], **accepted})
    for name, place, record in choices.values():
        yield number_name(name, named), place, record


def _find_name(record: Mapping[str, Any]) -> str:
    """Find the name of an example's document; "" if it has none."""
    meta = record.get("meta")
    names = record.get("doc_id"), meta.get("doc_id") if isinstance(meta, dict) else None
    return next((str(name) for name in names if name not in (None, "")), "")


def read_prodigy(path: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read documents with all their mentions, those without an id too. Offsets count code points."""
    for name, place, record in parse_prodigy(fields.read_lines(path, report), path.name, path.stem, report):
        yield AnnotatedText(name, record["text"], parse_spans(record, ID_KEY, place, report))


def dump_prodigy(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a task of each document, for recipes such as `ner.manual` and `spans.manual`."""
    yield "", _write_tasks(documents, report, lambda document: [{"spans": [*map(_make_span, document.annotations)]}])


def dump_choices(
    documents: Iterable[AnnotatedText], report: ExchangeReport, *, prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Make a task of each mention, for the interface `choice`: its candidates, with the chosen ones accepted."""

    def make_tasks(document: AnnotatedText) -> Iterator[dict[str, Any]]:
        if not document.annotations:
            report.leave_out("documents without mentions, which have no task", f"document {document.doc_id}")
        for annotation in document.annotations:
            options = {}
            for candidate in read_attribute(annotation.span) if annotation.span else ():
                id_ = f"{prefix}{candidate['id']}"
                options[id_] = f"{candidate['canonical_name']} ({id_})"
            options[NIL] = "No concept"
            accepted = [id_ for id_ in annotation.kb_id.split(fields.ID_SEPARATOR) if id_]
            for id_ in accepted:
                options.setdefault(id_, id_)
            choice = [{"id": id_, "text": text} for id_, text in options.items()]
            yield {"spans": [_make_span(annotation)], "options": choice, ACCEPTED: accepted}

    yield "", _write_tasks(documents, report, make_tasks)


def _write_tasks(
    documents: Iterable[AnnotatedText],
    report: ExchangeReport,
    make_tasks: Callable[[AnnotatedText], Iterable[dict[str, Any]]],
) -> str:
    lines = []
    for document in documents:
        if not document.text.strip():
            report.refuse(f"document {document.doc_id}", "'text' is empty", PRODIGY_FORM)
            continue
        whole = {"text": document.text, "meta": {"doc_id": document.doc_id}}
        lines += [json.dumps(whole | task, ensure_ascii=False) + "\n" for task in make_tasks(document)]
    return "".join(lines)


def read_parquet(path: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read a document from each row. Other columns are not read."""
    check_polars("read Parquet")
    check_is_file(path)
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        report.refuse(str(path), f"no Parquet ({error!s:.120})", PARQUET_FORM)
        return
    for column, content in (("text", "texts"), (ENTITIES, "mentions")):
        if column not in frame.columns:
            columns = ", ".join(frame.columns)
            raise ValueError(
                f"{path} has no column {column!r}. Its columns are: {columns:.200}. Rename the one with the {content}. "
                f"The form is {PARQUET_FORM}."
            )
    names: set[str] = set()
    rows = frame.select([column for column in ("id", "text", ENTITIES) if column in frame.columns])
    for number, row in enumerate(rows.iter_rows(named=True), 1):
        place = f"{path.name}, row {number}"
        spans = row.get(ENTITIES)
        if not isinstance(row["text"], str) or not isinstance(spans, list | None):
            report.refuse(place, f"{row!r:.80} has no text, or {ENTITIES} that are no list", PARQUET_FORM)
            continue
        name = f"{path.stem}-{number}" if row.get("id") is None else str(row["id"])
        record = {"text": row["text"], "spans": spans}
        annotations = parse_spans(record, ID_KEY, place, report, PARQUET_FORM)
        yield AnnotatedText(number_name(name, names, number), row["text"], annotations)


def dump_parquet(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, bytes]]:
    """Make a row of each document."""
    check_polars("write Parquet")
    rows = []
    for document in documents:
        entities = []
        for annotation in document.annotations:
            candidate: Mapping[str, Any] = (annotation.span and find_candidate(annotation.span)) or {}
            entity = _make_span(annotation)
            entity["mention"] = document.cut(annotation)
            entity |= {key: candidate.get(key) for key in OF_CANDIDATE}
            entities.append(entity)
        rows.append({"id": document.doc_id, "text": document.text, ENTITIES: entities})
    written = io.BytesIO()
    pl.DataFrame(rows, {"id": pl.String, "text": pl.String, ENTITIES: pl.List(ENTITY)}).write_parquet(written)
    yield "", written.getvalue()
