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

from ..annotations import NIL
from ..context import MentionContext
from ..errors import NO_FILE
from .documents import AnnotatedText, Annotation, ExchangeReport, number_name

# Between several ids of one mention in `kb_id_`.
ID_SEPARATOR = "|"
# White space as well: ids are written to files with tabs between fields.
ANY_ID_SEPARATOR = re.compile(r"[|+,;\s]")
# Prefixes of ids in NCBI-disease, BC5CDR, CTD and MedMentions that their dictionaries lack.
PREFIX = re.compile(r"^(?:MESH|OMIM|UMLS):", re.IGNORECASE)
# Signs of NIL in corpora.
NIL_SIGNS = frozenset({"", "-1", "-", "nil", "none", "null", "cui-less", "cuiless", "concept_less"})
# Starts and ends of the pieces of a mention.
PIECES = r"\d+ \d+(?:;\d+ \d+)*"
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


def write_flags(context: MentionContext | None) -> dict[str, str]:
    """Write "true" or "false" for each field of a context, and nothing where nobody has said."""
    return {word: str(is_true).lower() for word, is_true in context._asdict().items()} if context else {}


def read_flags(values: Mapping[str, Any]) -> MentionContext | None:
    """Read the fields of a context; None if no value is true or false."""
    flags = {word: str(values.get(word, "")).lower() for word in MentionContext._fields}
    if not {"true", "false"} & set(flags.values()):
        return None
    return MentionContext(**{word: flag == "true" for word, flag in flags.items()})


def write_pieces(pieces: Iterable[tuple[int, int]]) -> str:
    """Write starts and ends of pieces as brat does: "0 4;13 25"."""
    return ";".join(f"{start} {end}" for start, end in pieces)


def read_pieces(written: str) -> list[tuple[int, int]]:
    """Read what has the form of `PIECES`."""
    return [(int(start), int(end)) for start, end in (piece.split(" ") for piece in written.split(";"))]


def plain_text(text: str) -> str:
    """Replace each tab and line end by a space, so that offsets stay as they are."""
    return BREAK.sub(" ", text)


def find_misfit(text: str, start: int, end: int, mention: str) -> str | None:
    """Tell why a mention is not where its offsets say. Spaces may differ: some corpora have others than their texts."""
    found = text[max(start, 0) : max(end, 0)]
    if not 0 <= start <= end or found.split() != mention.split():
        return f"the text from {start} to {end} is {found!r:.80}, but the mention is {mention!r:.80}"
    return None


def _find_misfit(text: str, found: Annotation, mention: str) -> str | None:
    """The same for an annotation. The mention of one in pieces has perhaps dots or all of the text between them."""
    if len(found.pieces) > 1 and found.start >= 0:
        written = " ".join(text[start:end] for start, end in found.pieces)
        if mention.replace("...", " ").split() == written.split():
            return None
    return find_misfit(text, found.start, found.end, mention)


def count_utf16(text: str) -> list[int]:
    """Count the units of UTF-16 before each character and at the end: those beyond U+FFFF, such as emojis, have two."""
    return [0, *accumulate(2 if ord(character) > 0xFFFF else 1 for character in text)]


def place_mentions(
    text: str, written: Sequence[tuple[Annotation, str]], place: str, report: ExchangeReport, form: str
) -> list[Annotation]:
    """Keep the annotations of a document whose offsets fit the mentions that are written beside them. Offsets become
    code points if all mentions fit as units of UTF-16, and not all fit as code points."""
    faults = [_find_misfit(text, found, mention) for found, mention in written]
    if any(faults) and max(text, default="") > "\uffff":
        points = {unit: point for point, unit in enumerate(count_utf16(text))}
        decoded = [_decode(found, points) for found, _ in written]
        pairs = zip(decoded, written, strict=True)
        if not any(_find_misfit(text, found, mention) for found, (_, mention) in pairs):
            report.note_odd("documents with offsets in units of UTF-16, which are converted", place)
            return decoded
    for (found, _), fault in zip(written, faults, strict=True):
        if fault:
            report.refuse(found.place, fault, form)
    return [found for (found, _), fault in zip(written, faults, strict=True) if not fault]


def _decode(found: Annotation, points: Mapping[int, int]) -> Annotation:
    start, end = points.get(found.start, -1), points.get(found.end, -1)
    pieces = tuple((points.get(first, -1), points.get(last, -1)) for first, last in found.pieces)
    return replace(found, start=start, end=end, pieces=pieces)


def name_files(documents: Iterable[AnnotatedText], report: ExchangeReport) -> Iterator[tuple[str, AnnotatedText]]:
    """Make a file's name of each document's, with "%" for characters that files cannot have in their names everywhere.
    A file system may take capitals for small letters."""
    taken: set[str] = set()
    for document in documents:
        name = quote(document.doc_id, safe=" #()+,;=@[]")
        if name != document.doc_id:
            kind = "documents whose names are not file names, with % for other characters"
            report.note_odd(kind, document.doc_id)
        number = number_name(name.lower(), taken)[len(name) :]
        if number:
            report.note_odd("documents whose names differ in capitals only, which get a number", document.doc_id)
        yield name + number, document


def read_text(path: Path, report: ExchangeReport) -> str | None:
    """Read a file as text, with its line ends: offsets count them. None if it is no UTF-8, and errors are skipped."""
    if not path.is_file():
        raise FileNotFoundError(NO_FILE.format(file=path, cwd=Path.cwd()))
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
        data = json.loads(text)
        # Half a character, which JSON can spell ("\ud83d") and no file can hold.
        json.dumps(data, ensure_ascii=False).encode("utf8")
    except (ValueError, RecursionError) as error:
        report.refuse(place, f"no valid JSON ({error!s:.120})", form)
        return None
    return data


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
