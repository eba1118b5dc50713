"""BioC's JSON: documents of passages, with the ids of a mention in `infons`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .documents import AnnotatedText, Annotation, ExchangeReport
from .fields import (
    ID_SEPARATOR,
    decode_mentions,
    find_misfit,
    list_writable,
    parse_json,
    read_flags,
    read_kb_id,
    read_text,
    write_flags,
)

FORM = (
    '{"documents": [{"id": "1", "passages": [{"offset": 0, "text": "a cold", "annotations": [{"text": "cold", '
    '"infons": {"type": "Disease", "identifier": "MESH:D003139"}, "locations": [{"offset": 2, "length": 4}]}]}]}]}'
)
LABEL, IDS = "type", "identifier"
# What reading malformed records can raise.
FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError)
# The places of an annotation, its text and its `infons`.
Row = tuple[list[range], str, dict[str, Any]]


def read_bioc(path: Path, report: ExchangeReport, prefix: str = "") -> Iterator[AnnotatedText]:
    """Read a collection, an export of PubTator 3 or a single document. Spaces fill the gaps between passages."""
    data = parse_json(read_text(path, report), str(path), report, FORM)
    if data is None:
        return
    # PubTator 3 has a key of its own.
    documents = data.get("documents", data.get("PubTator3", [data])) if isinstance(data, dict) else None
    if not isinstance(documents, list):
        report.refuse(str(path), "no collection of documents", FORM)
        return
    for number, document in enumerate(documents, 1):
        place = f"{path.name}, document {number}"
        try:
            name, (text, rows) = str(document["id"]), _parse_document(document)
        except FAULTS as error:
            report.refuse(place, f"not of this form ({error!r:.80})", FORM)
        else:
            yield AnnotatedText(name, text, list(_read_rows(text, rows, f"{place} ({name})", report, prefix)))


def _parse_document(document: dict[str, Any]) -> tuple[str, list[Row]]:
    text, rows = "", []
    for part in _list_parts(document["passages"]):
        offset, own = part["offset"], part.get("text") or ""
        if own and offset < len(text):
            raise ValueError("a passage begins before the one above it has ended")
        text += " " * (offset - len(text)) + own if own else ""
        for annotation in part.get("annotations", []):
            places = [range(at["offset"], at["offset"] + at["length"]) for at in annotation["locations"]]
            rows.append((places, str(annotation.get("text") or ""), dict(annotation.get("infons", {}))))
    return text, rows


def _list_parts(passages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for passage in passages:
        yield passage
        # Some have sentences instead of a text.
        yield from () if passage.get("text") else passage.get("sentences", ())


def _read_rows(text: str, rows: Iterable[Row], place: str, report: ExchangeReport, prefix: str) -> Iterator[Annotation]:
    mentions, of_mentions = [], []
    for places, mention, infons in rows:
        if len(places) == 1:
            start, end = places[0].start, places[0].stop
            mentions.append((start, end, mention or text[start:end]))
            of_mentions.append(infons)
        else:
            report.leave_out("mentions in several pieces", f"{place}: {mention!r:.60}")
    decoded = decode_mentions(text, mentions, place, report)
    for (start, end), (_, _, mention), infons in zip(decoded, mentions, of_mentions, strict=True):
        if fault := find_misfit(text, start, end, mention):
            report.refuse(place, fault, FORM)
        else:
            kb_id, label = read_kb_id(str(infons.get(IDS) or ""), prefix), str(infons.get(LABEL) or "")
            yield Annotation(start, end, label, kb_id, place, context=read_flags(infons))


def write_bioc(documents: Iterable[AnnotatedText], path: Path, report: ExchangeReport, prefix: str = "") -> None:
    """Write a collection. Each document is one passage, and offsets count code points."""
    made = []
    for document in documents:
        annotations = list(_list_annotations(document, report, prefix))
        passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": annotations}
        passages = [{**passage, "relations": []}]
        made.append({"id": document.doc_id, "infons": {}, "passages": passages, "relations": []})
    collection = {"source": "spacy-sapbert", "date": "", "key": "", "infons": {}, "documents": made}
    path.write_text(json.dumps(collection, ensure_ascii=False, indent=1), encoding="utf8", newline="\n")


def _list_annotations(document: AnnotatedText, report: ExchangeReport, prefix: str) -> Iterator[dict[str, Any]]:
    for number, (annotation, mention, ids) in enumerate(list_writable(document, report, FORM, prefix), 1):
        infons = {LABEL: annotation.label, **({IDS: ID_SEPARATOR.join(ids)} if ids else {})}
        infons |= {word: flag for word, flag in write_flags(annotation.context).items() if flag}
        place = {"offset": annotation.start, "length": annotation.end - annotation.start}
        yield {"id": str(number), "infons": infons, "text": mention, "locations": [place]}
