"""Mentions of a corpus with their concepts, and dictionaries of ids and names: one line of a file each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8, parse_record

EQUAL_IDS = "|"


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
                f"{file.path}, line {number}: {reason}. The form is id, tab, name, and possibly another tab and the "
                "source. Correct the line or take it out; if all lines are of another form, bring the file to this one."
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
Text = Annotated[str, Field(pattern=r"\S")]


@dataclass(frozen=True)
class Mention:
    """A mention and its concepts."""

    text: str
    ids: list[str]  # The gold ids, any of which is right; none for NIL.
    doc_id: str = ""
    window: str = ""  # The text around it.
    parts: list[str] = field(default_factory=list)  # The single mentions of a composite one, if annotated.
    fold: int = 0  # In a corpus with several. It is not written.
    start: int | None = None  # In the document's text, in characters.
    end: int | None = None
    type: str = ""  # In the corpus.
    raw_id: str = ""  # The ids as written in the corpus.
    fragments: list[list[int]] = field(default_factory=list)  # Starts and ends of a discontinuous mention's pieces.
    # The window's start in the document's text: the mention is window[start - window_start : end - window_start].
    window_start: int | None = None
    place: str = ""  # The file and line, for messages. It is not written.

    def to_line(self) -> str:
        """Format the mention as a line of JSON: `mention`, `ids`, and the other `KEYS` with a value."""
        values = {key: getattr(self, name) for key, name in KEYS.items()}
        kept = {k: value for k, value in values.items() if k in ("mention", "ids") or value not in (None, "", [])}
        return json.dumps(kept, ensure_ascii=False)


class _Line(BaseModel):
    """A line of JSON. Some corpora have documents with numbers for ids."""

    model_config = ConfigDict(strict=True)

    mention: str
    ids: list[Text]
    doc_id: str | int | None = None
    start: int | None = None
    end: int | None = None
    type: str | int | None = None
    raw_id: str | int | None = None
    parts: list[Text] | None = None
    text: str | None = None
    text_start: int | None = None


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
    row = parse_record(_Line, line)
    text = row.mention.strip()
    # Ids with "|" between them are equal ones, as in dictionaries. No dictionary has the whole as one id.
    ids = list(dict.fromkeys(single.strip() for joined in row.ids for single in joined.split(EQUAL_IDS)))
    if not all(ids) or not (text or keep_empty):
        raise ValueError(f"an empty id in {row.ids!r:.80}" if text else "mention: there is no text")
    doc_id, kind, raw_id = ("" if value is None else str(value) for value in (row.doc_id, row.type, row.raw_id))
    return Mention(
        text,
        ids,
        doc_id,
        window=row.text or "",
        parts=row.parts or [],
        fold=fold,
        start=row.start,
        end=row.end,
        type=kind,
        raw_id=raw_id,
        window_start=row.text_start,
    )
