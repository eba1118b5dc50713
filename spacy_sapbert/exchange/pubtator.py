"""PubTator's form: title, abstract, and a line with offsets for each mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .documents import AnnotatedText, Annotation, ExchangeReport
from .fields import BREAK, is_offset, place_mentions, plain_text, read_lines

FORM = "PMID|t|title, PMID|a|abstract, then lines of PMID, start, end, mention, type and ids with tabs between them"
TEXT_LINE = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
RELATION_FIELDS = 4
LABEL = r"\S(?:[^\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]*\S)?"
# The labels, the mentions and the names of documents that the form can hold.
HOLDS = LABEL, r".*\S.*", r"[^|\s](?:[^|\t\r\n]*[^|\s])?"


@dataclass
class PubTatorDocument:
    """A document as it stands in the file."""

    doc_id: str
    place: str  # The file and line of its start.
    title: str | None = None
    abstract: str | None = None
    lines: list[tuple[int, list[str]]] = field(default_factory=list)  # Numbers and fields of the lines below.

    @property
    def text(self) -> str:
        """The text that offsets refer to: title, one character, abstract."""
        return plain_text(" ".join(part for part in (self.title, self.abstract) if part is not None))


def parse_pubtator(lines: Iterable[tuple[int, str]], label: str, report: ExchangeReport) -> Iterator[PubTatorDocument]:
    """Read the documents of numbered lines. Empty lines end them, and so does another PMID."""
    document: PubTatorDocument | None = None
    for number, line in lines:
        place = f"{label}, line {number}"
        match = TEXT_LINE.fullmatch(line)
        fields = line.split("\t")
        doc_id = match[1].strip() if match else fields[0].strip()
        if document and (not line.strip() or (match and doc_id != document.doc_id)):
            yield document
            document = None
        if not line.strip():
            continue
        if match:
            document = document or PubTatorDocument(doc_id, place)
            kind = "title" if match[2] == "t" else "abstract"
            if getattr(document, kind) is not None or document.lines:
                report.refuse(f"{place}, document {doc_id}", f"a second {kind}, or one below mentions", FORM)
            else:
                setattr(document, kind, match[3])
        elif document is None or doc_id != document.doc_id:
            report.refuse(f"{place}, document {doc_id:.40}", "a line that belongs to no title above it", FORM)
        else:
            document.lines.append((number, fields))
    if document:
        yield document


def list_mention_lines(
    document: PubTatorDocument, label: str, report: ExchangeReport
) -> Iterator[tuple[str, list[str]]]:
    """List the places and the five to seven fields of mentions. Their offsets are numbers, which may not fit yet."""
    for number, fields in document.lines:
        place = f"{label}, line {number}, document {document.doc_id}"
        if len(fields) == RELATION_FIELDS:
            report.leave_out("relations", place)
        elif len(fields) not in (5, 6, 7):
            report.refuse(place, f"{len(fields)} fields between tabs", FORM)
        elif not (is_offset(fields[1].strip()) and is_offset(fields[2].strip())):
            fault = f"the offsets {fields[1]!r:.20} and {fields[2]!r:.20} are not both numbers"
            report.refuse(place, fault, FORM)
        elif not fields[3].strip():
            report.refuse(place, "an empty mention", FORM)
        else:
            yield place, fields


def read_pubtator(path: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read documents with all their mentions, those without an id too."""
    for document in parse_pubtator(read_lines(path, report), path.name, report):
        # A document without an abstract may have an empty one, which adds no space.
        text = document.text if document.abstract else plain_text(document.title or "")
        written = []
        for place, fields in list_mention_lines(document, path.name, report):
            _, start, end, mention, label, *ids = fields
            kb_id = ids[0] if ids else ""
            annotation = Annotation(int(start), int(end), label.strip(), kb_id, place)
            written.append((annotation, mention))
        place = f"{document.place}, document {document.doc_id}"
        yield AnnotatedText(document.doc_id, text, place_mentions(text, written, place, report, FORM))


def dump_pubtator(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a file of documents. The first line or sentence is the title, the rest is the abstract."""
    lines = []
    for document in documents:
        name = document.doc_id
        text = document.text
        place = f"document {document.doc_id}"
        if BREAK.search(text):
            report.note_odd("documents with line breaks or tabs, which become spaces", place)
        match = re.search(r"\n|(?<=[.!?]) ", text)
        # An empty abstract adds no space when it is read.
        cut = match.start() if match and match.end() < len(text) else len(text)
        lines += [f"{name}|t|{plain_text(text[:cut])}", f"{name}|a|{plain_text(text[cut + 1 :])}"]
        for annotation in document.annotations:
            mention = plain_text(document.cut(annotation))
            fields = (name, str(annotation.start), str(annotation.end), mention, annotation.label, annotation.kb_id)
            lines.append("\t".join(fields))
        lines.append("")
    yield "", "".join(f"{line}\n" for line in lines)
