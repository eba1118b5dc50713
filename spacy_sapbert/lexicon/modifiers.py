"""What words around the mention of a finding say of its side, its severity and its site: "severe pain, left knee".
modifiers.json has the words of each language; sites are those of places.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from .place_reader import read_place_lists

# Characters before a mention that may speak of it.
NEAR = 200
# What ends what a word may be about: a sentence, an item.
_END = re.compile(r"[.;:|\n](?!\d)")
# Words without a sign between them at the end of a text, and one of them.
_PHRASE = re.compile(r"(?:[\w-]+[^\S\n]+)+\Z")
_PHRASE_WORD = re.compile(r"[\w-]+")
SIDE, SEVERITY, SITE = "side", "severity", "site"


class Modifiers(NamedTuple):
    """What is said of a finding; empty where nothing is."""

    side: str = ""  # left, right or bilateral
    severity: str = ""  # such as "severe", or "moderate to severe"
    site: str = ""  # such as "knee"


class Modifier(NamedTuple):
    """A word that says something of a finding."""

    start: int
    end: int
    kind: str
    value: str


class ModifierWords(NamedTuple):
    """The words of a language."""

    values: dict[str, tuple[str, str]]  # by the word: its kind and what it says
    pattern: re.Pattern[str]
    neutral: frozenset[str]  # words that say nothing of which finding it is
    ends: frozenset[str]  # words behind which another phrase begins: "of"
    lists: re.Pattern[str]  # what stands between the items of a list: "and"
    joints: re.Pattern[str]  # what stands between phrases that are about different things: "with"

    @classmethod
    def read(cls, code: str) -> ModifierWords | None:
        """Read the lists of a language."""
        lists = _read_lists().get(code)
        if lists is None:
            return None
        values: dict[str, tuple[str, str]] = {}
        for kind in (SIDE, SEVERITY):
            for value, words in lists[kind].items():
                values.update(dict.fromkeys(words.split(", "), (kind, value)))
        places = read_place_lists().get(code, {"sites": {}, "plurals": {}})
        for site, forms in places["sites"].items():
            for form in forms.split(", "):
                plural = places["plurals"].get(form, f"{form}s")
                values.setdefault(form.lower(), (SITE, site))
                values.setdefault(plural.lower(), (SITE, site))
        return cls(
            values,
            pattern=re.compile(rf"(?<![\w-])(?:{_join(values)})(?![\w-])", re.IGNORECASE),
            neutral=frozenset(lists["neutral"].split()),
            ends=frozenset(lists["ends"].split()),
            lists=_compile_between(lists["lists"]),
            joints=_compile_between(lists["joints"]),
        )

    def list_spoken(self, text: str) -> list[Modifier]:
        """List the words that say something of a finding behind them. Without a side, a site is a part of what it is:
        "liver injury"."""
        modifiers = [*self.find(text)]
        sides = [one.start for one in modifiers if one.kind == SIDE]
        return [one for one in modifiers if one.kind != SITE or any(start < one.start for start in sides)]

    def leave_out_neutral(self, text: str) -> str:
        """Leave out of a text the words that say nothing of which finding it is."""
        for modifier in reversed(self.list_spoken(text)):
            text = f"{text[: modifier.start]} {text[modifier.end :]}"
        return " ".join(word for word in text.split() if not self.is_neutral(word))

    def are_neutral(self, text: str) -> bool:
        """Return whether a text has no other words than such."""
        return not self.leave_out_neutral(text)

    def is_neutral(self, word: str) -> bool:
        """Return whether a word says nothing of which finding it is: "acute", "of", "3", "moderate-to-severe"."""
        plain = word.strip(".,;:()").lower()
        return plain in self.neutral or all(map(self._is_neutral_part, plain.split("-")))

    def _is_neutral_part(self, word: str) -> bool:
        kind, _ = self.values.get(word, ("", ""))
        counted = word.lstrip("0123456789")
        return not counted or counted in self.neutral or word in self.ends or kind in (SIDE, SEVERITY)

    def find_sites(self, *texts: str) -> set[str]:
        """Find the sites that texts name."""
        values = (self.values[match[0].lower()] for text in texts for match in self.pattern.finditer(text))
        return {value for kind, value in values if kind == SITE}

    def find(self, text: str) -> Iterator[Modifier]:
        """Find these words in a text."""
        for match in self.pattern.finditer(text):
            # "mm" is a unit, and "R" a side: letters count in capitals only.
            if len(match[0]) > 1 or match[0].isupper():
                yield Modifier(*match.span(), *self.values[match[0].lower()])


def _join(phrases: Iterable[str]) -> str:
    """Write an expression of phrases, the longest first."""
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))


def _compile_between(phrases: str) -> re.Pattern[str]:
    """Compile an expression of what stands between two words."""
    return re.compile(rf"\s*,?\s+(?:{_join(phrases.split(', '))})\s+", re.IGNORECASE)


@cache
def _read_lists() -> dict[str, dict[str, Any]]:
    lists: dict[str, dict[str, Any]] = srsly.read_json(Path(__file__).with_name("modifiers.json"))
    return lists


get_modifier_words = cache(ModifierWords.read)


def read_modifiers(text: str, mentions: Sequence[tuple[int, int]], code: str) -> list[Modifiers]:
    """Read what a text says of its mentions: a word speaks of the next mention in its clause, or else of the one
    before it.

    text (str): The text.
    mentions (Sequence[tuple[int, int]]): Where mentions start and end, in characters.
    code (str): The language of the text, as in spaCy.
    RETURNS (list[Modifiers]): What is said of each mention; nothing in languages without such words.
    """
    words = get_modifier_words(code)
    of_mentions: list[list[Modifier]] = [[] for _ in mentions]
    ordered = sorted((*mention, number) for number, mention in enumerate(mentions))
    inside = {place for start, end in mentions for place in range(start, end)}
    for modifier in words.find(text) if words and mentions else ():
        number = None if modifier.start in inside else _find_owner(text, modifier, ordered)
        if number is not None:
            of_mentions[number].append(modifier)
    return [*map(_sum_up, of_mentions)]


def _find_owner(text: str, modifier: Modifier, mentions: Sequence[tuple[int, int, int]]) -> int | None:
    """Find the mention that a word speaks of."""
    for start, _, number in mentions:
        if start >= modifier.end:
            gap = text[modifier.end : start]
            if "," not in gap and not _END.search(gap):
                return number
            break
    for _, end, number in reversed(mentions):
        if end <= modifier.start:
            return None if _END.search(text[end : modifier.start]) else number
    return None


def _sum_up(modifiers: Iterable[Modifier]) -> Modifiers:
    """Say what some words say of a finding."""
    values: dict[str, dict[str, None]] = {SIDE: {}, SEVERITY: {}, SITE: {}}
    for modifier in modifiers:
        values[modifier.kind][modifier.value] = None
    sides, severities, sites = values.values()
    side = "bilateral" if len(sides) > 1 else "".join(sides)
    return Modifiers(side, " to ".join(severities), next(iter(sites), ""))


def find_strange_word(text: str, start: int, code: str) -> str:
    """Find a word that stands right before a mention and may make another finding of it: "drug resistant epilepsy".

    text (str): The text.
    start (int): Where the mention starts, in characters.
    code (str): The language of the text, as in spaCy.
    RETURNS (str): The nearest such word; empty if there is none.
    """
    words = get_modifier_words(code)
    return _read_back(text, start, words).strange if words else ""


class _Before(NamedTuple):
    """What stands right before a mention."""

    modifiers: list[Modifier]
    strange: str  # the nearest word that may make another finding of it


def _read_back(text: str, start: int, words: ModifierWords) -> _Before:
    """Read back from a mention to where its phrase begins, or to a strange word."""
    before = _PHRASE.search(text, max(start - NEAR, 0), start)
    if before is None:
        return _Before([], "")
    phrase = before[0]
    modifiers = {modifier.start: modifier for modifier in words.list_spoken(phrase)}
    spoken = {place for modifier in modifiers.values() for place in range(modifier.start, modifier.end)}
    near = []
    for match in reversed([*_PHRASE_WORD.finditer(phrase)]):
        word = match[0].lower()
        if match.start() in modifiers:
            near.append(modifiers[match.start()])
        elif match.start() in spoken:
            continue
        elif word in words.ends:
            break
        elif not words.is_neutral(word):
            return _Before(near[::-1], match[0])
    return _Before(near[::-1], "")


def read_modifiers_before(text: str, start: int, code: str) -> Modifiers:
    """Read what stands right before a mention of side and severity, as running texts have it: "severe left knee pain".
    Words farther away, and behind it, may be verbs or speak of something else: "she left with pneumonia".

    text (str): The text.
    start (int): Where the mention starts, in characters.
    code (str): The language of the text, as in spaCy.
    RETURNS (Modifiers): The side and the severity; nothing in languages without such words.
    """
    words = get_modifier_words(code)
    modifiers = _read_back(text, start, words).modifiers if words else []
    return _sum_up(modifier for modifier in modifiers if modifier.kind != SITE)
