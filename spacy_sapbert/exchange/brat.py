"""Brat's standoff form: a text file and an annotation file for each document, with ids as normalizations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, filterfalse
from pathlib import Path

from ..context import FLAGS, MentionContext
from ..text import is_written_alike
from .documents import AnnotatedText, Annotation, ExchangeReport, tidy_pieces
from .fields import (
    ALIKE,
    ID_SEPARATOR,
    PIECES,
    name_files,
    plain_text,
    read_identifiers,
    read_lines,
    read_pieces,
    read_text,
    write_pieces,
)

FORM = "T1, tab, type start end, tab, mention; and N1, tab, Reference T1 id, tab, name"
# A type is one word for brat; several words are one if the last of them can't be an offset.
SPANS = re.compile(rf"(\S+|\S.* [^\d\s]\S*) ({PIECES})")
# Codes in the notes on a mention, as in QUAERO: #1, tab, AnnotatorNotes T1, tab, C0009443.
NOTE = re.compile(r"#\S*\tAnnotatorNotes (T\S+)\t(.*)")
REFERENCE = re.compile(r"\S+ (T\S+) (\S+)")
# The attributes of mentions that stand for the fields of a context: A1, tab, Negated T1.
ATTRIBUTE = re.compile(rf"A\S*\t({'|'.join(word.title() for word in FLAGS)}) (T\S+)")
# Brat's own parser asks for the name of a resource before each id.
RESOURCE = re.compile(r"[^:\s]+:\S+")
# The labels and the mentions that brat can hold.
HOLDS = r"\S+", r"(?!\n)(?=.*\S).*(?<!\n)"


def parse_brat(
    text: str, lines: Iterable[tuple[int, str]], label: str, report: ExchangeReport
) -> list[tuple[Annotation, str]]:
    """Read the numbered lines of a document's annotations, each with its mention as it is written. Brat has a piece for
    each line of a mention. `label` names the file in messages."""
    mentions: dict[str, tuple[Annotation, str]] = {}
    ids: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}
    for number, line in lines:
        place = f"{label}, line {number}"
        fields = line.split("\t")
        spans = SPANS.fullmatch(fields[1]) if line.startswith("T") and len(fields) == 3 else None
        reference = REFERENCE.match(fields[1]) if line.startswith("N") and len(fields) > 1 else None
        if spans and fields[0] not in mentions:
            name, _, mention = fields
            pieces = read_pieces(spans[2])
            own = " ".join(text[start:end] for start, end in pieces)
            is_equal = own.split() == mention.split()
            if not mention.strip():
                report.refuse(place, "an empty mention", FORM)
            elif not is_equal and not is_written_alike(own, mention):
                fault = f"the text at {pieces} is {own!r:.80}, but the mention is {mention!r:.80}"
                report.refuse(place, fault, FORM)
            else:
                if not is_equal:
                    report.note_odd(ALIKE, f"{place}: {mention!r:.60} for {own!r:.60}")
                if " " in spans[1]:
                    report.note_odd("mentions whose type has a space, which brat itself doesn't read", place)
                pieces.sort()
                ends = pieces[0][0], pieces[-1][1]
                mentions[name] = Annotation(*ends, spans[1], place=place, pieces=tuple(pieces)), mention
        elif reference:
            ids.setdefault(reference[1], []).append(reference[2])
        elif attribute := ATTRIBUTE.fullmatch(line):
            words.setdefault(attribute[2], []).append(attribute[1].lower())
        elif (note := NOTE.fullmatch(line)) and (codes := read_identifiers(note[2])):
            notes.setdefault(note[1], []).append(codes)
        elif line.startswith(("T", "N")):
            report.refuse(place, f"an unknown line, or a second {fields[0]}: {line!r:.60}", FORM)
        elif line.strip():
            report.leave_out("annotations that are neither mentions nor normalizations", place)
    for name in filter(ids.__contains__, notes):
        report.leave_out("codes in notes on mentions that have a normalization", f"{label}: {name}")
    ids = notes | ids
    for kind, of_mentions in (("normalizations", ids), ("attributes", words)):
        for name in filterfalse(mentions.__contains__, of_mentions):
            report.leave_out(f"{kind} of no mention", f"{label}: {name}")
    contexts = {name: MentionContext.of(of_mention) for name, of_mention in words.items()}
    complete = []
    for name, (annotation, mention) in mentions.items():
        kb_id = ID_SEPARATOR.join(ids.get(name, ()))
        complete.append((replace(annotation, kb_id=kb_id, context=contexts.get(name)), mention))
    return complete


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
        label = ann.relative_to(folder).as_posix()
        mentions = parse_brat(text, read_lines(ann, report), label, report)
        yield AnnotatedText(name.as_posix(), text, [tidy_pieces(text, annotation) for annotation, _ in mentions])


def dump_brat(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, str]]:
    """Make a text file and an annotation file of each document. Brat shows only ids with a resource and a colon."""
    for name, document in name_files(documents, report):
        lines = []
        references = count(1)
        attributes = count(1)
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
