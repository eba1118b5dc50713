"""Names and mentions as BioSyn writes them: lower-cased, without punctuation, one row for each name."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping

from ..corpus_files import EQUAL_IDS

# Of the corrections in the published files of NCBI disease, those that are known.
NCBI_SPELLING = {"leukaemia": "leukemia", "three": "triple", "tumour": "tumor", "tumours": "tumors"}

_NOT_WORDS = re.compile(rf"[{re.escape(string.punctuation)}\s]+")


def clean(text: str, spelling: Mapping[str, str] | None = None) -> str:
    """Lower-case text, correct its spelling and put one space in place of punctuation (that of ASCII) and of spaces.

    text (str): A name or a mention.
    spelling (Optional[Mapping[str, str]]): Corrections of whole words, which are not found beside punctuation.
    RETURNS (str): The text; empty if there is nothing but punctuation.
    """
    text = text.lower()
    if spelling:
        text = " ".join(spelling.get(word, word) for word in text.split())
    return _NOT_WORDS.sub(" ", text).strip()


def group_by_name(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give each name one row, with the ids of all concepts that have this name.

    rows (Iterable[Tuple[str, str]]): Ids, with "|" between equal ones, and names.
    RETURNS (Dict[str, str]): The ids of each name, with "|" between them, both in the order in which they come.
    """
    grouped: dict[str, dict[str, None]] = {}
    for joined, name in rows:
        grouped.setdefault(name, {}).update(dict.fromkeys(joined.split(EQUAL_IDS)))
    return {name: EQUAL_IDS.join(ids) for name, ids in grouped.items()}
