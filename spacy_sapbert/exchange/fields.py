"""What the text formats have in common: fields of ids, and texts of one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..annotations import NIL
from ..context import MentionContext

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
    """Split a field of ids, without signs of NIL.

    raw (str): Ids with "|", "+", ",", ";" or a space between them.
    keep_prefixes (bool): Keep prefixes such as "MESH:".
    RETURNS (list[str]): Distinct ids, none for NIL.
    """
    parts = ANY_ID_SEPARATOR.split(raw)
    ids = (part.strip() if keep_prefixes else PREFIX.sub("", part.strip()).strip() for part in parts)
    return list(dict.fromkeys(part for part in ids if part.lower() not in NIL_SIGNS))


def number_name(name: str, taken: set[str], number: int = 2) -> str:
    """Number a name until no other is the same, and take it.

    name (str): The name.
    taken (set[str]): The names that are taken; gets this one.
    number (int): The first number to try, if the name is taken.
    RETURNS (str): The name, with "#" and a number behind it if it was taken.
    """
    free = name
    while free in taken:
        free, number = f"{name}#{number}", number + 1
    taken.add(free)
    return free


def write_flags(context: MentionContext | None) -> dict[str, str]:
    """Make text of a context.

    context (MentionContext | None): The context.
    RETURNS (dict[str, str]): "true" or "false" for each of its fields; "" where nobody has said.
    """
    if context is None:
        return dict.fromkeys(MentionContext._fields, "")
    return {word: str(is_true).lower() for word, is_true in context._asdict().items()}


def read_flags(values: Mapping[str, Any]) -> MentionContext | None:
    """Make a context of text.

    values (Mapping[str, Any]): The values, of which those of the fields of a context are read.
    RETURNS (MentionContext | None): The context; None if no value is true or false.
    """
    flags = {word: str(values.get(word, "")).lower() for word in MentionContext._fields}
    if not {"true", "false"} & set(flags.values()):
        return None
    return MentionContext(**{word: flag == "true" for word, flag in flags.items()})


def plain_text(text: str) -> str:
    """Replace each tab and line end by a space, so that offsets stay as they are.

    text (str): The text.
    RETURNS (str): Text of one line, equally long.
    """
    return BREAK.sub(" ", text)


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the spaces off the ends of a span.

    text (str): The document's text.
    start (int): The start of the span.
    end (int): Its end.
    RETURNS (tuple[int, int]): Start and end; equal if there is nothing but spaces.
    """
    span = text[start:end]
    return start + len(span) - len(span.lstrip()), max(start, end - (len(span) - len(span.rstrip())))


def read_kb_id(written: str, prefix: str = "") -> str:
    """Make the `kb_id_` of a field of ids.

    written (str): The field; empty where nobody has said which concept a mention is.
    prefix (str): What stands before each id in the file only, such as "UMLS:".
    RETURNS (str): The ids with "|" between them, "NIL" for a sign of NIL, or "" for an empty field.
    """
    if not written.strip():
        return ""
    parts = [part.removeprefix(prefix) for part in ANY_ID_SEPARATOR.split(written.strip())]
    return ID_SEPARATOR.join(split_ids(ID_SEPARATOR.join(parts), keep_prefixes=True)) or NIL


def write_ids(kb_id: str, prefix: str = "") -> list[str]:
    """Make the ids of a `kb_id_` as they are written to a file.

    kb_id (str): The ids, with "|" between several; "NIL", or "" for none.
    prefix (str): What is put before each id, such as "UMLS:".
    RETURNS (list[str]): The ids; "NIL" has no prefix.
    """
    return [id_ if id_ == NIL else prefix + id_ for id_ in kb_id.split(ID_SEPARATOR) if id_]


def find_misfit(text: str, start: int, end: int, mention: str) -> str | None:
    """Tell why a mention is not where its offsets say. Spaces may differ: some corpora have others than their texts.

    text (str): The document's text.
    start (int): The start of the mention.
    end (int): Its end.
    mention (str): The mention as written beside its offsets.
    RETURNS (str | None): The reason, or None.
    """
    found = text[max(start, 0) : end]
    if start < 0 or found.split() != mention.split():
        return f"the text from {start} to {end} is {found!r:.80}, but the mention is {mention!r:.80}"
    return None


def find_fault_of_id(kb_id: str) -> str | None:
    """Tell why ids cannot be written, if they would be read back as others.

    kb_id (str): The ids, with "|" between several.
    RETURNS (str | None): The reason, or None.
    """
    if kb_id and read_kb_id(kb_id) != kb_id:
        return f"the id {kb_id!r:.80} would be read back as {read_kb_id(kb_id)!r:.80}"
    return None
