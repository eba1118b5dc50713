"""Brat's standoff form: a text file and an annotation file for each document, with ids as normalizations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..context import MentionContext
from .documents import AnnotatedText, Annotation
from .fields import ID_SEPARATOR, find_fault_of_id, plain_text, read_kb_id, write_ids
from .inputs import name_file, read_lines, read_text
from .report import ExchangeReport

FORM = "T1, tab, type start end, tab, mention; and N1, tab, Reference T1 id, tab, name"
SPANS = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")
REFERENCE = re.compile(r"\S+ (T\S+) (\S+)")
# The attributes of mentions that stand for the fields of a context: A1, tab, Negated T1.
ATTRIBUTE = re.compile(rf"A\S*\t({'|'.join(word.title() for word in MentionContext._fields)}) (T\S+)")
# Brat's own parser asks for the name of a resource before each id.
RESOURCE = re.compile(r"[^:\s]+:\S+")


@dataclass
class BratMention:
    """A mention as it stands in the file.

    type (str): Its type.
    places (list[tuple[int, int]]): Starts and ends of its pieces, in code points.
    text (str): The pieces with spaces between them.
    ids (list[str]): The ids of its normalizations, as written.
    words (list[str]): What its attributes say of its context.
    place (str): The file and line.
    """

    type: str
    places: list[tuple[int, int]]
    text: str
    place: str
    ids: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def is_in_pieces(self, text: str) -> bool:
        """Tell whether there is more than white space between the pieces. Brat has a piece for each line.

        text (str): The document's text.
        RETURNS (bool): Whether there is.
        """
        pairs = zip(self.places, self.places[1:], strict=False)
        return bool("".join(text[end:start] for (_, end), (start, _) in pairs).strip())


def parse_brat(text: str, lines: Iterable[tuple[int, str]], label: str, report: ExchangeReport) -> list[BratMention]:
    """Read the lines of a document's annotations.

    text (str): The document's text.
    lines (Iterable[tuple[int, str]]): The lines with their numbers.
    label (str): The name of the file, for messages.
    report (ExchangeReport): Gets malformed records, and annotations that are no mentions.
    RETURNS (list[BratMention]): The mentions in their order.
    """
    mentions: dict[str, BratMention] = {}
    ids: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}
    for number, line in lines:
        place = f"{label}, line {number}"
        fields = line.split("\t")
        spans = SPANS.fullmatch(fields[1]) if line.startswith("T") and len(fields) == 3 else None
        reference = REFERENCE.match(fields[1]) if line.startswith("N") and len(fields) > 1 else None
        if spans and fields[0] not in mentions:
            places = [(int(start), int(end)) for start, end in (span.split(" ") for span in spans[2].split(";"))]
            mention = BratMention(spans[1], places, fields[2], place)
            if fault := _find_fault(text, mention):
                report.refuse(place, fault, FORM)
            else:
                mention.places.sort()
                mentions[fields[0]] = mention
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
    for kind, of_none in (("normalizations", ids), ("attributes", words)):
        for name in of_none:
            report.leave_out(f"{kind} of no mention", f"{label}: {name}")
    return list(mentions.values())


def _find_fault(text: str, mention: BratMention) -> str | None:
    found = " ".join(text[start:end] for start, end in mention.places)
    if not mention.text.strip():
        return "an empty mention"
    if found.split() != mention.text.split():
        return f"the text at {mention.places} is {found!r:.80}, but the mention is {mention.text!r:.80}"
    return None


def read_brat(folder: Path, report: ExchangeReport, prefix: str = "") -> Iterator[AnnotatedText]:
    """Read documents with all their mentions, those without a normalization too.

    folder (Path): The folder, with <document>.txt and <document>.ann at any depth.
    report (ExchangeReport): Gets malformed records, and mentions in several pieces.
    prefix (str): What stands before each id in the files only, such as "UMLS:".
    YIELDS (AnnotatedText): The documents.
    """
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
        mentions = parse_brat(text, read_lines(ann, report), ann.relative_to(folder).as_posix(), report)
        made = [_make_annotation(text, mention, prefix, report) for mention in mentions]
        yield AnnotatedText(name.as_posix(), text, [annotation for annotation in made if annotation])


def _make_annotation(text: str, mention: BratMention, prefix: str, report: ExchangeReport) -> Annotation | None:
    if mention.is_in_pieces(text):
        report.leave_out("mentions in several pieces", f"{mention.place}: {mention.text!r:.60}")
        return None
    kb_id = read_kb_id(ID_SEPARATOR.join(mention.ids), prefix)
    context = MentionContext(**dict.fromkeys(mention.words, True)) if mention.words else None
    start, end = mention.places[0][0], mention.places[-1][1]
    return Annotation(start, end, mention.type, kb_id, mention.place, context=context)


def write_brat(documents: Iterable[AnnotatedText], folder: Path, report: ExchangeReport, prefix: str = "") -> None:
    """Write a text file and an annotation file for each document.

    documents (Iterable[AnnotatedText]): The documents.
    folder (Path): The folder to write to.
    report (ExchangeReport): Gets what brat cannot hold: types with spaces in them, and mentions that begin or end with
        a line break, because brat has a piece for each line.
    prefix (str): What is put before each id, such as "UMLS:". Brat shows ids only that have a resource before a colon.
    """
    taken: set[str] = set()
    for document in documents:
        name = name_file(document.doc_id, taken, report)
        (folder / f"{name}.txt").write_bytes(document.text.encode("utf8"))
        lines = list(_make_lines(document, prefix, report))
        (folder / f"{name}.ann").write_bytes("".join(f"{line}\n" for line in lines).encode("utf8"))


def _make_lines(document: AnnotatedText, prefix: str, report: ExchangeReport) -> Iterator[str]:
    n_mentions = n_references = n_attributes = 0
    for annotation in document.annotations:
        mention = document.text[annotation.start : annotation.end]
        place = f"document {document.doc_id}: {mention!r:.60}"
        if fault := _find_unwritable(annotation, mention):
            report.refuse(place, fault, FORM)
            continue
        n_mentions += 1
        places = ";".join(f"{start} {end}" for start, end in _list_pieces(annotation.start, mention))
        written = plain_text(" ".join(line for line in mention.split("\n") if line))
        yield f"T{n_mentions}\t{annotation.label} {places}\t{written}"
        for id_ in write_ids(annotation.kb_id, prefix):
            n_references += 1
            if not RESOURCE.fullmatch(id_):
                report.note_odd("ids without a resource and a colon, which brat does not show", f"{place}: {id_}")
            yield f"N{n_references}\tReference T{n_mentions} {id_}\t{written}"
        for word in annotation.context.words if annotation.context else ():
            n_attributes += 1
            yield f"A{n_attributes}\t{word.title()} T{n_mentions}"


def _find_unwritable(annotation: Annotation, mention: str) -> str | None:
    if re.fullmatch(r"\S+", annotation.label) is None:
        return f"the label {annotation.label!r:.80} is empty or has white space in it"
    if not mention.strip():
        return "a mention of white space"
    if mention.startswith("\n") or mention.endswith("\n"):
        return "a mention that begins or ends with a line break"
    return find_fault_of_id(annotation.kb_id)


def _list_pieces(start: int, mention: str) -> Iterator[tuple[int, int]]:
    for line in mention.split("\n"):
        if line:
            yield start, start + len(line)
        start += len(line) + 1
