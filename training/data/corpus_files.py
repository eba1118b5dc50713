"""Dictionaries of corpora: files of ids and names."""

from __future__ import annotations

from collections.abc import Iterator

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from ..errors import Errors

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
                (
                    f"{file.path}, line {number}: {reason}. The form is {DICTIONARY_FORM}. Correct the line or take it"
                    " out; if all lines are of another form, bring the file to this one first."
                )
            )
        yield fields[0], fields[1], fields[2] if len(fields) == 3 else ""
