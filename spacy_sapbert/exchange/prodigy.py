"""Prodigy's lines of JSON: texts with spans, each with its id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .documents import AnnotatedText, Annotation
from .fields import ID_SEPARATOR, number_name, read_kb_id
from .inputs import parse_json, read_lines
from .report import ExchangeReport

FORM = '{"text": "a head cold", "spans": [{"start": 2, "end": 11, "label": "DISEASE", "kb_id": "C0009443"}]}'
ID_KEY = "kb_id"
REJECTED = ("reject", "ignore")


def parse_prodigy(
    lines: Iterable[tuple[int, str]], label: str, part: str, report: ExchangeReport
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Read the examples of a file. Rejected and ignored ones are left out.

    lines (Iterable[tuple[int, str]]): The lines with their numbers.
    label (str): The name of the file, for messages.
    part (str): The name of documents that have none, before their number.
    report (ExchangeReport): Gets malformed records.
    YIELDS (tuple[str, str, dict[str, Any]]): The document's name, its place for messages, and the example with its
        `text` and `spans`. Texts of one document have a number behind its name, after "#".
    """
    known: set[str] = set()
    for number, line in lines:
        place = f"{label}, line {number}"
        record = parse_json(line, place, report, FORM) if line.strip() else None
        if record is None:
            continue
        text = record.get("text") if isinstance(record, dict) else None
        if not isinstance(text, str) or not text.strip():
            report.refuse(place, "'text' has to be text", FORM)
        elif not isinstance(record.get("spans") or [], list):
            report.refuse(place, "'spans' has to be a list", FORM)
        elif record.get("answer") in REJECTED:
            report.leave_out("examples that were rejected or ignored", place)
        else:
            yield number_name(_find_name(record) or f"{part}-{number}", known, number), place, record


def _find_name(record: dict[str, Any]) -> str:
    meta = record.get("meta")
    given = record.get("doc_id") or (meta.get("doc_id") if isinstance(meta, dict) else None)
    return str(given) if given else ""


def parse_spans(
    record: dict[str, Any], id_key: str, place: str, report: ExchangeReport
) -> Iterator[tuple[Annotation, str]]:
    """Read the spans of an example.

    record (dict[str, Any]): The example.
    id_key (str): The key of a span's id: text with "|" between several ids, or a list.
    place (str): The file and line.
    report (ExchangeReport): Gets spans without a place in the text.
    YIELDS (tuple[Annotation, str]): Each span, and its ids as written with "|" between them.
    """
    text = record["text"]
    for span in record.get("spans") or []:
        values = span if isinstance(span, dict) else {}
        start, end, raw = values.get("start"), values.get("end"), values.get(id_key)
        if type(start) is not int or type(end) is not int or not text[max(start, 0) : end].strip() or end > len(text):
            report.refuse(place, f"a span without a place in the text: {span!r:.80}", FORM)
            continue
        written = ID_SEPARATOR.join(map(str, raw)) if isinstance(raw, list) else str(raw or "")
        yield Annotation(start, end, str(values.get("label") or ""), place), written


def read_prodigy(
    path: Path, report: ExchangeReport, prefix: str = "", *, id_key: str = ID_KEY
) -> Iterator[AnnotatedText]:
    """Read documents with all their mentions, those without an id too. Offsets count code points.

    path (Path): The file, .jsonl.
    report (ExchangeReport): Gets malformed records, and counts rejected and ignored examples.
    prefix (str): What stands before each id in the file only, such as "UMLS:".
    id_key (str): The key of a span's id.
    YIELDS (AnnotatedText): The documents.
    """
    for name, place, record in parse_prodigy(read_lines(path, report), path.name, path.stem, report):
        found = parse_spans(record, id_key, place, report)
        annotations = [
            Annotation(span.start, span.end, span.label, read_kb_id(written, prefix), place) for span, written in found
        ]
        yield AnnotatedText(name, record["text"], annotations)
