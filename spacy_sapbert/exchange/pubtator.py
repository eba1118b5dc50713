"""PubTator's form: title, abstract, and a line with offsets for each mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .documents import AnnotatedText, Annotation, ExchangeReport
from .fields import BREAK, ID_SEPARATOR, decode_mentions, find_misfit, list_writable, plain_text, read_kb_id, read_lines

FORM = "PMID|t|title, PMID|a|abstract, then lines of PMID, start, end, mention, type and ids with tabs between them"
TEXT_LINE = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
RELATION_FIELDS = 4
NAME = re.compile(r"[^|\s](?:[^|\t\r\n]*[^|\s])?")


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
        found = TEXT_LINE.fullmatch(line)
        fields = line.split("\t")
        doc_id = found[1].strip() if found else fields[0].strip()
        if document and (not line.strip() or (found and doc_id != document.doc_id)):
            yield document
            document = None
        if not line.strip():
            continue
        if found:
            document = document or PubTatorDocument(doc_id, place)
            kind = "title" if found[2] == "t" else "abstract"
            if getattr(document, kind) is not None or document.lines:
                report.refuse(f"{place}, document {doc_id}", f"a second {kind}, or one below mentions", FORM)
            else:
                setattr(document, kind, found[3])
        elif document is None or doc_id != document.doc_id:
            report.refuse(f"{place}, document {doc_id:.40}", "a line that belongs to no title above it", FORM)
        else:
            document.lines.append((number, fields))
    if document:
        yield document


def find_fault(text: str, fields: list[str]) -> str | None:
    """Tell why a line is no mention of a text."""
    if not (fields[1].strip().isdecimal() and fields[2].strip().isdecimal()):
        return f"the offsets {fields[1]!r:.20} and {fields[2]!r:.20} are not both numbers"
    if not fields[3].strip():
        return "an empty mention"
    # NCBI-disease has a mention with two spaces at its end that the text does not have.
    return find_misfit(text, int(fields[1]), int(fields[2]), fields[3])


def list_mention_lines(
    document: PubTatorDocument, label: str, report: ExchangeReport
) -> Iterator[tuple[str, list[str]]]:
    """List the places and the five to seven fields of mentions. Their offsets may not fit yet, see `find_fault`."""
    for number, fields in document.lines:
        place = f"{label}, line {number}, document {document.doc_id}"
        if len(fields) == RELATION_FIELDS:
            report.leave_out("relations", place)
        elif len(fields) not in (5, 6, 7):
            report.refuse(place, f"{len(fields)} fields between tabs", FORM)
        else:
            yield place, fields


def read_pubtator(path: Path, report: ExchangeReport, prefix: str = "") -> Iterator[AnnotatedText]:
    """Read documents with all their mentions, those without an id too."""
    for document in parse_pubtator(read_lines(path, report), path.name, report):
        # A document without an abstract may have an empty one, which adds no space.
        text = document.text if document.abstract else plain_text(document.title or "")
        lines = list(list_mention_lines(document, path.name, report))
        if all(fields[1].isdecimal() and fields[2].isdecimal() for _, fields in lines):
            mentions = [(int(fields[1]), int(fields[2]), fields[3]) for _, fields in lines]
            decoded = decode_mentions(text, mentions, f"{document.place}, document {document.doc_id}", report)
            for (_, fields), ends in zip(lines, decoded, strict=True):
                fields[1:3] = map(str, ends)
        annotations = []
        for place, fields in lines:
            if fault := find_fault(text, fields):
                report.refuse(place, fault, FORM)
                continue
            kb_id = read_kb_id(fields[5], prefix) if len(fields) > 5 else ""
            annotations.append(Annotation(int(fields[1]), int(fields[2]), fields[4].strip(), kb_id, place))
        yield AnnotatedText(document.doc_id, text, annotations)


def write_pubtator(documents: Iterable[AnnotatedText], path: Path, report: ExchangeReport, prefix: str = "") -> None:
    """Write documents. The first line or sentence is the title, the rest is the abstract."""
    with path.open("w", encoding="utf8", newline="\n") as file:
        for document in documents:
            place = f"document {document.doc_id}"
            if not NAME.fullmatch(document.doc_id):
                report.refuse(place, f"the name {document.doc_id!r:.80} has a bar, a tab or spaces at its ends", FORM)
                continue
            if BREAK.search(document.text):
                report.note_odd("documents with line breaks or tabs, which become spaces", place)
            found = re.search(r"\n|(?<=[.!?]) ", document.text)
            # An empty abstract adds no space when it is read.
            cut = found.start() if found and found.end() < len(document.text) else len(document.text)
            for kind, part in (("t", document.text[:cut]), ("a", document.text[cut + 1 :])):
                file.write(f"{document.doc_id}|{kind}|{plain_text(part)}\n")
            for annotation, mention, ids in list_writable(document, report, FORM, prefix, _find_unwritable):
                values = (document.doc_id, annotation.start, annotation.end, plain_text(mention), annotation.label)
                file.write("\t".join(map(str, values)) + f"\t{ID_SEPARATOR.join(ids)}\n")
            file.write("\n")


def _find_unwritable(annotation: Annotation, mention: str) -> str | None:
    if not annotation.label.strip() or annotation.label != plain_text(annotation.label).strip():
        return f"the label {annotation.label!r:.80} is empty, or has a tab, a line break or spaces at its ends"
    return None if plain_text(mention).strip() else "a mention of white space"
