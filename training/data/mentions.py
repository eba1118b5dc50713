"""Mentions of a corpus with their concepts, and dictionaries of ids and names: one line of a file each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8, parse_record

EQUAL_IDS = "|"
FORM = '{"mention": "head cold", "ids": ["C0009443"]}'
TEXT_FORM = f'{{"doc_id": "7", "text": "a head cold", "mentions": [{{"start": 2, "end": 11, {FORM[1:]}]}}'
Text = Annotated[str, Field(pattern=r"\S")]
# Some corpora have numbers for ids of documents.
Written = Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]


@dataclass(frozen=True)
class Mention:
    """A mention and its concepts."""

    text: str
    ids: list[str]  # The gold ids: any of them is right. Empty for NIL.
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
        """Format the mention as a line of JSON, without empty fields."""
        values = {key.alias or name: getattr(self, name) for name, key in _Line.model_fields.items()}
        fields = {k: value for k, value in values.items() if k in ("mention", "ids") or value not in (None, "", [])}
        return json.dumps(fields, ensure_ascii=False)


class _Line(BaseModel):
    """A line of JSON: attributes of `Mention`, in the order in which they are written, and the keys of some."""

    model_config = ConfigDict(strict=True)

    text: str = Field(alias="mention")
    ids: list[Text]
    doc_id: Written | None = None
    start: int | None = None
    end: int | None = None
    type: Written | None = None
    raw_id: Written | None = None
    parts: list[Text] | None = None
    fragments: list[list[int]] | None = None
    window: str | None = Field(default=None, alias="text")
    window_start: int | None = Field(default=None, alias="text_start")


class _Annotation(_Line):
    """A mention in its text."""

    start: int
    end: int
    discontinuous: bool = False


class _Text(BaseModel):
    """A line of JSON with a whole text and its mentions."""

    model_config = ConfigDict(strict=True)

    doc_id: Written
    text: str
    mentions: list[_Annotation]


def read_mentions(file: SourceFile, *, fold: int = 0, keep_empty: bool = False) -> Iterator[Mention]:
    """Read lines of JSON with `mention` and `ids`, and optionally more that a mention has."""
    for number, line in file.lines():
        try:
            if line.strip():
                yield parse_mention(line, fold=fold, keep_empty=keep_empty)
        except ValueError as error:
            refuse_line(file, number, str(error), FORM)


def parse_mention(line: str, *, fold: int = 0, keep_empty: bool = False) -> Mention:
    """Read a line of JSON."""
    return _make_mention(parse_record(_Line, line), fold=fold, keep_empty=keep_empty)


def _make_mention(row: _Line, *, fold: int = 0, keep_empty: bool = False) -> Mention:
    text = row.text.strip()
    # Ids with "|" between them are equal ones, as in dictionaries. No dictionary has the whole as one id.
    ids = list(dict.fromkeys(single.strip() for joined in row.ids for single in joined.split(EQUAL_IDS)))
    if not all(ids) or not (text or keep_empty):
        raise ValueError(f"an empty id in {row.ids!r:.80}" if text else "mention: there is no text")
    values = row.model_dump(include={*_Line.model_fields}, exclude_none=True)
    return Mention(**{**values, "text": text, "ids": ids, "fold": fold})


def parse_text(line: str) -> tuple[str, str, list[Mention]]:
    """Read a line of JSON with a whole text: its name, the text, and its mentions. Of one in several pieces, only the
    extent is known."""
    # Here, because it imports spaCy.
    from spacy_sapbert.exchange.fields import find_misfit

    row = parse_record(_Text, line)
    mentions = []
    for mention in row.mentions:
        extent = [mention.start, mention.end]
        if not mention.discontinuous and (fault := find_misfit(row.text, mention.start, mention.end, mention.text)):
            raise ValueError(fault)
        places: dict[str, Any] = {"start": None, "end": None, "fragments": [extent]} if mention.discontinuous else {}
        mentions.append(replace(_make_mention(mention), doc_id=row.doc_id, **places))
    return row.doc_id, row.text, mentions


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
            reason = f"{len(fields)} fields, but {width} in the lines before: perhaps a tab inside a name"
        if not reason and not all(part.strip() for part in fields[0].split(EQUAL_IDS)):
            reason = f"an empty id in {fields[0]!r}"
        if reason:
            refuse_line(file, number, reason, "id, tab, name, and possibly another tab and the source")
        yield fields[0], fields[1], fields[2] if len(fields) == 3 else ""


def refuse_line(file: SourceFile, number: int, reason: str, form: str) -> NoReturn:
    """Raise an error for a line of another form."""
    raise ValueError(
        f"{file.path}, line {number}: {reason}. The form is {form}. Correct the line or take it out; if all lines are "
        "of another form, bring the file to this one first."
    ) from None
