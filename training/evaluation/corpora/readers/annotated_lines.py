"""Annotations as lines of JSON: Prodigy's form, and the form that corpora are converted to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spacy_sapbert.exchange.fields import plain_text, split_ids
from spacy_sapbert.terminology.readers.lines import invalid_utf8

from ....data.mentions import FORM as UNIFORM_FORM
from ....data.mentions import Mention, parse_mention
from .inputs import InputFile
from .parts import find_parts
from .records import CorpusParts, locate
from .report import ReadingReport

LINES = r"(?P<part>.+)\.jsonl"
PRODIGY_FORM = '{"text": "a head cold", "spans": [{"start": 2, "end": 11, "label": "DISEASE", "kb_id": "C0009443"}]}'
ID_KEY = "kb_id"
REJECTED = ("reject", "ignore")


def read_uniform(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read files that `convert_corpus` has written. They have the text around each mention, and no whole texts.

    files (list[InputFile]): A file of JSON lines for each part.
    report (ReadingReport): Gets malformed records.
    RETURNS (CorpusParts): The mentions of each part.
    """
    corpus = CorpusParts()
    for part, file in find_parts(files, LINES, report).items():
        mentions = corpus.mentions.setdefault(part, [])
        for number, line in file.lines(report):
            place = f"{file.label}, line {number}"
            try:
                mentions += [replace(parse_mention(line), place=place)] if line.strip() else []
            except ValueError as error:
                report.refuse(place, str(error), UNIFORM_FORM)
    return corpus


def read_prodigy(files: list[InputFile], report: ReadingReport, *, id_key: str = ID_KEY) -> CorpusParts:
    """Read annotations of Prodigy: texts with spans, each with its id. Rejected and ignored examples are left out.

    files (list[InputFile]): A file of JSON lines for each part. A line is a document, or a piece of the document that
        its `doc_id` names, by itself or in its `meta`.
    report (ReadingReport): Gets malformed records, and spans without an id.
    id_key (str): The key of a span's id: text with "|" between several ids, or a list.
    RETURNS (CorpusParts): The mentions of each part, and the texts.
    """
    corpus = CorpusParts()
    for part, file in find_parts(files, LINES, report).items():
        texts = corpus.texts.setdefault(part, {})
        mentions = corpus.mentions.setdefault(part, [])
        for place, number, record in _read_records(file, report):
            if record.get("answer") in REJECTED:
                report.leave_out("examples that were rejected or ignored", place)
                continue
            doc_id = _name_document(record, part, number, texts)
            texts[doc_id] = record["text"]
            for span in record.get("spans") or []:
                mentions += _read_span(span, record["text"], doc_id, id_key, place, report)
        corpus.documents[part] = len(texts)
    return corpus


def _read_records(file: InputFile, report: ReadingReport) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for number, line in file.lines(report):
        if not line.strip():
            continue
        place = f"{file.label}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            report.refuse(place, f"no valid JSON ({error})", PRODIGY_FORM)
            continue
        text = record.get("text") if isinstance(record, dict) else None
        if not isinstance(text, str) or not text.strip() or invalid_utf8(text):
            report.refuse(place, "'text' has to be text", PRODIGY_FORM)
        elif not isinstance(record.get("spans") or [], list):
            report.refuse(place, "'spans' has to be a list", PRODIGY_FORM)
        else:
            yield place, number, record


def _name_document(record: dict[str, Any], part: str, number: int, known: dict[str, str]) -> str:
    """Name a text by its document. Texts of one document have a number behind its name, after "#"."""
    meta = record.get("meta")
    given = record.get("doc_id") or (meta.get("doc_id") if isinstance(meta, dict) else None)
    name = str(given) if given else f"{part}-{number}"
    return f"{name}#{number}" if name in known else name


def _read_span(span: Any, text: str, doc_id: str, id_key: str, place: str, report: ReadingReport) -> list[Mention]:
    values = span if isinstance(span, dict) else {}
    start, end, raw = values.get("start"), values.get("end"), values.get(id_key)
    if type(start) is not int or type(end) is not int or not text[max(start, 0) : end].strip() or end > len(text):
        report.refuse(place, f"a span without a place in the text: {span!r:.80}", PRODIGY_FORM)
        return []
    written = "|".join(map(str, raw)) if isinstance(raw, list) else str(raw or "")
    if not written:
        report.leave_out(f"spans without {id_key!r} (NIL has to be written)", place)
        return []
    ids = split_ids(written, keep_prefixes=True)
    mention = Mention("", ids, doc_id, type=str(values.get("label") or ""), raw_id=written, place=place)
    return [locate(mention, plain_text(text), start, end)]
