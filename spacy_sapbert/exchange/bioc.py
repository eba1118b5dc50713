"""BioC's JSON: documents of passages, with the ids of a mention in `infons`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .documents import AnnotatedText, Annotation
from .fields import ID_SEPARATOR, find_fault_of_id, find_misfit, read_flags, read_kb_id, write_flags, write_ids
from .inputs import read_json
from .offsets import decode_mentions
from .report import ExchangeReport

FORM = (
    '{"documents": [{"id": "1", "passages": [{"offset": 0, "text": "a cold", "annotations": [{"text": "cold", '
    '"infons": {"type": "Disease", "identifier": "MESH:D003139"}, "locations": [{"offset": 2, "length": 4}]}]}]}]}'
)
LABEL, IDS = "type", "identifier"
# What reading malformed records can raise.
FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def read_bioc(path: Path, report: ExchangeReport, prefix: str = "") -> Iterator[AnnotatedText]:
    """Read the documents of a collection.

    path (Path): The file: a collection, an export of PubTator 3, or a single document.
    report (ExchangeReport): Gets malformed records, and mentions in several pieces.
    prefix (str): What stands before each id in the file only, such as "MESH:".
    YIELDS (AnnotatedText): The documents. Their text is that of all passages, with spaces in the gaps between them.
    """
    data = read_json(path, report, FORM)
    if data is None:
        return
    # PubTator 3 has a key of its own.
    lists = [data[key] for key in ("documents", "PubTator3") if key in data] if isinstance(data, dict) else [None]
    documents = lists[0] if lists else [data]
    if not isinstance(documents, list):
        report.refuse(str(path), "no collection of documents", FORM)
        return
    for number, document in enumerate(documents, 1):
        place = f"{path.name}, document {number}"
        try:
            yield _read_document(document, place, report, prefix)
        except FAULTS as error:
            if str(error).startswith("[E"):
                raise
            report.refuse(place, f"not of this form ({error!r:.80})", FORM)


def _read_document(document: dict[str, Any], place: str, report: ExchangeReport, prefix: str) -> AnnotatedText:
    place = f"{place} ({document['id']})"
    text, written = "", []
    for part in _list_parts(document):
        offset, own = part["offset"], part.get("text") or ""
        if own and offset < len(text):
            raise ValueError("a passage begins before the one above it has ended")
        text += " " * (offset - len(text)) + own if own else ""
        written += part.get("annotations", [])
    mentions = []
    for annotation in written:
        if len(annotation["locations"]) == 1:
            [location] = annotation["locations"]
            start, length = location["offset"], location["length"]
            mentions.append((start, start + length, annotation.get("text") or text[start : start + length]))
        else:
            report.leave_out("mentions in several pieces", f"{place}: {annotation.get('text')!r:.60}")
    kept = [annotation for annotation in written if len(annotation["locations"]) == 1]
    found = decode_mentions(text, mentions, place, report)
    annotations = []
    for annotation, (start, end), (_, _, mention) in zip(kept, found, mentions, strict=True):
        if fault := find_misfit(text, start, end, mention):
            report.refuse(place, fault, FORM)
            continue
        infons = annotation.get("infons", {})
        kb_id = read_kb_id(str(infons.get(IDS) or ""), prefix)
        label = str(infons.get(LABEL) or "")
        annotations.append(Annotation(start, end, label, kb_id, place, context=read_flags(infons)))
    return AnnotatedText(str(document["id"]), text, annotations)


def _list_parts(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """List passages, and the sentences of those that have sentences instead of a text."""
    for passage in document["passages"]:
        yield passage
        if not passage.get("text"):
            yield from passage.get("sentences", ())


def write_bioc(documents: Iterable[AnnotatedText], path: Path, report: ExchangeReport, prefix: str = "") -> None:
    """Write a collection. Each document is one passage, and offsets count code points.

    documents (Iterable[AnnotatedText]): The documents.
    path (Path): The file.
    report (ExchangeReport): Gets ids that would be read back as others.
    prefix (str): What is put before each id, such as "MESH:".
    """
    made = [_make_document(document, prefix, report) for document in documents]
    collection = {"source": "spacy-sapbert", "date": "", "key": "", "infons": {}, "documents": made}
    path.write_text(json.dumps(collection, ensure_ascii=False, indent=1), encoding="utf8", newline="\n")


def _make_document(document: AnnotatedText, prefix: str, report: ExchangeReport) -> dict[str, Any]:
    annotations = []
    for number, annotation in enumerate(document.annotations, 1):
        mention = document.text[annotation.start : annotation.end]
        if fault := find_fault_of_id(annotation.kb_id):
            report.refuse(f"document {document.doc_id}: {mention!r:.60}", fault, FORM)
            continue
        ids = ID_SEPARATOR.join(write_ids(annotation.kb_id, prefix))
        infons: dict[str, str] = {LABEL: annotation.label, **({IDS: ids} if ids else {})}
        infons |= {word: flag for word, flag in write_flags(annotation.context).items() if flag}
        annotations.append(
            {
                "id": str(number),
                "infons": infons,
                "text": mention,
                "locations": [{"offset": annotation.start, "length": annotation.end - annotation.start}],
            }
        )
    passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": annotations}
    return {"id": document.doc_id, "infons": {}, "passages": [{**passage, "relations": []}], "relations": []}
