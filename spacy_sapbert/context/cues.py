"""The cues of a language: phrases that say of the mentions before or behind them that they are denied, uncertain, only
thought of, of the past, or of somebody else.

The folder `cues` has a file for each language, with phrases by what they say: "KIND DIRECTION REACH", with ", PERSON"
where they say who has a finding. "pseudo" are phrases in which a cue is none; "end KIND ..." are words that end what
such cues reach; "ended" are words that put what is denied in the past, as in "kein Fieber mehr". A "series" is a list
whose last item stands behind one of the "alternatives": "kein A, B oder C". "#" stands for any number, "YEAR" for a
year, "{relative}" for each word of "relatives". Other keys are the word lists of `Cues`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import srsly

from ..lexicon import languages
from ..text import strip_accents

FOLDER = Path(__file__).with_name("cues")
NEGATED, UNCERTAIN, FAMILY = "negated", "uncertain", "family"
POSITIVE, PSEUDO, END, ALL = "positive", "pseudo", "end", "all"
# What a label is about beside a finding: a score, a test, a service.
OTHER = "other"
HISTORICAL, HISTORY, HYPOTHETICAL, ENDED = "historical", "history", "hypothetical", "ended"
KINDS = (NEGATED, UNCERTAIN, FAMILY, HISTORICAL, HISTORY, HYPOTHETICAL, POSITIVE, ENDED, OTHER)
DIRECTIONS = ("before", "after", "both")
REACHES = ("word", "phrase", "list", "series", "clause", "sentence", "item")
WORD, PHRASE, LIST, SERIES, CLAUSE, SENTENCE, ITEM = REACHES
_WORD = re.compile(r"\w+|[^\w\s]|\t")
_APOSTROPHES = str.maketrans("’‘`´", "''''")
_NUMBER, _YEAR = "#", "year"
RELATIVE = "{relative}"


class Word(NamedTuple):
    """A word or a sign of a text, as cues are compared. Offsets are those of characters."""

    text: str
    start: int
    end: int


class Cue(NamedTuple):
    """What a phrase says of the mentions that it reaches."""

    kind: str  # one of `KINDS`, "pseudo" or "end"
    is_before: bool = False  # whether it stands before what it speaks of
    is_after: bool = False
    reach: str = ""  # one of `REACHES`
    person: str = ""  # who has it, if a relative or somebody else does
    ends: frozenset[str] = frozenset()  # the kinds of cues that reach no further than this word


class CueMatch(NamedTuple):
    """A cue in a sentence, by the numbers of its words."""

    start: int
    end: int
    cue: Cue


def read_words(text: str) -> list[Word]:
    """Read the words and signs of a text."""
    plain = text.translate(_APOSTROPHES)
    return [
        Word("|" if match[0] == "\t" else strip_accents(match[0].lower()), *match.span())
        for match in _WORD.finditer(plain)
    ]


def _write_number(word: Word) -> str:
    """Write a number as cues have it."""
    if not word.text.isdigit():
        return word.text
    return _YEAR if len(word.text) == 4 and word.text[:2] in ("19", "20") else _NUMBER


def _is_in_compound(words: Sequence[Word], start: int, end: int) -> bool:
    """Say whether hyphens join a phrase with the word before or behind it: "HIV-negative", "childhood-onset"."""
    return (words[start].text.isalpha() and _is_hyphen(words, start - 1)) or (
        words[end - 1].text.isalpha() and _is_hyphen(words, end)
    )


def _is_hyphen(words: Sequence[Word], place: int) -> bool:
    if not 0 < place < len(words) - 1 or words[place].text != "-":
        return False
    return words[place - 1].end == words[place].start and words[place].end == words[place + 1].start


def _read_phrase(phrase: str) -> tuple[str, ...]:
    return tuple(word.text for word in read_words(phrase))


WORD_SETS = (
    "subjects", "openers", "verbs", "joins", "introducing", "stops", "alternatives", "possessives", "lasting",
    "passing", "clinicians", "patients", "third persons", "fillers", "after no", "not denying",
)  # fmt: skip
WORD_LISTS = (*WORD_SETS, "speakers", "questions", "denying answers", "relatives")


class Cues:
    """The cues of a language.

    groups (Mapping[str, Any]): Phrases by what they say, and lists of words, as in the files.
    own (Mapping[str, Sequence[str]]): Further phrases by what they say. They count as they are listed here.
    labels (bool): Whether they are for labels, in which more words say that something else is meant.
    RAISES (ValueError): If a key is something else, or a phrase has no words.
    """

    # These begin a clause: subjects, and what opens one behind a comma or a word that joins.
    subjects: frozenset[str]
    openers: frozenset[str]
    verbs: frozenset[str]  # those that mentions begin with: behind "and" they begin a clause
    joins: frozenset[str]
    introducing: frozenset[str]  # before the subject of a clause that a cue reaches: "denies that she has pain"
    stops: frozenset[str]  # what a phrase does not go beyond
    alternatives: frozenset[str]  # what stands before the last item of a list
    possessives: frozenset[str]  # a mention behind one of these is there
    # Words of mentions that last, and of those that are over when they stand in a section of the past.
    lasting: frozenset[str]
    passing: frozenset[str]
    # Of conversations: who asks, who answers, whom an answer is about, and words that answers may begin with.
    clinicians: frozenset[str]
    patients: frozenset[str]
    third_persons: frozenset[str]
    fillers: frozenset[str]
    after_no: frozenset[str]  # words behind "no" in an answer that denies all
    not_denying: frozenset[str]  # words behind a denial that deny nothing: "I don't know"

    def __init__(
        self,
        groups: Mapping[str, Any],
        own: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        labels: bool = False,
    ) -> None:
        self._phrases: dict[str, dict[tuple[str, ...], list[Cue]]] = defaultdict(partial(defaultdict, list))
        self.open_ends: set[str] = set()  # words that end a line, and no sentence
        self._ends_behind: set[str] = set()  # those of cues behind a mention, with which a sentence may end
        self.abbreviations: set[str] = set()  # words before a full stop that ends none
        for key in groups:
            if key in WORD_LISTS or (key.startswith(OTHER) and not labels):
                continue
            self._add_phrases(groups[key], _read_key(key), groups.get("relatives", {}))
        for words in filter(None, map(_read_phrase, chain.from_iterable(own.values()))):
            self._phrases[words[0]].pop(words, None)
        for key, phrases in own.items():
            self._add_phrases(phrases, _read_key(key), groups.get("relatives", {}))
        self.open_ends -= self._ends_behind
        self._lengths = {
            first: sorted({*map(len, phrases)}, reverse=True) for first, phrases in self._phrases.items() if phrases
        }
        for key in WORD_SETS:
            setattr(self, key.replace(" ", "_"), frozenset(map(strip_accents, groups.get(key, ()))))
        self.questions = list(map(_read_phrase, groups.get("questions", ())))
        self.denials = list(map(_read_phrase, groups.get("denying answers", ())))
        # As they stand, since texts are searched for them.
        names = languages.join_phrases([*groups.get("clinicians", ()), *groups.get("speakers", ())])
        label = rf"(?:{names})(?:_\d)?"
        self.speaker = re.compile(rf"(?im)(?:^|(?<=[.?!])|(?<=[.?!]\s))(?:\[{label}\]|{label}\s?:)")

    def find_person(self, words: Sequence[Word]) -> str:
        """Find the last relative that a sentence is about; empty if there is none."""
        persons = (match.cue.person for match in self.match(words) if match.cue.reach == SENTENCE)
        return next(filter(None, reversed([*persons])), "")

    def _add_phrases(self, phrases: Sequence[str], cue: Cue, relatives: Mapping[str, Sequence[str]]) -> None:
        for phrase in phrases:
            if RELATIVE not in phrase:
                self._add(phrase, cue)
                continue
            for person, words in relatives.items():
                for word in words:
                    self._add(phrase.replace(RELATIVE, word), cue._replace(person=person))

    def _add(self, phrase: str, cue: Cue) -> None:
        words = _read_phrase(phrase)
        if not words:
            raise ValueError(f"{phrase!r:.80} has no words, so it is no cue. Leave it out.")
        self._phrases[words[0]][words].append(cue)
        if cue.is_before and words[-1] == "." and len(words) > 1:
            self.abbreviations.add(words[-2])
        if words[-1].isalpha() and cue.reach not in ("", SENTENCE):
            (self._ends_behind if cue.is_after else self.open_ends).add(words[-1])

    def match(self, words: Sequence[Word], taken: Set[int] = frozenset()) -> list[CueMatch]:
        """Find the cues in words, but for those that lie in longer ones.

        words (Sequence[Word]): The words of a sentence.
        taken (Set[int]): The words that cues can't have: those of mentions, which only "pseudo" may have.
        RETURNS (list[CueMatch]): The cues, in the order of the words.
        """
        matches: list[CueMatch] = []
        last = 0
        barrier = 0  # where the last phrase ends in which a cue is none
        for start, word in enumerate(words):
            first = _write_number(word)
            if first not in self._lengths:
                continue
            phrases = self._phrases[first]
            rest = words[start + 1 : start + self._lengths[first][0]]
            texts = (first, *map(_write_number, rest))
            for length in self._lengths[first]:
                end = start + length
                cues = phrases.get(texts[:length])
                if cues is None or not last < end <= len(words):
                    continue
                if cues[0].kind == PSEUDO:
                    # "Not aware" is none, and so is the "was not" before it.
                    matches = [match for match in matches if match.end <= start]
                    barrier = end
                elif start < barrier or _is_in_compound(words, start, end):
                    continue
                elif not taken.isdisjoint(range(start, end)):
                    continue
                matches += (CueMatch(start, end, cue) for cue in cues)
                last = end
                break
        return matches


def _read_key(key: str) -> Cue:
    said, _, person = key.partition(", ")
    kind, *rest = said.split()
    if kind == PSEUDO:
        return Cue(PSEUDO)
    if kind == END and rest and {*KINDS, ALL}.issuperset(rest):
        return Cue(END, ends=frozenset(rest))
    if kind not in KINDS or len(rest) != 2 or rest[0] not in DIRECTIONS or rest[1] not in REACHES:
        raise ValueError(
            f"{key!r:.80} does not say what cues mean. Write 'KIND DIRECTION REACH' with {', '.join(KINDS)}; "
            f"{', '.join(DIRECTIONS)}; {', '.join(REACHES)}; or 'pseudo', or 'end KIND'."
        )
    direction, reach = rest
    return Cue(kind, direction != "after", direction != "before", reach, person)


def list_cue_languages() -> list[str]:
    """List the codes of the languages whose cues come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def read_cues(code: str) -> dict[str, Any]:
    """Read the cues of a language that come with the package; none if there are none."""
    listed: dict[str, Any] = srsly.read_json(FOLDER / f"{code}.json") if code in list_cue_languages() else {}
    return listed
