"""Which strings are looked up for a mention."""

from __future__ import annotations

import warnings

from spacy.tokens import Span

from .abbreviations.component import Abbreviations, expand_abbreviations
from .errors import Warnings
from .types import AbbreviationForms

# The longest names in clinical terminologies have a few hundred characters.
MAX_LENGTH = 1000


def mention_forms(span: Span, abbreviations: Abbreviations, wanted: AbbreviationForms) -> list[str]:
    """Get the strings to look up for a mention, the more telling one first.

    span (Span): The mention.
    abbreviations (Dict[int, Tuple[int, str]]): What `abbreviations_by_start` gave for the document.
    wanted (str): "both", "long_form" or "short_form".
    RETURNS (List[str]): One or two strings; none if the mention is not linkable.
    """
    short = " ".join(span.text.split())
    if not is_linkable(short):
        return []
    expanded = expand_abbreviations(span, abbreviations) if wanted != "short_form" else None
    if expanded is None or not is_linkable(expanded):
        return [short]
    return [" ".join(expanded.split()), short] if wanted == "both" else [" ".join(expanded.split())]


def is_linkable(text: str) -> bool:
    """Tell whether a string can be the name of anything.

    text (str): The string.
    RETURNS (bool): False without any letter or digit, and for texts that are too long to be a name.
    """
    if len(text) > MAX_LENGTH:
        warnings.warn(Warnings.W401.format(n=len(text), limit=MAX_LENGTH), stacklevel=2)
        return False
    return any(character.isalnum() for character in text)
