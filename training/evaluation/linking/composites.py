"""Mentions of several concepts at once, such as "breast and ovarian cancer", taken apart as BioSyn does."""

from __future__ import annotations

import re

_CONJUNCTION = "(?:and/or|and|or)"
_OF = re.compile(rf"(\S+ of) (?:the )?([^\d,]+?) {_CONJUNCTION} (?:the )?([^\d,]+)")
_BREAK = re.compile(rf",? {_CONJUNCTION} |, ")
_LAST_CONJUNCTION = re.compile(rf"(.+?),? {_CONJUNCTION} (?!.* {_CONJUNCTION} )(.+)")
# The word that the last part has for itself, and the words that all share.
_OWN_AND_SHARED = re.compile(r"((?:the )?[^\s\d,]+) ([^\d,]+)")
_HAS_DIGIT = re.compile(r"\d")


def resolve_composite(mention: str, n: int) -> list[str]:
    """Take a mention of several concepts apart. The forms are tried in a fixed order.

    Those with conjunctions are for names without digits: "C6 and C7 deficiency" stays whole, as in the published files.

    mention (str): The mention, abbreviations spelled out.
    n (int): Its concepts.
    RETURNS (list[str]): As many parts as concepts, or the mention as a whole if no form gives so many.
    """
    if n > 1:
        for form in (_split_of, _split_nested, _split_list, _split_slash, _split_words):
            parts = form(mention)
            if len(parts) == n and all(parts):
                return parts
    return [mention]


def _split_of(mention: str) -> list[str]:
    """Split as in "cancer of the breast and ovaries"."""
    match = _OF.fullmatch(mention)
    return [f"{match[1]} {match[2]}", f"{match[1]} {match[3]}"] if match else []


def _split_nested(mention: str) -> list[str]:
    """Split as in "A, B or C and D cancer": every conjunction separates."""
    return _share_ending(_BREAK.split(mention))


def _split_list(mention: str) -> list[str]:
    """Split as in "A, B and C cancer": only the last conjunction separates, an earlier one is part of a name."""
    match = _LAST_CONJUNCTION.fullmatch(mention)
    return _share_ending([*match[1].split(", "), match[2]]) if match else []


def _split_slash(mention: str) -> list[str]:
    """Split as in "cleft lip/palate": what stands before and behind belongs to each."""
    words = mention.split()
    places = [place for place, word in enumerate(words) if "/" in word and word.lower() != "and/or"]
    if len(places) != 1:
        return []
    before, after = words[: places[0]], words[places[0] + 1 :]
    return [" ".join([*before, part, *after]) if part else "" for part in words[places[0]].split("/")]


def _split_words(mention: str) -> list[str]:
    """Split as in "feverish rash": each word is a concept."""
    return mention.split()


def _share_ending(parts: list[str]) -> list[str]:
    match = _OWN_AND_SHARED.fullmatch(parts[-1])
    if not match or len(parts) < 2 or any(map(_HAS_DIGIT.search, parts)):
        return []
    return [*(f"{part} {match[2]}" if part else "" for part in parts[:-1]), parts[-1]]
