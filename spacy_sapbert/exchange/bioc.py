"""BioC's JSON: documents of passages, with the ids of a mention in `infons`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .documents import AnnotatedText, Annotation, ExchangeReport
from .fields import parse_json, place_mentions, read_flags, read_text, write_flags

FORM = (
    '{"documents": [{"id": "1", "passages": [{"offset": 0, "text": "a cold", "annotations": [{"text": "cold", '
    '"infons": {"type": "Disease", "identifier": "MESH:D003139"}, "locations": [{"offset": 2, "length": 4}]}]}]}]}'
)
LABEL, IDS = "type", "identifier"


def read_bioc(path: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
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
            name, (text, rows) = str(document["id"]), _parse_passages(document["passages"])
        # What reading malformed records can raise.
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            report.refuse(place, f"not of this form ({error!r:.80})", FORM)
            continue
        place, written = f"{place} ({name})", []
        for places, mention, infons in rows:
            if len(places) != 1:
                report.leave_out("mentions in several pieces", f"{place}: {mention!r:.60}")
                continue
            label, ids = str(infons.get(LABEL) or ""), str(infons.get(IDS) or "")
            annotation = Annotation(places[0].start, places[0].stop, label, ids, place, context=read_flags(infons))
            written.append((annotation, mention or text[annotation.start : annotation.end]))
        yield AnnotatedText(name, text, place_mentions(text, written, place, report, FORM))


def _parse_passages(passages: Any) -> tuple[str, list[tuple[list[range], str, dict[str, Any]]]]:
    """Join the texts of passages, and list the places, the text and the `infons` of each annotation."""
    text, rows = "", []
    # Some have sentences instead of a text.
    for part in (part for one in passages for part in (one, *(() if one.get("text") else one.get("sentences", ())))):
        offset, own = part["offset"], part.get("text") or ""
        if own and offset < len(text):
            raise ValueError("a passage begins before the one above it has ended")
        text += " " * (offset - len(text)) + own if own else ""
        for annotation in part.get("annotations", []):
            places = [range(at["offset"], at["offset"] + at["length"]) for at in annotation["locations"]]
            rows.append((places, str(annotation.get("text") or ""), dict(annotation.get("infons", {}))))
    return text, rows


def dump_bioc(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a collection. Each document is one passage, and offsets count code points."""
    made = []
    for document in documents:
        rows = []
        for number, annotation in enumerate(document.annotations, 1):
            infons = {LABEL: annotation.label, **({IDS: annotation.kb_id} if annotation.kb_id else {})}
            infons |= write_flags(annotation.context)
            place = {"offset": annotation.start, "length": annotation.end - annotation.start}
            row = {"id": str(number), "infons": infons, "text": document.cut(annotation), "locations": [place]}
            rows.append(row)
        passage = {"offset": 0, "infons": {}, "text": document.text, "sentences": [], "annotations": rows}
        passages = [{**passage, "relations": []}]
        made.append({"id": document.doc_id, "infons": {}, "passages": passages, "relations": []})
    collection = {"source": "spacy-sapbert", "date": "", "key": "", "infons": {}, "documents": made}
    yield "", json.dumps(collection, ensure_ascii=False, indent=1)
