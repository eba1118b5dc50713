"""Brat's standoff form: a text file and an annotation file for each document, with ids as normalizations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from ..context import MentionContext
from ..text import is_written_alike
from .documents import AnnotatedText, Annotation, ExchangeReport, tidy_pieces
from .fields import (
    ALIKE,
    ID_SEPARATOR,
    PIECES,
    name_files,
    plain_text,
    read_lines,
    read_pieces,
    read_text,
    write_pieces,
)

FORM = "T1, tab, type start end, tab, mention; and N1, tab, Reference T1 id, tab, name"
SPANS = re.compile(rf"(\S+) ({PIECES})")
REFERENCE = re.compile(r"\S+ (T\S+) (\S+)")
# The attributes of mentions that stand for the fields of a context: A1, tab, Negated T1.
ATTRIBUTE = re.compile(rf"A\S*\t({'|'.join(word.title() for word in MentionContext._fields)}) (T\S+)")
# Brat's own parser asks for the name of a resource before each id.
RESOURCE = re.compile(r"[^:\s]+:\S+")
# The labels and the mentions that brat can hold.
HOLDS = r"\S+", r"(?!\n)(?=.*\S).*(?<!\n)"


@dataclass
class BratMention:
    """A mention as it stands in the file."""

    type: str
    places: list[tuple[int, int]]  # Starts and ends of its pieces, in code points.
    text: str  # The pieces with spaces between them.
    place: str  # The file and line.
    ids: list[str] = field(default_factory=list)  # As written in its normalizations.
    words: list[str] = field(default_factory=list)  # What its attributes say of its context.

    def is_in_pieces(self, text: str) -> bool:
        """Return whether there is more than white space between the pieces. Brat has a piece for each line."""
        pairs = zip(self.places, self.places[1:], strict=False)
        return bool("".join(text[end:start] for (_, end), (start, _) in pairs).strip())


def parse_brat(text: str, lines: Iterable[tuple[int, str]], label: str, report: ExchangeReport) -> list[BratMention]:
    """Read the numbered lines of a document's annotations. `label` names the file in messages."""
    mentions: dict[str, BratMention] = {}
    ids: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}
    for number, line in lines:
        place = f"{label}, line {number}"
        fields = line.split("\t")
        spans = SPANS.fullmatch(fields[1]) if line.startswith("T") and len(fields) == 3 else None
        reference = REFERENCE.match(fields[1]) if line.startswith("N") and len(fields) > 1 else None
        if spans and fields[0] not in mentions:
            places = read_pieces(spans[2])
            found = " ".join(text[start:end] for start, end in places)
            if not fields[2].strip():
                report.refuse(place, "an empty mention", FORM)
            elif found.split() != fields[2].split() and not is_written_alike(found, fields[2]):
                fault = f"the text at {places} is {found!r:.80}, but the mention is {fields[2]!r:.80}"
                report.refuse(place, fault, FORM)
            else:
                if found.split() != fields[2].split():
                    report.note_odd(ALIKE, f"{place}: {fields[2]!r:.60} for {found!r:.60}")
                mentions[fields[0]] = BratMention(spans[1], sorted(places), fields[2], place)
        elif reference:
            ids.setdefault(reference[1], []).append(reference[2])
        elif attribute := ATTRIBUTE.fullmatch(line):
            words.setdefault(attribute[2], []).append(attribute[1].lower())
        elif line.startswith(("T", "N")):
            report.refuse(place, f"an unknown line, or a second {fields[0]}: {line!r:.60}", FORM)
        elif line.strip():
            report.leave_out("annotations that are neither mentions nor normalizations", place)
    for name, mention in mentions.items():
        mention.ids, mention.words = ids.pop(name, []), words.pop(name, [])
    for kind, left in (("normalizations", ids), ("attributes", words)):
        for name in left:
            report.leave_out(f"{kind} of no mention", f"{label}: {name}")
    return list(mentions.values())


def read_brat(folder: Path, report: ExchangeReport) -> Iterator[AnnotatedText]:
    """Read <document>.txt and <document>.ann at any depth, with mentions that have no normalization too."""
    names = {path.relative_to(folder).with_suffix("") for kind in ("ann", "txt") for path in folder.rglob(f"*.{kind}")}
    if not names:
        report.refuse(str(folder), "there are no .txt and .ann files", FORM)
    for name in sorted(names):
        txt, ann = (folder / f"{name}.{kind}" for kind in ("txt", "ann"))
        if not (txt.is_file() and ann.is_file()):
            report.refuse(str(folder / name), "a text without annotations, or the other way", FORM)
            continue
        # Brat counts a byte order mark as a character, like any other.
        text = read_text(txt, report)
        if text is None:
            continue
        annotations = []
        for mention in parse_brat(text, read_lines(ann, report), ann.relative_to(folder).as_posix(), report):
            ids = ID_SEPARATOR.join(mention.ids)
            context = MentionContext(**dict.fromkeys(mention.words, True)) if mention.words else None
            start, end, pieces = mention.places[0][0], mention.places[-1][1], tuple(mention.places)
            found = Annotation(start, end, mention.type, ids, mention.place, context=context, pieces=pieces)
            annotations.append(tidy_pieces(text, found))
        yield AnnotatedText(name.as_posix(), text, annotations)


def dump_brat(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a text file and an annotation file of each document. Brat shows only ids with a resource and a colon."""
    for name, document in name_files(documents, report):
        lines, references, attributes = [], count(1), count(1)
        for number, annotation in enumerate(document.annotations, 1):
            pieces = []
            for start, end in annotation.pieces or [(annotation.start, annotation.end)]:
                for line in document.text[start:end].split("\n"):
                    pieces += [(start, start + len(line))] if line else []
                    start += len(line) + 1
            mention = plain_text(" ".join(document.text[start:end] for start, end in pieces))
            lines.append(f"T{number}\t{annotation.label} {write_pieces(pieces)}\t{mention}\n")
            for id_ in filter(None, annotation.kb_id.split(ID_SEPARATOR)):
                if not RESOURCE.fullmatch(id_):
                    place = f"document {document.doc_id}: {document.cut(annotation)!r:.60}: {id_}"
                    report.note_odd("ids without a resource and a colon, which brat does not show", place)
                lines.append(f"N{next(references)}\tReference T{number} {id_}\t{mention}\n")
            for word in annotation.context.words if annotation.context else ():
                lines.append(f"A{next(attributes)}\t{word.title()} T{number}\n")
        yield f"{name}.txt", document.text
        yield f"{name}.ann", "".join(lines)
