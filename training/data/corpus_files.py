"""The files of a corpus: mentions with their ids, and the dictionary that the ids are of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from ..errors import Errors

EQUAL_IDS = "|"
MENTION_FORM = '{"mention": "head cold", "ids": ["C0009443"]}'
DICTIONARY_FORM = "id, tab, name, and possibly another tab and the source"


def read_dictionary_rows(file: SourceFile) -> Iterator[tuple[str, str, str]]:
    """Read lines of an id, a tab and a name.

    file (SourceFile): The file.
    YIELDS (Tuple[str, str, str]): The id, or several with "|" between them, the name, and the source, which is empty if
        there is no third field.
    RAISES (ValueError): If a line is of another form.
    """
    for number, text in file.lines():
        if not text.strip():
            continue
        fields = [field.strip() for field in text.split("\t")]
        reason = invalid_utf8(text)
        if not reason and (len(fields) not in (2, 3) or not all(fields)):
            reason = f"{len(fields)} fields between tabs instead of two or three with text"
        if not reason and not all(part.strip() for part in fields[0].split(EQUAL_IDS)):
            reason = f"an empty id in {fields[0]!r}"
        if reason:
            raise ValueError(Errors.E650.format(file=file.path, line=number, reason=reason, form=DICTIONARY_FORM))
        yield fields[0], fields[1], fields[2] if len(fields) == 3 else ""


def read_mentions(file: SourceFile) -> Iterator[tuple[str, list[str]]]:
    """Read JSON lines with a mention and the ids of what it means.

    file (SourceFile): The file. Its other keys are not looked at.
    YIELDS (Tuple[str, List[str]]): The mention, without spaces around it, and its distinct ids; none for NIL.
    RAISES (ValueError): If a line is of another form.
    """
    for mention, ids, _ in read_records(file):
        yield mention, ids


def read_records(file: SourceFile, *, keep_empty: bool = False) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """Read JSON lines as `read_mentions` does, with their other keys.

    file (SourceFile): The file.
    keep_empty (bool): Keep mentions without text, which some published corpora have, rather than refusing them.
    YIELDS (Tuple[str, List[str], dict]): The mention, its distinct ids, and the whole line.
    RAISES (ValueError): If a line is of another form.
    """
    for number, text in file.lines():
        if not text.strip():
            continue
        try:
            yield _parse(text, keep_empty)
        except ValueError as error:
            message = Errors.E650.format(file=file.path, line=number, reason=error, form=MENTION_FORM)
            raise ValueError(message) from None


def _parse(text: str, keep_empty: bool) -> tuple[str, list[str], dict[str, Any]]:
    reason = invalid_utf8(text)
    if reason:
        raise ValueError(reason)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no valid JSON ({error})") from None
    mention, ids = (record.get("mention"), record.get("ids")) if isinstance(record, dict) else (None, None)
    if not isinstance(mention, str) or not (mention.strip() or keep_empty):
        raise ValueError(f"'mention' has to be text, but is {mention!r:.80}")
    if not isinstance(ids, list) or not all(isinstance(part, str) and part.strip() for part in ids):
        raise ValueError(f"'ids' has to be a list of ids in quotation marks, but is {ids!r:.80}")
    if any(invalid_utf8(part) for part in (mention, *ids)):
        # JSON can spell half a character ("\ud83d"), which no file can hold.
        raise ValueError("half of a character (a lone surrogate)")
    return mention.strip(), list(dict.fromkeys(part.strip() for part in ids)), record
