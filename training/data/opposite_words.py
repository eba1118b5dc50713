"""Rules of opposites: which words of a name tell it from the name of another concept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from spacy_sapbert.text import normal_words

# Normal forms of words (`normal_words`), the sides of each kind. A name and its opposite differ in one of them.
WORDS: dict[str, tuple[str, str]] = {
    "male/female": ("male boy man masculine", "female girl woman feminine"),
    "high/low": ("high", "low"),
    "left/right": ("left", "right"),
    "increased/decreased": (
        "increased increase elevated elevation raised excessive",
        "decreased decrease reduced reduction lowered diminished deficient",
    ),
    "acute/chronic": ("acute", "chronic"),
    "with/without": ("with", "without"),
    "upper/lower": ("upper", "lower"),
    "anterior/posterior": ("anterior", "posterior"),
    "superior/inferior": ("superior", "inferior"),
    "dorsal/ventral": ("dorsal", "ventral"),
    "medial/lateral": ("medial", "lateral"),
    "proximal/distal": ("proximal", "distal"),
    "internal/external": ("internal inner", "external outer"),
    "primary/secondary": ("primary", "secondary"),
    "benign/malignant": ("benign", "malignant"),
    "dominant/recessive": ("dominant", "recessive"),
    "positive/negative": ("positive", "negative"),
    "congenital/acquired": ("congenital", "acquired"),
    "adult/childhood": ("adult", "childhood child pediatric juvenile infantile"),
    "systolic/diastolic": ("systolic", "diastolic"),
    "mild/severe": ("mild", "severe profound"),
    "early/late": ("early", "late"),
    "long/short": ("long", "short"),
    "large/small": ("large", "small"),
    "unilateral/bilateral": ("unilateral", "bilateral"),
    "maternal/paternal": ("maternal", "paternal"),
    "agonist/antagonist": ("agonist", "antagonist"),
}
# Beginnings of words.
PREFIXES: dict[str, tuple[str, str]] = {
    "hypo/hyper": ("hypo", "hyper"),
    "brady/tachy": ("brady", "tachy"),
    "micro/macro": ("micro", "macro"),
    "oligo/poly": ("oligo", "poly"),
}
TYPE_1_OR_2, NUMBERED = "type 1/type 2", "numbered"
KINDS = (*WORDS, *PREFIXES, TYPE_1_OR_2, NUMBERED)
# A number at the end of a name, or behind one of these words, tells siblings apart.
_COUNTED = frozenset("type class grade group stage factor form subtype variant".split())
_NUMBER = re.compile(r"\d{1,3}[a-z]?")
_LETTER = re.compile(r"[a-h]")
# The shortest rest of a word behind a prefix.
SHORTEST_STEM = 4
SLOT = "\0"

_SIDES = {
    word: (kind, str(side))
    for kind, sides in WORDS.items()
    for side, words in enumerate(sides)
    for word in words.split()
}
_STARTS = [(kind, str(side), start) for kind, sides in PREFIXES.items() for side, start in enumerate(sides)]


class Slot(NamedTuple):
    """A name with one word, or the beginning of one, taken out.

    kind (str): The kind of opposites.
    frame (str): The other words.
    side (str): What was taken out: names with the same frame and another side are opposites.
    """

    kind: str
    frame: str
    side: str


def find_slots(name: str) -> Iterator[Slot]:
    """Find the words of a name that tell it from its opposites."""
    words = normal_words(name)
    if len(words) > 1:
        for place, word in enumerate(words):
            if word in _SIDES:
                kind, side = _SIDES[word]
                yield Slot(kind, _frame(words, place), side)
            elif kind := _count(words, place):
                yield Slot(kind, _frame(words, place), word)
    for place, word in enumerate(words):
        for kind, side, start in _STARTS:
            if word.startswith(start) and len(word) >= len(start) + SHORTEST_STEM:
                yield Slot(kind, _frame(words, place, word.removeprefix(start)), side)


def are_opposite(left: str, right: str) -> bool:
    """Tell whether two sides of one frame are opposites. "1" and "1a" are not: one may contain the other."""
    return not (left.startswith(right) or right.startswith(left))


def _frame(words: tuple[str, ...], place: int, stem: str = "") -> str:
    return " ".join((*words[:place], SLOT + stem, *words[place + 1 :]))


def _count(words: tuple[str, ...], place: int) -> str:
    """Return the kind of a number or letter that counts siblings; nothing for other words."""
    word, is_behind = words[place], place > 0 and words[place - 1] in _COUNTED
    if is_behind and words[place - 1] == "type" and word in ("1", "2"):
        return TYPE_1_OR_2
    is_last = 0 < place == len(words) - 1
    counts = (is_behind and _LETTER.fullmatch(word)) or ((is_behind or is_last) and _NUMBER.fullmatch(word))
    return NUMBERED if counts else ""
