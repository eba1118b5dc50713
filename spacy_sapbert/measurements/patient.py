"""Whom a text is about: age and sex, which say what is usual."""

from __future__ import annotations

import re
from typing import NamedTuple

ADULT_AGE = 18
_SMALL = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
).split()
_NUMBER = rf"(?P<number>\d{{1,3}}|{'|'.join(sorted(_SMALL, key=len, reverse=True))})"
_UNIT = r"(?P<unit>years?|yrs?|months?|mos?|weeks?|wks?|days?)"
# How long something lasts, not an age: "for 10 yrs", "smoked 15 y".
_LASTING = re.compile(
    r"\b(?:for|x|quit|smoke[dr]|smoking|since|past|last|over|about|every|in|after|within|than|next)\s(?:the\s)?$",
    re.IGNORECASE,
)
# What has a size in F: "7F sheath".
_DEVICES = r"(?!\s(?:\w+\s)?(?:foley|catheter|sheath|tube|drain|needle|stent|trach|line|introducer|dilator))"
# "3-year-old", "19 months old"; "52 yo", "75y/o", "46 y", "9y 2m", "81y"; "aged 79", "Age: 9"; "68 F"; "6 mo F".
_AGES = (
    re.compile(rf"\b{_NUMBER}[\s-]{{0,2}}{_UNIT}[\s-]{{0,2}}(?:of age|old)\b", re.IGNORECASE),
    re.compile(
        r"\b(?P<number>\d{1,3})[\s-]?y(?:rs?)?(?:[\s./-]{0,2}o\b|\b(?![\s-]?(?:ago|h|hx|history|gradual)))", re.I
    ),
    re.compile(r"\b(?:aged|age:?)\s(?P<number>\d{1,3})\b", re.IGNORECASE),
    re.compile(rf"(?<![\w.,/])(?P<number>\d{{1,2}})\s?(?:M|(?<!9[4-9])(?<!9[4-9]\s)F|male|female)\b{_DEVICES}"),
    re.compile(rf"\b{_NUMBER}[\s-]?{_UNIT}\.?[\s/]{{1,2}}(?-i:M|F|male|female|boy|girl|o)\b", re.IGNORECASE),
)
# "3 3/12 years", "19/12": could be a date as well.
_TWELFTHS = re.compile(
    r"(?<![\d/])(?:(?P<number>\d{1,2})\s)?(?P<twelfths>\d{1,2})/12\b(?!/)(?!\s(?:ago|history|h/o|of))"
)
_YEARS = {"y": 1.0, "m": 1 / 12, "w": 1 / 52, "d": 1 / 365}
_CHILD = re.compile(
    r"\b(?:neonate|newborn|infant|toddler|boy|girl|baby(?!\saspirin)|child(?!['’-]|\s(?:pugh|class))|p?a?ediatric|nicu|picu|weeker"
    r"|dol\s?#?\d)\b",
    re.IGNORECASE,
)
_SEX = re.compile(
    r"(?:\bold|\by/?o|\byo|\bmo|\d\s?y|\dmo)\b\W{1,3}(?:\w+[\s-]+){0,4}?(?P<word>male|female|man|woman|boy|girl|gentleman|lady|m|f)\b"
    rf"|(?<![\w.,/])\d{{1,2}}\s?(?P<letter>(?-i:M|(?<!9[4-9])(?<!9[4-9]\s)F))\b{_DEVICES}|\b(?P<title>mr|mrs|ms|miss)\b",
    re.IGNORECASE,
)
_SEXES = {
    "women": {"female", "woman", "girl", "lady", "f", "mrs", "ms", "miss"},
    "men": {"male", "man", "boy", "gentleman", "m", "mr"},
}
_PRONOUN = re.compile(r"\b(?:(?P<women>she|her|hers)|(?P<men>he|him|his))\b", re.IGNORECASE)


class Patient(NamedTuple):
    """Whom a text is about."""

    age: float | None = None  # in years, if it is known
    sex: str = ""  # "women", "men", or empty if it is not known
    is_child: bool = False  # adults are those of whom nobody says otherwise


ADULT = Patient()


def read_patient(text: str) -> Patient:
    """Read whom a text is about: the first age that it has, and what it says of the sex."""
    age = _read_age(text)
    is_child = age < ADULT_AGE if age is not None else _CHILD.search(text) is not None
    return Patient(age, _read_sex(text), is_child)


def _read_age(text: str) -> float | None:
    firsts = (next(filter(_is_age, pattern.finditer(text)), None) for pattern in _AGES)
    matches = [match for match in firsts if match is not None]
    first = min(matches, key=lambda match: match.start(), default=_TWELFTHS.search(text))
    if first is None:
        return None
    groups = first.groupdict()
    number = (groups["number"] or "0").lower()
    count = _SMALL.index(number) + 1 if number in _SMALL else int(number)
    share = _YEARS[(groups.get("unit") or "y")[0].lower()]
    return count * share + int(groups.get("twelfths") or 0) / 12


def _is_age(match: re.Match[str]) -> bool:
    """Say whether nothing before a number makes a duration of it."""
    before = match.string[max(match.start() - 16, 0) : match.start()]
    is_old = "old" in match[0].lower() or "age" in match[0].lower()
    return is_old or _LASTING.search(before) is None


def _read_sex(text: str) -> str:
    if match := _SEX.search(text):
        word = (match["word"] or match["letter"] or match["title"]).lower()
        return next(sex for sex, words in _SEXES.items() if word in words)
    kinds = {match.lastgroup or "" for match in _PRONOUN.finditer(text)}
    return kinds.pop() if len(kinds) == 1 else ""
