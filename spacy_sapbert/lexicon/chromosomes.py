"""Chromosomes in a text: X and Y, karyotypes, and bands. Elsewhere, "X" is a number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..text import strip_accents, to_arabic
from .languages import Language
from .scan import list_words

# Most texts have none of these.
_MAYBE = re.compile(
    r"(?<![^\W\d_])[xy]{1,5}[0o]?(?![^\W_])|[0-9xy][pq](?:[0-9]|ter|(?![^\W_]))|\([0-9xy;]+\)\s?[(pq]", re.IGNORECASE
)
# Characters beside "X" that are looked at.
NEAR = 60
_WORD = re.compile(r"[^\W_]+")
_CHROMOSOME = "(?:2[0-2]|1[0-9]|[1-9]|[XY])"
_REGION = r"(?:[0-9]{1,2}(?:\.[0-9]{1,3})?|ter)"
# "17p11.2", and where a range ends: "q13" of "15q11-q13" and "15q11q13", "13" of "15q11-13". "2P" may be a type, and
# "XP3" is xeroderma pigmentosum.
_BAND = re.compile(
    rf"(?<![^\W_])(?!XP[0-9](?![0-9]))({_CHROMOSOME})"
    rf"([pq]{_REGION}(?:[-–]?[pq]{_REGION}|[-–][0-9]{{2}}(?:\.[0-9]{{1,3}})?(?![0-9pq]))*)",
    re.IGNORECASE,
)
_ARM_OF_SEX = re.compile(r"(?<![^\W_])([XY])([pq])(?![^\W_])")
_POINT = re.compile(rf"([pq]?)({_REGION})")
# "(17)(p11.2)" and "(17)p(11.2)" are 17p11.2; "(9;22)(q34;q11)" is 9q34 and 22q11, and "(3)(q21;q26)" 3q21 and 3q26.
_IN_BRACKETS = re.compile(
    rf"\(({_CHROMOSOME}(?:;{_CHROMOSOME})*)\)\s?(?:\(([pq][^()]*)\)|([pq])\(([^()]*)\))", re.IGNORECASE
)
# "46,XY", "47 XXX", "XXY", "45,X0", but not "mental retardation 45, X-linked".
_SEX = re.compile(r"(?<![^\W_])(?:(4[3-9])[\s,]*(?!X-))?([XY]{1,5})([0O]?)(?![^\W_])", re.IGNORECASE)
# What ISCN calls changes: "del(X)". Behind a karyotype, one says what it is about, whatever the sex is.
_CHANGES = r"(?<![^\W_])(?:del|der|dup|fra|i|idic|ins|inv|r|t|trp|upd)"
_CHANGED = re.compile(rf"{_CHANGES}\($", re.IGNORECASE)
_ABNORMALITY = re.compile(rf",\s?(?:[+-]|{_CHANGES}(?![^\W_]))")
_ACRONYM = re.compile("[A-Z]-$")


class Chromosomes(NamedTuple):
    """The chromosomes of a text."""

    numbers: frozenset[str]  # chromosomes and arms, which stand beside other numbers and letters: 5, p
    parts: frozenset[str]  # bands and karyotypes
    rest: str  # the text without them


def read_chromosomes(text: str, language: Language) -> Chromosomes:
    """Read the chromosomes of a text. A band is listed with all that it is a part of: 5p15.2 with 5p15, 5p1 and 5p. So
    it contradicts other bands only."""
    numbers: set[str] = set()
    parts: set[str] = set()

    def take_band(match: re.Match[str]) -> str:
        numbers.add(match[1].lower())
        for arm, part in _list_parts(match[1].lower(), match[2].lower()):
            numbers.add(arm)
            parts.add(part)
        return " "

    def take_arm(match: re.Match[str]) -> str:
        numbers.update(map(str.lower, match.groups()))
        return " "

    def take_sex(match: re.Match[str]) -> str:
        sex = _read_sex(match, language)
        if sex is None:
            return match[0]
        (parts if len(sex) > 1 else numbers).add(sex)
        before, _ = _cut_sides(match)
        # "ATR-X" is on a chromosome, "MPS-X" has a number.
        return match[0] if _ACRONYM.search(before) else " "

    if _MAYBE.search(text):
        text = _BAND.sub(take_band, _IN_BRACKETS.sub(_write_bands, text))
        text = _SEX.sub(take_sex, _ARM_OF_SEX.sub(take_arm, text))
    return Chromosomes(frozenset(numbers - {""}), frozenset(parts), text)


def _write_bands(match: re.Match[str]) -> str:
    chromosomes = match[1].split(";")
    bands = (match[2] or match[3] + match[4]).split(";")
    if len(chromosomes) == 1:
        chromosomes *= len(bands)
    pairs = zip(chromosomes, map(str.strip, bands), strict=False)
    return f" {' '.join(map(''.join, pairs))} "


def _list_parts(chromosome: str, points: str) -> Iterator[tuple[str, str]]:
    """List what bands are parts of, and the arm of each: its end is no band of its own."""
    arm = ""
    for point in _POINT.finditer(points):
        arm = point[1] or arm
        region = point[2].replace("ter", "")
        ends = (end for end in range(len(region) + 1) if region[end - 1 : end] != ".")
        yield from ((arm, chromosome + arm + region[:end]) for end in ends)


def _read_sex(match: re.Match[str], language: Language) -> str | None:
    """Read a karyotype's sex chromosomes, or X. A karyotype about other chromosomes has "", and other text None."""
    count = match[1]
    sex = match[2].lower()
    zero = match[3]
    if count and _ABNORMALITY.match(match.string, match.end()):
        return ""
    if zero:
        return f"{sex}0" if count or match[0].isupper() else None
    if count:
        return "x0" if (count, sex) == ("45", "x") else sex
    if {*sex} == {"x"}:
        return sex if _is_chromosome(match, language) else None
    return sex if len(sex) > 1 else None


def _is_chromosome(match: re.Match[str], language: Language) -> bool:
    """Check if "X" or "XX" is no number: in "del(X)" and "X-ALD", and beside a word for chromosomes or one's letter."""
    before, after = _cut_sides(match)
    words = _WORD.findall(before)
    words_after = _WORD.findall(after)
    # "X linked" too, but neither "factor X inactivation" nor "factor-X-antibody".
    is_linked = after[1:7].lower() == "linked" or (after[:1] == "-" and before[-1:] != "-")
    if words and to_arabic("x", words[-1].lower()) != "x":
        return is_linked
    if is_linked or _CHANGED.search(before) or _ACRONYM.search(before):
        return True
    for of_side in (words[::-1], words_after):
        word = _find_content(of_side, language)
        if _SEX.fullmatch(word) or not language.chromosomal.isdisjoint(list_words(word, language)):
            return True
    return False


def _cut_sides(match: re.Match[str]) -> tuple[str, str]:
    text = match.string
    start = match.start()
    end = match.end()
    return text[max(start - NEAR, 0) : start], text[end : end + NEAR]


def _find_content(words: list[str], language: Language) -> str:
    return next((word for word in words if strip_accents(word.lower()) not in language.word_kinds), "")
