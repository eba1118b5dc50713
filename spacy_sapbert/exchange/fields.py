"""What the text formats share: ids, contexts and offsets as they are written, and the files of other tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..annotations import NIL
from ..context import MentionContext
from ..errors import Errors
from .documents import AnnotatedText, Annotation, ExchangeReport, number_name

# Between several ids of one mention in `kb_id_`.
ID_SEPARATOR = "|"
# White space as well: ids are written to files with tabs between fields.
ANY_ID_SEPARATOR = re.compile(r"[|+,;\s]")
# Prefixes of ids in NCBI-disease, BC5CDR, CTD and MedMentions that their dictionaries lack.
PREFIX = re.compile(r"^(?:MESH|OMIM|UMLS):", re.IGNORECASE)
# Signs of NIL in corpora.
NIL_SIGNS = frozenset({"", "-1", "-", "nil", "none", "null", "cui-less", "cuiless", "concept_less"})
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


def write_ids(kb_id: str, prefix: str) -> list[str]:
    """Put a prefix before each id of a `kb_id_`, but not before "NIL"."""
    return [id_ if id_ == NIL else prefix + id_ for id_ in kb_id.split(ID_SEPARATOR) if id_]


def list_writable(
    document: AnnotatedText,
    report: ExchangeReport,
    form: str,
    prefix: str,
    find_fault: Callable[[Annotation, str], str | None] = lambda annotation, mention: None,
) -> Iterator[tuple[Annotation, str, list[str]]]:
    """List annotations with their text and their ids as written. What would be read back otherwise is refused."""
    for annotation in document.annotations:
        mention, kb_id = document.text[annotation.start : annotation.end], annotation.kb_id
        fault = find_fault(annotation, mention)
        if not fault and kb_id and read_kb_id(kb_id) != kb_id:
            fault = f"the id {kb_id!r:.80} would be read back as {read_kb_id(kb_id)!r:.80}"
        if fault:
            report.refuse(f"document {document.doc_id}: {mention!r:.60}", fault, form)
        else:
            yield annotation, mention, write_ids(kb_id, prefix)


def write_flags(context: MentionContext | None) -> dict[str, str]:
    """Write "true" or "false" for each field of a context, and "" where nobody has said."""
    if context is None:
        return dict.fromkeys(MentionContext._fields, "")
    return {word: str(is_true).lower() for word, is_true in context._asdict().items()}


def read_flags(values: Mapping[str, Any]) -> MentionContext | None:
    """Read the fields of a context; None if no value is true or false."""
    flags = {word: str(values.get(word, "")).lower() for word in MentionContext._fields}
    if not {"true", "false"} & set(flags.values()):
        return None
    return MentionContext(**{word: flag == "true" for word, flag in flags.items()})


def plain_text(text: str) -> str:
    """Replace each tab and line end by a space, so that offsets stay as they are."""
    return BREAK.sub(" ", text)


def find_misfit(text: str, start: int, end: int, mention: str) -> str | None:
    """Tell why a mention is not where its offsets say. Spaces may differ: some corpora have others than their texts."""
    found = text[max(start, 0) : max(end, 0)]
    if not 0 <= start <= end or found.split() != mention.split():
        return f"the text from {start} to {end} is {found!r:.80}, but the mention is {mention!r:.80}"
    return None


def count_utf16(text: str) -> list[int]:
    """Count the units of UTF-16 before each character and at the end: those beyond U+FFFF, such as emojis, have two."""
    return [0, *accumulate(2 if ord(character) > 0xFFFF else 1 for character in text)]


def decode_mentions(
    text: str, mentions: Sequence[tuple[int, int, str]], place: str, report: ExchangeReport
) -> list[tuple[int, int]]:
    """Find out what the offsets of a document count, by the mentions that are written beside them.

    They are converted to code points if all mentions fit as units of UTF-16, and not all fit as code points.
    """
    as_written = [(start, end) for start, end, _ in mentions]
    if max(text, default="") <= "\uffff" or not any(find_misfit(text, *mention) for mention in mentions):
        return as_written
    points = {unit: point for point, unit in enumerate(count_utf16(text))}
    decoded = [(points.get(start, -1), points.get(end, -1)) for start, end in as_written]
    if any(find_misfit(text, *ends, mention) for ends, (_, _, mention) in zip(decoded, mentions, strict=True)):
        return as_written
    report.note_odd("documents with offsets in units of UTF-16, which are converted", place)
    return decoded


def name_file(name: str, taken: set[str], report: ExchangeReport) -> str:
    """Make a file's name of a document's, with "%" for characters that files cannot have in their names everywhere.

    `taken` has the names of the folder's other files in small letters: a file system may take capitals for them.
    """
    written = quote(name, safe=" #()+,;=@[]")
    if written != name:
        report.note_odd("documents whose names are no file names, with % for other characters", name)
    number = number_name(written.lower(), taken)[len(written) :]
    if number:
        report.note_odd("documents whose names differ in capitals only, which get a number", name)
    return written + number


def read_text(path: Path, report: ExchangeReport) -> str | None:
    """Read a file as text, with its line ends: offsets count them. None if it is no UTF-8, and errors are skipped."""
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        return path.read_bytes().decode("utf8")
    except UnicodeDecodeError as error:
        report.refuse(str(path), f"byte {error.start + 1} is not UTF-8", "text in UTF-8")
        return None


def read_lines(path: Path, report: ExchangeReport) -> Iterator[tuple[int, str]]:
    r"""Number the lines of a text file, from 1. Each ends at \n or \r\n; a byte order mark at the start is no text."""
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
