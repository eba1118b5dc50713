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


# The English names of the Greek letters from α to ω, in Unicode's order, which has the final sigma before sigma.
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon "
    "phi chi psi omega"
).split()
_GREEK = {chr(ord("α") + place): name for place, name in enumerate(_GREEK_NAMES)}
_GREEK |= {letter.upper(): name.capitalize() for letter, name in _GREEK.items()}
_FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
# What normal form KC would damage (an acute accent becomes a space with a mark) or leaves as it is.
_WRITING = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−⁃˗﹘﹣－", "-"),
        **dict.fromkeys("‘’‚‛ʼʹˈ´`′", "'"),
        **dict.fromkeys("“”„‟«»″ʺ", '"'),
        **dict.fromkeys("⁄∕", "/"),
        **dict.fromkeys("™℠®©", " "),
        **{fraction: f" {unicodedata.normalize('NFKC', fraction)}" for fraction in _FRACTIONS},
        **{"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"},
        **{"ı": "i", "∆": "Δ", "º": "°", "ɑ": "α"},
    }
)
# Exponents, which would become digits of the number before them.
_EXPONENT = re.compile("(?<=[0-9])([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+)")
_MICRO = re.compile(r"μ(?=(?:g|l|L|m|M|s|mol|kat|Ci|Gy|Sv|V|A)\b)")
# German has an eszett only after small letters.
_BETA = re.compile("(?<![a-zà-öø-ÿ])ß")
_GREEK_WORD = re.compile("[\u0370-\u03ff\u1f00-\u1fff]{3}")
_GREEK_LETTER = re.compile(f"[{''.join(_GREEK)}]")


def normalize_writing(text: str) -> str:
    """Unify characters that names are written with in several ways. ASCII text stays as it is.

    Dashes, quotes, primes and slashes become those of ASCII; ligatures become two letters, and letters with a stroke
    lose it. Compatibility forms, such as full-width letters, subscripts and Roman numerals in one character, become
    ordinary ones, except exponents of numbers. Greek letters become their names, as words of their own, unless the text
    has Greek words. The micro sign of a unit becomes "u", and an eszett that stands for beta becomes "beta".

    text (str): The text.
    RETURNS (str): The text in its unified form. Where anything but ASCII was in it, it has single spaces.
    """
    if text.isascii():
        return text
    parts = _EXPONENT.split(text.translate(_WRITING))
    # Every second part is an exponent. Normal form KC has dashes and slashes of its own.
    parts[::2] = [unicodedata.normalize("NFKC", part).translate(_WRITING) for part in parts[::2]]
    text = _MICRO.sub("u", "".join(parts))
    if not _GREEK_WORD.search(text):
        text = _GREEK_LETTER.sub(_name_letter, _BETA.sub("β", text))
    return " ".join(text.split())


def _name_letter(found: re.Match[str]) -> str:
    """Write out a Greek letter, apart from letters and digits before it and from letters behind it."""
    text, start, end = found.string, found.start(), found.end()
    before = " " if text[start - 1 : start].isalnum() else ""
    after = " " if text[end : end + 1].isalpha() else ""
    return before + _GREEK[found[0]] + after
