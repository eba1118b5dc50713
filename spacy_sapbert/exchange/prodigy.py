"""Prodigy's lines of JSON: texts with spans, each with its id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .documents import AnnotatedText, Annotation, ExchangeReport, number_name
from .fields import ID_SEPARATOR, parse_records, read_lines

FORM = '{"text": "a head cold", "spans": [{"start": 2, "end": 11, "label": "DISEASE", "kb_id": "C0009443"}]}'
ID_KEY = "kb_id"


def parse_prodigy(
    lines: Iterable[tuple[int, str]], label: str, part: str, report: ExchangeReport
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Read the names, the places for messages and the records of examples that are neither rejected nor ignored.

    `part` names documents that have no name, with their number behind it. Texts of one document are numbered as well.
    """
    taken: set[str] = set()
    for number, place, record in parse_records(lines, label, report, FORM):
        if not record["text"].strip():
            report.refuse(place, "'text' is empty", FORM)
        elif not isinstance(record.get("spans") or [], list):
            report.refuse(place, "'spans' has to be a list", FORM)
        elif record.get("answer") in ("reject", "ignore"):
            report.leave_out("examples that were rejected or ignored", place)
        else:
            meta = record.get("meta")
            name = record.get("doc_id") or (meta.get("doc_id") if isinstance(meta, dict) else None)
            yield number_name(str(name or f"{part}-{number}"), taken, number), place, record


def parse_spans(
    record: dict[str, Any], id_key: str, place: str, report: ExchangeReport
) -> Iterator[tuple[Annotation, str]]:
    """Read the spans of an example, and their ids as written with "|" between them."""
    text = record["text"]
    for span in record.get("spans") or []:
        values = span if isinstance(span, dict) else {}
        start, end, raw = values.get("start"), values.get("end"), values.get(id_key)
        if type(start) is not int or type(end) is not int or not text[max(start, 0) : end].strip() or end > len(text):
            report.refuse(place, f"a span without a place in the text: {span!r:.80}", FORM)
            continue
        written = ID_SEPARATOR.join(map(str, raw)) if isinstance(raw, list) else str(raw or "")
        yield Annotation(start, end, str(values.get("label") or ""), written, place), written


def read_prodigy(path: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read documents with all their mentions, those without an id too. Offsets count code points."""
    for name, place, record in parse_prodigy(read_lines(path, report), path.name, path.stem, report):
        annotations = [annotation for annotation, _ in parse_spans(record, ID_KEY, place, report)]
        yield AnnotatedText(name, record["text"], annotations)
