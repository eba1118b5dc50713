"""Normalize names and mentions alike, so that a name finds itself however it was typed or copied."""

from __future__ import annotations

import re
import unicodedata

# Format characters with a shape of their own (number signs, the end of a verse) or that arrange hieroglyphs.
_VISIBLE = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]")
# The zero-width non-joiner and joiner. In these blocks, from Arabic to Mongolian, they change the shape of words.
_JOINERS = "\u200c\u200d"
_JOINING = re.compile(
    "[\u0600-\u0dff\u1000-\u109f\u1700-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010d00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)


def normalize_name(text: str) -> str:
    """Normalize a name or a mention.

    White space becomes single spaces, with none around the text. Control characters (category Cc) and invisible format
    characters (Cf), such as soft hyphens, zero-width spaces, byte order marks and marks of direction, are removed. A
    zero-width joiner or non-joiner stays after a letter of a script in which it changes the shape of words, such as
    Persian, Hindi and Malayalam. The result is in Unicode's normal form C.

    text (str): The text.
    RETURNS (str): The normalized text, empty if nothing visible is left.
    """
    text = " ".join(text.split())
    # Control and format characters are not printable. Nearly all texts have neither.
    if not text.isprintable():
        text = " ".join(_remove_invisible(text).split())
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _remove_invisible(text: str) -> str:
    kept = []
    may_join = False
    for character in text:
        if character in _JOINERS:
            if may_join:
                kept.append(character)
            may_join = False
            continue
        if unicodedata.category(character) in ("Cc", "Cf") and not _VISIBLE.match(character):
            continue
        # Combining marks may stand between a letter and its joiner, in an order that normal form C changes.
        if not unicodedata.combining(character):
            may_join = _JOINING.match(character) is not None
        kept.append(character)
    return "".join(kept)
