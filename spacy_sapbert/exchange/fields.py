"""What the text formats share: ids, contexts and offsets as they are written, and the files of other tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from ..annotations import NIL
from ..context import FLAGS, MentionContext
from ..files import check_is_file
from ..text import ID_SEPARATOR as ID_SEPARATOR
from ..text import is_written_alike
from .documents import AnnotatedText, Annotation, ExchangeReport, number_name

# White space as well: ids are written to files with tabs between fields.
ANY_ID_SEPARATOR = re.compile(r"[|+,;\s]")
# Prefixes of ids in NCBI-disease, BC5CDR, CTD and MedMentions that their dictionaries lack.
PREFIX = re.compile(r"^(?:MESH|OMIM|UMLS):", re.IGNORECASE)
# Signs of NIL in corpora.
NIL_SIGNS = frozenset({"", "-1", "-", "nil", "none", "null", "cui-less", "cuiless", "concept_less"})
# What names a concept where a tool has no field for ids: a CUI, a code of MeSH, SNOMED CT or ICD-10, a CURIE, a URI.
IDENTIFIER = re.compile(
    r"https?://\S*\d\S*|[A-Za-z][\w.-]*:\S*\d\S*\d\S*|[A-Za-z]{0,8}_?\d{5,}|[A-Z]\d[\dA-Z]\.[\dA-Z]{1,4}|NIL|CUI-less"
)
# Strings of JSON; keys have a colon behind them.
JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?')
# Starts and ends of the pieces of a mention.
PIECES = r"\d{1,9} \d{1,9}(?:;\d{1,9} \d{1,9})*"
ALIKE = "mentions that are written otherwise than in their text, such as 'TNF-a' for 'TNF-α'"
BREAK = re.compile(r"[\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def split_ids(raw: str, *, keep_prefixes: bool = False) -> list[str]:
    """Split a field of ids with any separators into distinct ids, without signs of NIL and prefixes such as "MESH:"."""
    ids = (part if keep_prefixes else PREFIX.sub("", part) for part in ANY_ID_SEPARATOR.split(raw))
    return list(dict.fromkeys(part for part in ids if part.lower() not in NIL_SIGNS))


def read_kb_id(written: str, prefix: str = "") -> str:
    """Make the `kb_id_` of a field of ids: "NIL" for a sign of NIL, and "" for an empty field."""
    if not written.strip():
        return ""
    parts = [part.removeprefix(prefix) for part in ANY_ID_SEPARATOR.split(written.strip())]
    return ID_SEPARATOR.join(split_ids(ID_SEPARATOR.join(parts), keep_prefixes=True)) or NIL


def read_identifiers(written: str) -> str:
    """Join the words of a label or a note if each of them is an id; "" if there is any other word."""
    words = [word for word in ANY_ID_SEPARATOR.split(written) if word]
    return ID_SEPARATOR.join(words) if all(map(IDENTIFIER.fullmatch, words)) else ""


def is_offset(written: str) -> bool:
    """Return whether a field is an offset. Python refuses to read numbers of thousands of digits."""
    return written.isdecimal() and len(written) < 10


def join_ids(value: Any, place: str, report: ExchangeReport, form: str) -> str:
    """Join the ids that a value of JSON has: one, several or none. Anything but text and numbers is refused."""
    ids = [one for one in (value if isinstance(value, list) else [value]) if one]
    if any(isinstance(one, (dict, list)) for one in ids):
        report.refuse(place, f"{value!r:.60} in place of an id", form)
        return ""
    return ID_SEPARATOR.join(map(str, ids))


def write_flags(context: MentionContext | None) -> dict[str, str]:
    """Write "true" or "false" for each field of a context, and nothing where nobody has said."""
    return {word: str(is_true).lower() for word, is_true in context.flags.items()} if context else {}


def read_flags(values: Mapping[str, Any]) -> MentionContext | None:
    """Read the fields of a context; None if no value is true or false."""
    flags = {word: str(values.get(word, "")).lower() for word in FLAGS}
    if not {"true", "false"} & set(flags.values()):
        return None
    return MentionContext.of(word for word, flag in flags.items() if flag == "true")


def write_pieces(pieces: Iterable[tuple[int, int]]) -> str:
    """Write starts and ends of pieces as brat does: "0 4;13 25"."""
    return ";".join(f"{start} {end}" for start, end in pieces)


def read_pieces(written: str) -> list[tuple[int, int]]:
    """Read what has the form of `PIECES`."""
    return [(int(start), int(end)) for start, end in (piece.split(" ") for piece in written.split(";"))]


def is_in_pieces(written: str, start: int | str, end: int | str) -> bool:
    """Return whether a field has the form of `PIECES`, from the start of a mention to its end."""
    return re.fullmatch(rf"(?={start} ){PIECES}(?<= {end})", written) is not None


def plain_text(text: str) -> str:
    """Replace each tab and line end by a space, so that offsets stay as they are."""
    return BREAK.sub(" ", text)


def find_misfit(text: str, start: int, end: int, mention: str) -> str | None:
    """Say why a mention is not where its offsets say. Spaces may differ, as they do in some corpora."""
    part = text[max(start, 0) : max(end, 0)]
    if not 0 <= start <= end or part.split() != mention.split():
        return f"the text from {start} to {end} is {part!r:.80}, but the mention is {mention!r:.80}"
    return None


def _find_misfit(text: str, annotation: Annotation, mention: str) -> tuple[str | None, bool]:
    """Do the same for an annotation, and say whether its mention differs from the text in writing only. A mention in
    pieces may have dots between them, or all of the text."""
    start = annotation.start
    end = annotation.end
    fault = find_misfit(text, start, end, mention)
    if not fault or start < 0 or end < start:
        return fault, False
    ways = [(text[start:end], mention)]
    if len(annotation.pieces) > 1:
        pieces = " ".join(text[first:last] for first, last in annotation.pieces)
        without_dots = mention.replace("...", " ")
        if pieces.split() == without_dots.split():
            return None, False
        ways.append((pieces, without_dots))
    is_alike = any(is_written_alike(*way) for way in ways)
    return (None if is_alike else fault), is_alike


def count_utf16(text: str) -> list[int]:
    """Count the units of UTF-16 before each character and at the end: those beyond U+FFFF, such as emojis, have two."""
    return [0, *accumulate(2 if ord(character) > 0xFFFF else 1 for character in text)]


def place_mentions(
    text: str, written: Sequence[tuple[Annotation, str]], place: str, report: ExchangeReport, form: str
) -> list[Annotation]:
    """Keep the annotations of a document whose offsets fit the mentions that are written beside them. Offsets become
    code points if all mentions fit as units of UTF-16, and better than as code points."""
    misfits = [_find_misfit(text, *pair) for pair in written]
    if any(fault or is_alike for fault, is_alike in misfits) and max(text, default="") > "\uffff":
        points = {unit: point for point, unit in enumerate(count_utf16(text))}
        decoded = [(_decode(annotation, points), mention) for annotation, mention in written]
        others = [_find_misfit(text, *pair) for pair in decoded]
        if _rate(others) < min(_rate(misfits), (True, 0)):
            report.note_odd("documents with offsets in units of UTF-16, which are converted", place)
            written = decoded
            misfits = others
    placed = []
    for (annotation, mention), (fault, is_alike) in zip(written, misfits, strict=True):
        if fault:
            report.refuse(annotation.place, fault, form)
            continue
        if is_alike:
            own = text[annotation.start : annotation.end]
            report.note_odd(ALIKE, f"{annotation.place}: {mention!r:.60} for {own!r:.60}")
        placed.append(annotation)
    return placed


def _rate(misfits: Iterable[tuple[str | None, bool]]) -> tuple[bool, int]:
    """Say whether any mention is not where its offsets say, and how many differ in writing."""
    faults, alike = zip(*misfits, strict=True)
    return any(faults), sum(alike)


def _decode(annotation: Annotation, points: Mapping[int, int]) -> Annotation:
    start = points.get(annotation.start, -1)
    end = points.get(annotation.end, -1)
    pieces = tuple((points.get(first, -1), points.get(last, -1)) for first, last in annotation.pieces)
    return replace(annotation, start=start, end=end, pieces=pieces)


def name_files(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, AnnotatedText]]:
    """Make a file's name of each document's, with "%" for characters that files cannot have in their names everywhere.
    A file system may take capitals for small letters."""
    names: set[str] = set()
    for document in documents:
        name = quote(document.doc_id, safe=" #()+,;=@[]")
        if name != document.doc_id:
            kind = "documents whose names are not file names, with % for other characters"
            report.note_odd(kind, document.doc_id)
        number = number_name(name.lower(), names)[len(name) :]
        if number:
            report.note_odd("documents whose names differ in capitals only, which get a number", document.doc_id)
        yield name + number, document


def read_text(path: Path, report: ExchangeReport) -> str | None:
    """Read a file as text, with its line ends: offsets count them. None if it is no UTF-8, and errors are skipped."""
    check_is_file(path)
    try:
        return path.read_bytes().decode("utf8")
    except UnicodeDecodeError as error:
        report.refuse(str(path), f"byte {error.start + 1} is not UTF-8", "text in UTF-8")
        return None


def read_lines(path: Path, report: ExchangeReport) -> Iterator[tuple[int, str]]:
    r"""Number the lines of a text file, from 1. Each ends at \n or \r\n. A byte order mark at the start is dropped."""
    text = (read_text(path, report) or "").removeprefix("\ufeff")
    yield from enumerate((line.removesuffix("\r") for line in text.split("\n")), 1)


def parse_json(text: str | None, place: str, report: ExchangeReport, form: str) -> Any:
    """Read JSON; None if there is no text, or if it is refused and errors are skipped."""
    if text is None:
        return None
    try:
        data = json.loads(text.removeprefix("\ufeff"))
        # Half a character, which JSON can spell ("\ud83d") and no file can hold.
        json.dumps(data, ensure_ascii=False).encode("utf8")
    except (ValueError, RecursionError) as error:
        report.refuse(place, f"no valid JSON ({error!s:.120})", form)
        return None
    return data


def parse_values(text: str | None, place: str, report: ExchangeReport, form: str) -> Iterator[Any]:
    """Read JSON, or the objects of lines of JSON."""
    numbered = enumerate((text or "").removeprefix("\ufeff").split("\n"), 1)
    lines = {number: line for number, line in numbered if line.strip()}
    if len(lines) > 1 and all(line.startswith("{") for line in lines.values()):
        values = [parse_json(line, f"{place}, line {number}", report, form) for number, line in lines.items()]
    else:
        values = [parse_json(text, place, report, form)]
    yield from (value for value in values if value is not None)


def list_keys(text: str) -> list[str]:
    """List the distinct keys in JSON or lines of JSON, at any depth."""
    strings = JSON_STRING.finditer(text) if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")) else ()
    return list(dict.fromkeys(string[1] for string in strings if string[2]))


def parse_xml(data: bytes, place: str, report: ExchangeReport, form: str) -> Element | None:
    """Read XML; None if it is refused and errors are skipped. So are entities of its own: a few lines of them can stand
    for gigabytes, or for another file."""
    builder = TreeBuilder()
    parser = expat.ParserCreate()

    def refuse(name: str, *_: Any) -> None:
        raise ValueError(f"the entity {name!r:.40}, which XML does not have by itself")

    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    # Entities that the file does not declare would be left out of the text.
    parser.DefaultHandlerExpand = lambda markup: refuse(markup) if markup.startswith("&") else None
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, ValueError) as error:
        report.refuse(place, f"no valid XML ({error!s:.120})", form)
        return None


def parse_records(
    lines: Iterable[tuple[int, str]], label: str, report: ExchangeReport, form: str
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Read the numbers, places and objects of lines of JSON, each with a text."""
    for number, line in lines:
        place = f"{label}, line {number}"
        record = parse_json(line, place, report, form) if line.strip() else None
        if isinstance(record, dict) and isinstance(record.get("text"), str):
            yield number, place, record
        elif record is not None:
            report.refuse(place, "no object with a text under 'text'", form)
