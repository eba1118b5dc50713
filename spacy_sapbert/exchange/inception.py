"""INCEpTION's export as UIMA CAS JSON: a file for each document, with concepts as identifiers of named entities.

Offsets count units of UTF-16, as UIMA does, and are converted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .documents import AnnotatedText, Annotation, ExchangeReport
from .fields import count_utf16, name_files, parse_json, read_text

FORM = "UIMA CAS JSON, with %FEATURE_STRUCTURES of which one is the text, a uima.cas.Sofa"
SOFA, DOCUMENT, VIEW = "uima.cas.Sofa", "uima.tcas.DocumentAnnotation", "_InitialView"
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
LABEL, IDENTIFIER = "value", "identifier"
# Layers that INCEpTION has in each document: tokens, sentences and what it knows of the file.
OWN_LAYERS = (".segmentation.type.", ".metadata.type.", "uima.")
_FEATURES = {name: {"%NAME": name, "%RANGE": "uima.cas.String"} for name in (LABEL, IDENTIFIER)}
TYPES = {NAMED_ENTITY: {"%NAME": NAMED_ENTITY, "%SUPER_TYPE": "uima.tcas.Annotation", **_FEATURES}}


def read_inception(folder: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read .json files at any depth. Mentions are named entities, and whatever else has an identifier."""
    paths = sorted(folder.rglob("*.json"), key=lambda path: path.with_suffix(""))
    if not paths:
        report.refuse(str(folder), "there are no .json files", FORM)
    for path in paths:
        data = parse_json(read_text(path, report), str(path), report, FORM)
        if data is None:
            continue
        structures = data.get("%FEATURE_STRUCTURES") if isinstance(data, dict) else None
        if isinstance(structures, dict):
            # Older files have their structures by number, which is text in JSON.
            structures = [{"%ID": id_, **row} for id_, row in structures.items() if isinstance(row, dict)]
        rows = [row for row in structures if isinstance(row, dict)] if isinstance(structures, list) else []
        texts = [row for row in rows if row.get("%TYPE") == SOFA and isinstance(row.get("sofaString"), str)]
        # Other views of a document are no text of its own.
        texts = [row for row in texts if row.get("sofaID") == VIEW] or texts
        if len(texts) != 1:
            report.refuse(str(path), f"{len(texts)} texts", FORM)
            continue
        text, id_ = texts[0]["sofaString"], str(texts[0].get("%ID"))
        found = [row for row in rows if str(row.get("@sofa")) == id_ and row.get("%TYPE") != SOFA]
        name = path.relative_to(folder).with_suffix("").as_posix()
        yield AnnotatedText(name, text, list(_parse_annotations(text, found, path.name, report)))


def _parse_annotations(
    text: str, rows: list[dict[str, Any]], label: str, report: ExchangeReport
) -> Iterator[Annotation]:
    points = {unit: point for point, unit in enumerate(count_utf16(text))}
    for row in rows:
        kind, identifier = str(row.get("%TYPE")), row.get(IDENTIFIER)
        place = f"{label}, feature structure {row.get('%ID')}"
        if kind != NAMED_ENTITY and not isinstance(identifier, str):
            if not any(own in kind for own in OWN_LAYERS):
                report.leave_out(f"annotations of the layer {kind}, which have no {IDENTIFIER}", place)
            continue
        # What is 0 may be left out in JSON.
        begin, end = row.get("begin", 0), row.get("end", 0)
        start, stop = (points.get(at) if type(at) is int else None for at in (begin, end))
        if start is None or stop is None or start >= stop:
            report.refuse(place, f"no mention is from {begin!r:.20} to {end!r:.20}, in units of UTF-16", FORM)
        else:
            label_ = str(row.get(LABEL) or kind.rpartition(".")[2])
            yield Annotation(start, stop, label_, str(identifier or ""), place)


def dump_inception(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a file of each document."""
    for name, document in name_files(documents, report):
        units = count_utf16(document.text)
        sofa = {"%ID": 1, "%TYPE": SOFA, "sofaNum": 1, "sofaID": VIEW, "mimeType": "text", "sofaString": document.text}
        rows = [{"%ID": 2, "%TYPE": DOCUMENT, "@sofa": 1, "begin": 0, "end": units[-1], "language": "x-unspecified"}]
        for id_, annotation in enumerate(document.annotations, 3):
            row = {"%ID": id_, "%TYPE": NAMED_ENTITY, "@sofa": 1, "begin": units[annotation.start]}
            row |= {"end": units[annotation.end], LABEL: annotation.label}
            rows.append(row | ({IDENTIFIER: annotation.kb_id} if annotation.kb_id else {}))
        view = {VIEW: {"%SOFA": 1, "%MEMBERS": [row["%ID"] for row in rows]}}
        cas = {"%TYPES": TYPES, "%FEATURE_STRUCTURES": [sofa, *rows], "%VIEWS": view}
        yield f"{name}.json", json.dumps(cas, ensure_ascii=False, indent=1)


def find_inception_fault(annotation: Annotation, mention: str) -> str | None:
    """Tell why a mention would be read back as another one."""
    return None if annotation.label else "a mention without a label would be read back with another one"
