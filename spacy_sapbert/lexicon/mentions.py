"""A text as a finder of names reads it, and the mentions that have been found in it so far."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from .bags import Bag
from .languages import Language, join_phrases
from .scan import BRACKETED, Place, Reading, find_compounds

# Words behind a comma that may go with the word behind them.
MOST_BEHIND_COMMA = 2
# Not the comma of "47,XXY".
_COMMA = re.compile(r"(?<!\d),")
# The word behind another one, without a dash by itself.
_BEHIND = re.compile(r"(?:\s+|[-‐‑])(\w+)")
# Each bracket with the pair that it belongs to. What closes behind a mention, and opens before it.
_PAIRS = {bracket: pair for pair in ("()", "[]", "（）", "［］") for bracket in pair}
_CLOSING, _OPENING = re.compile(r"\s*([)\]）］])"), re.compile(r"([(\[（［])\s*\Z")
# A mention that goes on as its name does, one with idle words or links inside, and one of two pieces.
PLAIN, LOOSER, JOINED = range(3)
# Letters that either part of a compound has at least.
LEAST_PART = 3


class Shared(NamedTuple):
    """A word that shares a part of another one, and how it may be written by itself: "Herz-" of "Herz- und
    Nierenversagen" is "Herzversagen", if it is not "Herzenversagen"."""

    start: int
    end: int
    forms: list[str]
    others: list[Place]  # the part of the other word in each form


class Hit(NamedTuple):
    """A mention, by characters."""

    start: int
    end: int
    how: str
    rows: tuple[int, ...]  # of the terminology's names; none for a concept of another kind than is wanted
    score: float
    pieces: tuple[Place, ...]
    is_inside: bool  # whether it is part of a longer phrase
    sites: tuple[Place, ...] = ()  # of a finding
    is_backed: bool | None = None  # whether a recogniser proposes a mention there as well; None if there is none

    def moved(self, by: int) -> Hit:
        """Move it by some characters."""
        pieces, sites = (tuple((start + by, end + by) for start, end in spans) for spans in (self.pieces, self.sites))
        return self._replace(start=self.start + by, end=self.end + by, pieces=pieces, sites=sites)


class Proposal(NamedTuple):
    """Words of a text that are the bag of a name: one row of `Found`."""

    start: int
    end: int
    then: int
    until: int
    entry: int
    is_loose: bool
    has_gap: bool  # whether words are inside that its name lacks
    way: int  # PLAIN, LOOSER or JOINED
    last: int  # its last word

    @property
    def is_joined(self) -> bool:
        """Return whether it has two pieces."""
        return self.way == JOINED


class ReadText:
    """A text and its reading, as lists, whose items are quicker to get than those of arrays."""

    def __init__(self, text: str, reading: Reading, language: Language, misspelt: frozenset[int]) -> None:
        self.text = text
        self.reading = reading
        self.misspelt = misspelt
        self._head_first = language.head_first
        self._is_spaced = language.is_spaced
        self._genitives = language.genitives.split()
        self._adjectives = tuple(language.adjective_endings.split())
        self.idle = frozenset(language.idle_hashes.tolist())
        self.opening = frozenset(language.opening_hashes.tolist())
        self._sizes = frozenset(language.size_hashes.tolist())
        columns = (column.tolist() for column in reading)
        self.hashes, self.starts, self.ends, *others, self.segment, self.links, self.joins, self.skipped = columns
        self._others = [*zip(*others, strict=True)]
        # Whether nothing stands between a word and the next one.
        self.goes_on = np.append(~np.diff(reading[5:], axis=1).any(axis=0), False).tolist()
        # The first words of compounds.
        self._split = {at for at in find_compounds(reading.hashes, language).tolist() if self.goes_on[at]}
        # What has been found: the places, where names end, and the words inside names that aren't their last.
        self.found: dict[Place, tuple[tuple[int, bool], Hit]] = {}
        self.ended: set[int] = set()
        self.inside: set[int] = set()
        # The places of a size and one word, and where the phrase goes on.
        self.sized: dict[Place, int] = {}

    def find_words(self, part: Proposal) -> Bag:
        """Find the words of a mention."""
        words = self.hashes[part.start : part.end] + self.hashes[part.then : part.until]
        return tuple(word for word in words if word not in self.idle) if part.has_gap else tuple(words)

    def count_misspelt(self, part: Proposal) -> int:
        """Count its words that have been put right."""
        places = (*range(part.start, part.end), *range(part.then, part.until)) if self.misspelt else ()
        return len(self.misspelt.intersection(places))

    def find_place(self, part: Proposal) -> Place:
        """Find where it starts and ends, in characters."""
        start = self.starts[part.start]
        end = self.ends[part.last]
        if self.links[part.last] - self.links[part.start] < BRACKETED:
            return start, end
        # With the others of pairs of brackets: "Leprosy [Hansen's disease]", "(131)I-albumin". There may be spaces
        # inside them, as in corpora that are split into words.
        while (bracket := _CLOSING.match(self.text, end)) and self._count_open(bracket[1], start, end) > 0:
            end = bracket.end()
        # A bracket is not far away, and a search from the beginning would take long.
        before = max(start - 9, 0)
        while (bracket := _OPENING.search(self.text, before, start)) and self._count_open(bracket[1], start, end) < 0:
            start = bracket.start()
        return start, end

    def list_pieces(self, part: Proposal, start: int, end: int) -> tuple[Place, ...]:
        """List the pieces of a mention, with what a word lacks that another one has."""
        if part.is_joined:
            return (start, self.ends[part.end - 1]), (self.starts[part.then], end)
        first = self._others[part.start]
        last = self._others[part.last]
        if last[0] > start:
            return (start, end - 1), last
        return (first, (start + 1, end)) if 0 <= first[0] < start else ((start, end),)

    def _count_open(self, bracket: str, start: int, end: int) -> int:
        pair = _PAIRS[bracket]
        return self.text.count(pair[0], start, end) - self.text.count(pair[1], start, end)

    def find_way(self, start: int, end: int) -> str:
        """Return how a mention has been found; empty if it has not."""
        return self.found[start, end][1].how if (start, end) in self.found else ""

    def add(self, part: Proposal, hit: Hit) -> None:
        """Add what has been found."""
        self.found[hit.start, hit.end] = (part.way, part.is_loose), hit
        if not part.is_joined:
            self.ended.add(hit.end)
        if part.way != PLAIN:
            return
        self.inside.update(range(part.start, part.last))
        is_sized = part.last == part.start + 1 and self.hashes[part.start] in self._sizes
        if is_sized and self.goes_on_behind(part):
            self.sized[hit.start, hit.end] = self.starts[part.last + 1]

    def drop_sized(self) -> None:
        """Drop mentions whose size belongs to another one: "small kidney" in "small kidney stone"."""
        for (start, end), behind in self.sized.items():
            if any(start < other <= behind and end < other_end for other, other_end in self.found):
                del self.found[start, end]

    def cuts(self, first: int, last: int) -> bool:
        """Return whether words are half of a compound: "thumb" of "thumb nail"."""
        return last in self._split or first - 1 in self._split

    def cuts_compound(self, part: Proposal) -> bool:
        """Return whether a mention has one of the words of a compound: "absent thumb" of "absent thumb nail"."""
        return self.cuts(part.start, part.last)

    def goes_on_behind(self, part: Proposal) -> bool:
        """Return whether the phrase that a mention ends with goes on."""
        return self.goes_on[part.last] and self.hashes[part.last + 1] not in self.opening

    def ends_with_adjective(self, part: Proposal) -> bool:
        """Return whether the phrase that a mention ends with goes on, and the last word is an adjective."""
        word = self.text[self.starts[part.last] : self.ends[part.last]].lower()
        return word.endswith(self._adjectives) and self.goes_on_behind(part)

    def is_inside(self, part: Proposal) -> bool:
        """Return whether a mention is part of a longer phrase, as in "pulmonary hypertension" and "tumor marker"."""
        before = part.start - 1
        goes_on_before = before >= 0 and self.goes_on[before] and self.hashes[before] not in self.opening | self.idle
        return bool(self.opening) and (goes_on_before or self.goes_on_behind(part))

    def begins_with_shared(self, part: Proposal) -> bool:
        """Return whether two pieces are "C" and "B" of "C of A and B" or "C A and B", rather than of "A and B C"."""
        return part.is_joined and self.links[part.end] == self.links[part.end - 1]

    def begins_with_attribute(self, part: Proposal) -> bool:
        """Return whether two pieces are "C" and "B" of "C A and B": "enlarged liver and spleen"."""
        is_next = self.goes_on[part.end - 1] and self.hashes[part.end] not in self.idle
        return is_next and not self._head_first and self.begins_with_shared(part)

    def ends_with_predicate(self, part: Proposal) -> bool:
        """Return whether two pieces are "A" and "C" of "A and B are C"."""
        return part.is_joined and part.has_gap and self.hashes[part.then - 1] in self.idle

    def is_apart(self, part: Proposal) -> bool:
        """Return whether no name begins or ends inside a mention and goes on outside of it: "abdominal pain, abdominal
        distension". A plain mention may. What begins behind a comma does not go on: "hypertension, pulmonary valve"."""
        if part.way == PLAIN:
            return True
        start, end = self.find_place(part)
        comma = _COMMA.search(self.text, start, end) if part.way == LOOSER else None
        if comma is None and not (part.is_joined or part.has_gap):
            return True
        if part.last in self.inside:
            return False
        if part.start - 1 in self.inside and not self.begins_with_shared(part):
            return False
        # Much behind a comma goes with no other word: "CD4-positive, alpha-beta T cells".
        is_short = comma is not None and len(self.text[comma.end() : end].split()) <= MOST_BEHIND_COMMA
        return not (is_short and self._is_item(part.last))

    def _is_item(self, last: int) -> bool:
        """Return whether a phrase goes on behind a word: not with a number, and not with a word that says how or where
        it is."""
        behind = _BEHIND.match(self.text, self.ends[last])
        if behind is None:
            return False
        if behind[1] in self._genitives:
            return True
        if not self.goes_on[last] or behind[1].isdigit():
            return False
        return self._is_spaced and self.hashes[last + 1] not in self.opening | self.idle

    def is_of(self, at: int) -> bool:
        """Return whether a word like "of" stands behind another one."""
        behind = _BEHIND.match(self.text, self.ends[at])
        return behind is not None and behind[1].lower() in self._genitives

    def may_join(self, part: Proposal) -> bool:
        """Return whether two pieces have nothing between them but items of a list that are no names."""
        if not self._is_spaced:
            return False
        places = range(part.end, part.then)
        first = next((at for at in places if self.links[at] != self.links[part.end - 1]), part.then)
        last = next((at for at in reversed(places) if self.hashes[at] not in self.idle), -1)
        if last < 0 or self._is_whole(part, first):
            return False
        # "Pain in his hands and feet", but not "muscle and her joint pain".
        words = {*self.hashes[part.end : first]} - self.idle | {*self.hashes[first : last + 1]}
        ends = (self.ends[at] for at in range(first, part.then) if self.links[at] != self.links[at + 1])
        return self.ended.isdisjoint(ends) and self.opening.isdisjoint(words)

    def _is_whole(self, part: Proposal, first: int) -> bool:
        """Return whether one of two pieces says something by itself; behind the first item comes the word `first`."""
        if not self.begins_with_shared(part):  # what ends a name says nothing about what comes later
            is_predicate = self.ends_with_predicate(part) and self.goes_on_behind(part)
            return is_predicate or self.ends[part.end - 1] in self.ended
        # Not "loss of appetite and weight gain".
        if (self.starts[part.then], self.ends[part.last]) in self.found or self.goes_on_behind(part):
            return True
        return self.begins_with_attribute(part) and (self.starts[part.start], self.ends[first - 1]) not in self.found


def find_shared(text: str, language: Language) -> Iterator[Shared]:
    """Find words that share a part of another one, the longest part first."""
    if not language.shares_parts:
        return
    ends, beginnings = _compile_shared(language)
    for match in ends.finditer(text):
        beginning, word = match.groups()
        start, end = match.span(2)
        cuts = range(LEAST_PART, len(word) - LEAST_PART + 1)
        forms = [beginning + word[cut:] for cut in cuts]
        yield Shared(*match.span(), forms, [(start + cut, end) for cut in cuts])
    for match in beginnings.finditer(text):
        word, ending = match.groups()
        start = match.start(1)
        cuts = range(len(word) - LEAST_PART, LEAST_PART - 1, -1)
        forms = [word[:cut] + ending for cut in cuts]
        yield Shared(match.start(2) - 1, match.end(2), forms, [(start, start + cut) for cut in cuts])


@cache
def _compile_shared(language: Language) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Write expressions for the words before "Herz-, Leber- und Nierenversagen" ends, and for "Magenschmerzen und
    -krämpfe"."""
    joins = join_phrases(language.joins.split())
    part = rf"\w{{{LEAST_PART},}}"
    whole = rf"{part}\w{{{LEAST_PART}}}"
    ends = rf"\b({part})[-‐‑](?=(?:, ?\w+[-‐‑])*,? (?:{joins}) ({whole}))"
    return re.compile(ends), re.compile(rf"\b({whole}) (?:{joins}) [-‐‑]({part})")
