"""Mentions of a corpus with their concepts, and dictionaries of ids and names: one line of a file each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

EQUAL_IDS = "|"
DICTIONARY_FORM = "id, tab, name, and possibly another tab and the source"


def read_dictionary_rows(file: SourceFile) -> Iterator[tuple[str, str, str]]:
    """Read lines of an id, a tab and a name."""
    width = 0
    for number, text in file.lines():
        if not text.strip():
            continue
        fields = [field.strip() for field in text.split("\t")]
        reason = invalid_utf8(text)
        if not reason and (len(fields) not in (2, 3) or not all(fields)):
            reason = f"{len(fields)} fields between tabs instead of two or three with text"
        width = width or len(fields)
        if not reason and len(fields) != width:
            # Otherwise the rest of a name with a tab in it would become its source.
            reason = (
                f"{len(fields)} fields between tabs, but {width} in the lines before: perhaps a tab inside of a name"
            )
        if not reason and not all(part.strip() for part in fields[0].split(EQUAL_IDS)):
            reason = f"an empty id in {fields[0]!r}"
        if reason:
            raise ValueError(
                f"{file.path}, line {number}: {reason}. The form is {DICTIONARY_FORM}. Correct the line or take it"
                " out; if all lines are of another form, bring the file to this one first."
            )
        yield fields[0], fields[1], fields[2] if len(fields) == 3 else ""


FORM = '{"mention": "head cold", "ids": ["C0009443"]}'
# The keys of a line in order, and the attribute of each.
KEYS = {
    "mention": "text",
    "ids": "ids",
    "doc_id": "doc_id",
    "start": "start",
    "end": "end",
    "type": "type",
    "raw_id": "raw_id",
    "parts": "parts",
    "fragments": "fragments",
    "text": "window",
    "text_start": "window_start",
}

# The keys of numbers of characters.
PLACES = ("start", "end", "text_start")


@dataclass(frozen=True)
class Mention:
    """A mention and its concepts.

    text (str): The mention.
    ids (list[str]): The gold ids, any of which is right; none for NIL.
    doc_id (str): The document.
    window (str): The text around it.
    parts (list[str]): The single mentions of a composite one, if annotated.
    fold (int): The fold, in a corpus with several. It is not written.
    start (int | None): Its start in the document's text, in characters.
    end (int | None): Its end.
    type (str): Its type in the corpus.
    raw_id (str): The ids as written in the corpus.
    fragments (list[list[int]]): Starts and ends of the pieces of a discontinuous mention.
    window_start (int | None): The window's start in the document's text: the mention is
        window[start - window_start : end - window_start].
    place (str): The file and line, for messages. It is not written.
    """

    text: str
    ids: list[str]
    doc_id: str = ""
    window: str = ""
    parts: list[str] = field(default_factory=list)
    fold: int = 0
    start: int | None = None
    end: int | None = None
    type: str = ""
    raw_id: str = ""
    fragments: list[list[int]] = field(default_factory=list)
    window_start: int | None = None
    place: str = ""

    def to_line(self) -> str:
        """Format the mention as a line of JSON: `mention`, `ids`, and the other `KEYS` with a value."""
        values = {key: getattr(self, name) for key, name in KEYS.items()}
        kept = {k: value for k, value in values.items() if k in ("mention", "ids") or value not in (None, "", [])}
        return json.dumps(kept, ensure_ascii=False)


def read_mentions(file: SourceFile, *, fold: int = 0, keep_empty: bool = False) -> Iterator[Mention]:
    """Read lines of JSON with `mention` and `ids`, and optionally the other `KEYS`, pieces excepted."""
    for number, line in file.lines():
        if not line.strip():
            continue
        try:
            yield parse_mention(line, fold=fold, keep_empty=keep_empty)
        except ValueError as error:
            raise ValueError(
                f"{file.path}, line {number}: {error}. The form is {FORM}. Correct the line or take it out; if all"
                " lines are of another form, bring the file to this one first."
            ) from None


def parse_mention(line: str, *, fold: int = 0, keep_empty: bool = False) -> Mention:
    """Read a line of JSON."""
    reason = invalid_utf8(line)
    if reason:
        raise ValueError(reason)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no valid JSON ({error})") from None
    row: dict[str, Any] = record if isinstance(record, dict) else {}
    text, ids, parts = row.get("mention"), row.get("ids"), row.get("parts") or []
    if not isinstance(text, str) or not (text.strip() or keep_empty):
        raise ValueError(f"'mention' has to be text, but is {text!r:.80}")
    if not _is_list_of_text(ids):
        raise ValueError(f"'ids' has to be a list of ids in quotation marks, but is {ids!r:.80}")
    if not _is_list_of_text(parts):
        raise ValueError(f"'parts' has to be a list of texts, one for each concept, but is {parts!r:.80}")
    doc_id, window = _get_text(row, "doc_id", (str, int)), _get_text(row, "text", (str,))
    if any(invalid_utf8(part) for part in (text, *ids, *parts, doc_id, window)):
        # JSON can spell half a character ("\ud83d"), which no file can hold.
        raise ValueError("half of a character (a lone surrogate)")
    # Ids with "|" between them are equal ones, as in dictionaries. No dictionary has the whole as one id.
    ids = list(dict.fromkeys(single.strip() for joined in ids for single in joined.split(EQUAL_IDS)))
    if not all(ids):
        raise ValueError(f"an empty id in {row['ids']!r:.80}")
    start, end, window_start = (row[key] if type(row.get(key)) is int else None for key in PLACES)
    kind, raw_id = (_get_text(row, key, (str, int)) for key in ("type", "raw_id"))
    return Mention(text.strip(), ids, doc_id, window, parts, fold, start, end, kind, raw_id, window_start=window_start)


def _get_text(row: dict[str, Any], key: str, kinds: tuple[type, ...]) -> str:
    """Read a text that may be missing or null. Some corpora have documents with numbers for ids."""
    value = row.get(key)
    if value is not None and type(value) not in kinds:
        raise ValueError(f"{key!r} has to be text, but is {value!r:.80}")
    return "" if value is None else str(value)


def _is_list_of_text(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(part, str) and part.strip() for part in value)
