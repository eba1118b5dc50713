"""The words of drug strings: how strings are split, and the tables of phrases in drugs.json."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# A number, letters, or one sign.
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|(?<!\d)\.\d+|[^\W\d_]+(?:['’][^\W\d_]+)*|[^\w\s.:;]")
_WITH = re.compile(r"\b[wW]/(?![\w/]*/)")
_DOTTED = re.compile(r"\b[^\W\d_](?:\.[^\W\d_])+\b\.?")
# "1:1,000" of epinephrine is a gram in 1000 mL.
_DILUTION = re.compile(r"(?<![\d.,:/])1:([1-9]\d{0,2},\d{3}|[1-9]\d{3,5})(?![\d:,])")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")


class Token(NamedTuple):
    """A number, letters or a sign of a string, in lower case."""

    text: str
    start: int
    end: int
    number: Fraction | None


Phrases = dict[tuple[str, ...], Any]


class PhraseTables(NamedTuple):
    """The phrases of drugs.json by what they are, split as strings are."""

    fields: Phrases
    units: Phrases
    per: Phrases
    doses: Phrases
    periods: Phrases
    times: Phrases
    every: Phrases
    salts: Phrases
    names: Phrases
    several: Phrases
    no_drugs: Phrases
    more: Phrases


@cache
def load_words() -> dict[str, Any]:
    """Load what drugs.json has."""
    words: dict[str, Any] = json.loads(Path(__file__).with_name("drugs.json").read_text(encoding="utf8"))
    return words


def clean_string(text: str) -> str:
    """Write a string in usual signs, and abbreviations without full stops: "b.i.d."."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2044", "/").replace("×", "x")
    plain = _DILUTION.sub(_write_dilution, plain)
    plain = _DOTTED.sub(lambda match: match[0].replace(".", ""), plain)
    return _WITH.sub("with ", plain)


def _write_dilution(match: re.Match[str]) -> str:
    return f"{1000 / int(match[1].replace(',', '')):g} mg/mL"


def split_words(text: str) -> list[Token]:
    """Split a string into numbers, letters and signs."""
    return [_make_token(match) for match in _TOKEN.finditer(text)]


def _make_token(match: re.Match[str]) -> Token:
    return Token(match[0].lower(), match.start(), match.end(), _read_number(match[0]))


def _read_number(text: str) -> Fraction | None:
    if not text[-1].isdigit():
        return None
    plain = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text.replace(",", ".")
    try:
        return Fraction(plain)
    except ValueError:
        return None


def _index(phrases: Mapping[str, Any] | Iterable[str], value: Any = None) -> Phrases:
    """Make a table of phrases: canonical words and lists of how they are written, or phrases with one value."""
    pairs = phrases.items() if isinstance(phrases, Mapping) else [(value, phrases)]
    table: Phrases = {}
    for canonical, written in pairs:
        for phrase in written:
            table.setdefault(tuple(token.text for token in split_words(clean_string(phrase))), canonical)
    return table


@cache
def load_tables() -> PhraseTables:
    """Make the tables of phrases."""
    words = load_words()
    fields: Phrases = {}
    for field in ("form", "route", "release", "frequency"):
        spellings = {name: [name, *written] for name, written in words[field].items()}
        for phrase, canonical in _index(spellings).items():
            fields.setdefault(phrase, {})[field] = canonical
    fields |= _index(words["as needed"], {"as_needed": True})
    for entry in words["also"]:
        fields |= _index(entry["phrases"], {field: value for field, value in entry.items() if field != "phrases"})
    for phrase in _index(words["ignored"]):
        fields.setdefault(phrase, {})
    return PhraseTables(
        fields=fields,
        units=_index(words["unit"]),
        per=_index(words["per"]),
        doses=_index(words["dose"]),
        periods=_index(words["period"]),
        times=_index(words["times words"], True),
        every=_index(words["every words"], True),
        salts=_index(words["salts"]),
        names={phrase: parts for text, parts in words["names"].items() for phrase in _index([text])},
        several={phrase: parts for text, parts in words["several"].items() for phrase in _index([text])},
        no_drugs=_index(words["no drugs"], True),
        more=_index(words["name words"], True),
    )
