"""Findings and where they are: "pain in the left knee" is knee pain. A head, a site and what may stand between them are
words of a language, from places.json. The names are those of a terminology that say both and nothing else."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import srsly

from ..ragged import find_places
from .languages import Language, get_reader

if TYPE_CHECKING:
    from .find import ReadText
    from .sections import Section

# How a finding says where it is: "pain in the knee", "the knee is swollen", "the knee hurts", "broke her wrist".
NOUN, ADJECTIVE, VERB, ACT = 1, 2, 4, 8
_KINDS = {"nouns": NOUN, "adjectives": ADJECTIVE, "verbs": VERB, "acts": ACT}
# The most words between a finding and its site.
MOST_BETWEEN = 7
# What stands between two words: nothing, a preposition, "and", a comma; or something else.
_PIECE = re.compile(r"\w+|[^\w\s]")
_LONGEST_GAP = 24
# The beginning of a line or sentence, or what looks at a site, before "Left knee:".
_LINE_START = re.compile(r"(?:\A|[\n.;]|\b(?:of|the))[\s\-*•]*\Z")
_NEW_LINE = re.compile(r"\n(?![ \t]*[a-z])")
# The characters before an item that say whether it begins a line, and how far behind a finding with a site one without
# it is still the same.
NEAR, FAR = 200, 1000
# The label of sections with allergies, and the most words of an item there.
ALLERGIES, MOST_ALLERGEN = "allergies", 3
# Words of texts, by their hashes.
Words = frozenset[int]
Place = tuple[int, int]  # start and end in characters


class Site(NamedTuple):
    """A site in a text, with the words for a side of it."""

    name: str
    start: int
    end: int
    full_start: int
    is_whole: bool = False  # whether the word is the finding as well

    @property
    def place(self) -> Place:
        """Return where it is, with its side."""
        return self.full_start, self.end


class Placed(NamedTuple):
    """A finding in a text and its sites."""

    heads: tuple[str, ...]  # what it may be called
    start: int
    end: int
    kind: int
    sites: tuple[Site, ...] = ()
    is_next: bool = True  # whether nothing but words of a site stand between it and its first site
    number: int = 0  # of its word
    is_shared: bool = False  # whether another finding, which it is joined to, has the site


class PlaceWords(NamedTuple):
    """The words of a language."""

    heads: dict[int, list[tuple[str, int]]]  # by their words
    sites: dict[int, list[tuple[tuple[int, ...], str]]]  # by their first words, long ones first
    last: dict[int, list[tuple[tuple[int, ...], str]]]  # by their last words
    names: dict[tuple[str, str], list[tuple[int, ...]]]  # how heads at sites may be called, usual names first
    wholes: dict[int, tuple[str, str]]  # words that say both
    whole_sites: dict[str, str]  # as they are written in headings
    broader: dict[str, str]
    recalled: frozenset[str]  # heads that are mentioned again without their sites
    vague: frozenset[str]  # sites that all of a body has
    prepositions: Words
    sides: Words
    determiners: Words
    between: Words
    elsewhere: Words  # behind a finding that is not where the one before it was
    studies: Words  # of a site, of which they say something
    allergies: tuple[int, ...]  # what names end with
    denials: Words
    topics: Words
    small: frozenset[str]  # prepositions as they are written
    small_elsewhere: frozenset[str]
    head_hashes: np.ndarray
    site_hashes: np.ndarray
    allergy_hashes: np.ndarray

    @classmethod
    def read(cls, language: Language) -> PlaceWords | None:
        """Read the words of a language; None where there are none."""
        listed = _read_lists().get(language.code)
        if listed is None:
            return None
        read = get_reader(language)

        def hash_words(text: str) -> tuple[int, ...]:
            return tuple(hash_ for word in re.split(r"[\s-]+", text) for hash_ in read(word).hashes)

        def hash_each(text: str) -> Words:
            return frozenset(hash_ for word in text.split() for hash_ in hash_words(word))

        heads: dict[int, list[tuple[str, int]]] = defaultdict(list)
        names: dict[tuple[str, str], list[tuple[int, ...]]] = {}
        sites: dict[str, list[tuple[int, ...]]] = {
            name: [hash_words(form) for form in forms.split(", ")] for name, forms in listed["sites"].items()
        }
        for name, of_head in listed["heads"].items():
            kinds: dict[int, int] = {}
            for kind, words in of_head.items():
                for word in words.split():
                    (form,) = hash_words(word)
                    kinds[form] = kinds.get(form, 0) | _KINDS[kind]
            for form, bits in kinds.items():
                heads[form].append((name, bits))
            for site, forms in sites.items():
                names[name, site] = [(*of_site, form) for form, of_site in product(kinds, forms)]
        forms_of = ((form, name) for name, forms in listed["sites"].items() for form in forms.split(", "))
        whole_sites = {written.lower(): name for form, name in forms_of for written in (form, listed["plurals"].get(form, f"{form}s"))}
        wholes = {}
        for whole, pair in listed["wholes"].items():
            head, _, site = pair.partition(" ")
            (form,) = hash_words(whole)
            wholes[form] = head, site
            names[head, site].append((form,))
        first, last = defaultdict(list), defaultdict(list)
        for name, forms in sites.items():
            for form in forms:
                first[form[0]].append((form, name))
                last[form[-1]].append((form, name))
        for of_word in (*first.values(), *last.values()):
            of_word.sort(key=lambda pair: -len(pair[0]))
        return cls(
            dict(heads),
            dict(first),
            dict(last),
            names,
            wholes,
            whole_sites,
            listed["broader"],
            frozenset(listed["recalled"].split(", ")),
            frozenset(listed["vague"].split(", ")),
            hash_each(listed["prepositions"]),
            hash_each(listed["sides"]),
            hash_each(listed["determiners"]),
            hash_each(listed["between"]) | hash_each(listed["determiners"]) | frozenset(language.idle_hashes.tolist()),
            hash_each(listed["elsewhere"]),
            hash_each(listed["studies"]),
            hash_words(listed["allergies"]),
            hash_each(listed["denials"]),
            hash_each(listed["topics"]),
            frozenset(listed["prepositions"].split()),
            frozenset(f"{listed['prepositions']} {listed['elsewhere']}".split()),
            np.unique(np.array([*heads, *wholes], dtype=np.uint64)),
            np.unique(np.array([*first], dtype=np.uint64)),
            np.unique(np.array(hash_words(listed["allergies"]), dtype=np.uint64)),
        )


@cache
def _read_lists() -> Mapping[str, Mapping[str, any]]:
    return srsly.read_json(Path(__file__).with_name("places.json"))


@cache
def get_place_words(language: Language) -> PlaceWords | None:
    """Get the words of a language."""
    return PlaceWords.read(language)


class Heading(NamedTuple):
    """A heading of a note, and the end of what is below it."""

    start: int
    end: int
    section_end: int
    text: str
    label: str

    @classmethod
    def of(cls, text: str, section: Section) -> Heading:
        """Take the heading of a section."""
        start, end = section.start, section.heading_end
        return cls(start, end, section.end, text[start:end], section.label)

    def moved(self, by: int) -> Heading:
        """Move it by some characters."""
        return self._replace(start=self.start + by, end=self.end + by, section_end=self.section_end + by)


class Allergen(NamedTuple):
    """What somebody may be allergic to."""

    words: tuple[int, ...]
    start: int
    end: int
    head: Place | None  # where "allergic" is, if it stands before it


class Name(NamedTuple):
    """A finding with its site, and the names of both."""

    start: int
    end: int
    rows: tuple[int, ...]
    pieces: tuple[Place, ...]


class PlaceFinder:
    """Find the names of a terminology that say what a finding is and where."""

    def __init__(
        self, words: PlaceWords, find_entries: Callable[[np.ndarray], np.ndarray], choose: Callable[[int, tuple[int, ...]], tuple[int, ...]]
    ) -> None:
        self._words, self._choose = words, choose
        pairs = [(pair, form) for pair, forms in words.names.items() for form in forms]
        self._entries: dict[tuple[str, str], list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        self._find_entries = find_entries
        entries = find_entries([form for _, form in pairs])
        for place in np.flatnonzero(entries >= 0).tolist():
            pair, form = pairs[place]
            self._entries[pair].append((int(entries[place]), form))
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}

    def find_rows(self, heads: Sequence[str], site: str | None) -> tuple[int, ...]:
        """Find the names of a finding at a site, or at the one that this is a part of."""
        while site:
            for head in heads:
                if rows := self._find_names(head, site):
                    return rows
            site = self._words.broader.get(site)
        return ()

    def _find_names(self, head: str, site: str) -> tuple[int, ...]:
        key = head, site
        if key not in self._known:
            chosen = (self._choose(entry, form) for entry, form in self._entries.get(key, ()))
            self._known[key] = next(filter(None, chosen), ())
        return self._known[key]

    def find(
        self, text: ReadText, starts: Sequence[int], headings: Iterable[Heading]
    ) -> tuple[list[Name], dict[int, tuple[Place, ...]]]:
        """Find names in texts that are read as one and begin at some places, and the sites of findings by where these
        start."""
        reader = PlaceReader(self._words, text)
        names: list[Name] = [*self._name_allergies(reader, headings)]
        sites: dict[int, tuple[Place, ...]] = {}
        regions = reader.find_regions(headings)
        region_starts = [start for start, *_ in regions]
        covered = _find_covered(text)
        memory, number = _Memory(self._words), -1
        for placed in reader.find():
            if (now := bisect_right(starts, placed.start)) != number:
                memory, number = _Memory(self._words), now
            if placed.sites:
                named = [*self._name(placed)]
                names += named
                if named or not placed.is_shared:
                    sites[placed.start] = tuple(site.place for site in placed.sites)
                memory.add(placed, is_whole=text.hashes[placed.number] in self._words.wholes)
                continue
            if placed.start in covered or not reader.is_bare(placed):
                continue
            at = bisect_right(region_starts, placed.start) - 1
            is_in_region = at >= 0 and regions[at][1] > placed.start
            site = regions[at][2] if is_in_region else memory.recall(placed)
            if site and (rows := self.find_rows(placed.heads, site.name)):
                pieces = tuple(sorted(((site.start, site.end), (placed.start, placed.end))))
                names.append(Name(placed.start, placed.end, rows, pieces))
                sites[placed.start] = (site.place,)
        return names, sites

    def _name_allergies(self, reader: PlaceReader, headings: Iterable[Heading]) -> Iterator[Name]:
        """Name what somebody is allergic to, behind these words or below a heading."""
        items = [*reader.list_allergens(headings)]
        pairs = [(item, form) for item in items for form in self._words.allergies]
        entries = self._find_entries([(*item.words, form) for item, form in pairs])
        taken: set[int] = set()
        # Long ones come first.
        for (item, form), entry in zip(pairs, entries.tolist(), strict=True):
            if entry >= 0 and item.start not in taken and (rows := self._choose(entry, (*item.words, form))):
                taken.add(item.start)
                start = item.start if item.head is None else item.head[0]
                yield Name(start, item.end, rows, ((start, item.end),))

    def _name(self, placed: Placed) -> Iterator[Name]:
        """Name a finding at each of its sites. The span of the first one has both; others have their own words."""
        head = placed.start, placed.end
        for site in placed.sites:
            rows = self.find_rows(placed.heads, site.name)
            if rows and site.start != placed.start:
                pieces = tuple(sorted((head, (site.start, site.end))))
                if site is placed.sites[0]:
                    start, end = (pieces[0][0], pieces[1][1]) if placed.is_next else head
                else:
                    start, end = site.start, site.end
                whole = ((start, end),) if (start, end) == (pieces[0][0], pieces[1][1]) else pieces
                yield Name(start, end, rows, whole)


class _Memory:
    """The sites that findings of a text have had so far."""

    def __init__(self, words: PlaceWords) -> None:
        self._words = words
        self._sites: dict[str, dict[str, Site]] = defaultdict(dict)

    def add(self, placed: Placed, *, is_whole: bool) -> None:
        """Remember where a finding is. "Headache" is no pain that somebody comes back to."""
        for head in placed.heads:
            for site in placed.sites:
                if site.name in self._words.vague:
                    continue
                # The last one comes last.
                self._sites[head].pop(site.name, None)
                self._sites[head][site.name] = site._replace(is_whole=is_whole)

    def recall(self, placed: Placed) -> Site | None:
        """Find where a finding is that was somewhere before, and nowhere else."""
        sites = [*self._sites[placed.heads[0]].values()]
        if not sites or placed.heads[0] not in self._words.recalled or placed.start - sites[-1].end > FAR:
            return None
        last = sites[-1]
        return last if not last.is_whole and all(self._is_same(site.name, last.name) for site in sites) else None

    def _is_same(self, name: str, other: str) -> bool:
        broader = self._words.broader
        return name == other or broader.get(name) == other or broader.get(other) == name


def _find_covered(text: ReadText) -> set[int]:
    """Find where words start that are part of a longer mention."""
    covered: set[int] = set()
    for start, end in text.found:
        first = bisect_left(text.starts, start)
        last = bisect_left(text.starts, end)
        if last - first > 1:
            covered.update(text.starts[first:last])
    return covered


class PlaceReader:
    """Find the findings and sites of one text."""

    def __init__(self, words: PlaceWords, text: ReadText) -> None:
        self._words, self._text = words, text
        self._hashes, self._starts, self._ends = text.hashes, text.starts, text.ends
        self._segment = text.segment

    def find(self) -> Iterator[Placed]:
        """Find all findings, with their sites if the sentence says them."""
        words, text = self._words, self._text
        found: dict[int, Placed] = {}
        for k in np.flatnonzero(find_places(words.head_hashes, text.reading.hashes) >= 0).tolist():
            found[k] = self._read(k, found)
        # "Pain and swelling in the knee"
        for k in reversed([*found]):
            placed, (at, joint) = found[k], self._find_joint(k)
            before = found.get(at)
            if before and not before.sites and before.kind & placed.kind & NOUN and joint and self._is_ahead(placed):
                found[at] = before._replace(sites=placed.sites, is_next=False)
        yield from found.values()

    def _find_joint(self, k: int) -> tuple[int, str]:
        """Find the word that another one, and words of degree before it, are joined to, and how."""
        at = k
        while at and self._gap(at) == "" and self._hashes[at - 1] in self._words.between:
            at -= 1
        gap = self._gap(at)
        return at - 1, gap if gap in ("&", ",", ",&") else ""

    def _read(self, k: int, found: Mapping[int, Placed]) -> Placed:
        start, end = self._starts[k], self._ends[k]
        if whole := self._words.wholes.get(self._hashes[k]):
            head, site = whole
            return Placed((head,), start, end, NOUN, (Site(site, start, end, start),), number=k)
        pairs = self._words.heads[self._hashes[k]]
        heads, kind = tuple(name for name, _ in pairs), pairs[0][1]
        placed = Placed(heads, start, end, kind, number=k)
        at, joint = self._find_joint(k)
        before = found.get(at)
        # "The knee is swollen and painful", "knee pain and swelling"
        if before and before.sites and not self._is_ahead(before) and ("&" in joint or (joint and not kind & NOUN)):
            placed = placed._replace(sites=before.sites, is_next=False, is_shared=True)
        sites, is_next = self._look_back(k, kind)
        ahead = () if sites and kind & NOUN else self._look_ahead(k, kind)
        if sites or ahead:
            placed = placed._replace(sites=ahead or sites, is_next=bool(ahead) or is_next, is_shared=False)
        return placed

    @staticmethod
    def _is_ahead(placed: Placed) -> bool:
        return bool(placed.sites) and placed.sites[0].start > placed.start

    def _gap(self, k: int) -> str | None:
        """Say what stands between a word and the one before it: None where they do not belong together."""
        start, end = self._ends[k - 1], self._starts[k]
        if k == 0 or self._segment[k] != self._segment[k - 1] or end - start > _LONGEST_GAP:
            return None
        return _read_gap(self._text.text[start:end].lower(), self._words.small)

    def _look_ahead(self, k: int, kind: int) -> tuple[Site, ...]:
        """Look for "in the left knee and foot" behind a finding, and for "knees" behind "swollen"."""
        words, n = self._words, len(self._hashes)
        is_open, side, at = False, -1, k + 1
        sites: list[Site] = []
        while at < min(k + 1 + MOST_BETWEEN, n):
            gap, word = self._gap(at), self._hashes[at]
            if gap is None or "," in gap or ("&" in gap and "p" not in gap and not is_open):
                break
            is_open |= "p" in gap or word in words.prepositions
            if site := self._find_site(at, words.sites, side):
                name, last = site
                if not (is_open if kind & NOUN else kind & (ADJECTIVE | ACT) or is_open) or self._is_topic(last + 1):
                    break
                sites.append(Site(name, self._starts[at], self._ends[last], self._starts[side if side >= 0 else at]))
                return (*sites, *self._list_more(last + 1))
            if word in words.sides:
                side = at if side < 0 else side
            elif word in words.between and word not in words.denials:
                pass
            elif word not in words.prepositions:
                break
            at += 1
        return ()

    def _list_more(self, at: int) -> Iterator[Site]:
        """List the other sites of "in her hips, knees and elbows"."""
        side, waiting = -1, []
        gap = self._gap(at) if at < len(self._hashes) else None
        while gap and ("," in gap or "&" in gap):
            is_last = "&" in gap
            side = -1
            while at < len(self._hashes) and self._may_precede(at):
                side = at if side < 0 and self._hashes[at] in self._words.sides else side
                at += 1
                if at >= len(self._hashes) or self._gap(at) not in ("", "p"):
                    return
            site = self._find_site(at, self._words.sites, side) if at < len(self._hashes) else None
            if site is None or self._goes_on(site[1]):
                return
            name, last = site
            waiting.append(Site(name, self._starts[at], self._ends[last], self._starts[side if side >= 0 else at]))
            if is_last:
                yield from waiting
                waiting = []
            at = last + 1
            gap = self._gap(at) if at < len(self._hashes) else None

    def _may_precede(self, at: int) -> bool:
        word, words = self._hashes[at], self._words
        is_small = word in words.sides or word in words.between or word in words.prepositions
        return is_small and self._find_site(at, words.sites, -1) is None

    def _look_back(self, k: int, kind: int) -> tuple[tuple[Site, ...], bool]:
        """Look for "her left knee really" before "hurts", and for "left leg" before "weakness"; and whether words
        stand between them."""
        words, at, is_next = self._words, k - 1, True
        if not kind & (NOUN | ADJECTIVE | VERB):
            return (), True
        while at >= max(k - MOST_BETWEEN, 0):
            if self._gap(at + 1) != "" or (kind & NOUN and self._has_determiner(at)):
                return (), True
            word = self._hashes[at]
            for form, name in words.last.get(word, ()):
                first = at - len(form) + 1
                if first >= 0 and tuple(self._hashes[first : at + 1]) == form and self._is_run(first, at):
                    sides = self._look_for_sides(first)
                    return (Site(name, self._starts[first], self._ends[at], self._starts[sides]),), is_next
            if word in words.denials:
                is_next = False
            elif word not in words.between and word not in words.sides:
                return (), True
            at -= 1
        return (), True

    def _has_determiner(self, at: int) -> bool:
        """Check if a word is one with which a phrase begins, or an article is behind it."""
        behind = self._text.text[self._ends[at] : self._starts[at + 1]].strip()
        return behind.isalpha() or self._hashes[at] in self._words.determiners

    def is_bare(self, placed: Placed) -> bool:
        """Check if nothing beside a finding says where, or of which kind, it is."""
        k = placed.number
        if self._is_topic(k + 1) or self._is_elsewhere(k):
            return False
        return True

    def _is_elsewhere(self, k: int) -> bool:
        """Check if the words behind a finding say where or when it is."""
        if k + 1 >= len(self._hashes) or self._segment[k] != self._segment[k + 1]:
            return False
        between = _PIECE.findall(self._text.text[self._ends[k] : self._starts[k + 1]].lower())
        word, words = self._hashes[k + 1], self._words
        return word in words.elsewhere | words.prepositions or any(piece in words.small_elsewhere for piece in between)

    def _look_for_sides(self, first: int) -> int:
        at = first
        while at and self._gap(at) == "" and self._hashes[at - 1] in self._words.sides:
            at -= 1
        return at

    def _find_site(self, at: int, sites: Mapping[int, list], side: int) -> tuple[str, int] | None:
        # "The back of her neck"
        if self._hashes[at] in self._words.sides and at + 1 < len(self._hashes) and self._gap(at + 1) == "p":
            return None
        for form, name in sites.get(self._hashes[at], ()):
            last = at + len(form) - 1
            if tuple(self._hashes[at : last + 1]) == form and self._is_run(at, last):
                return name, last
        return None

    def _is_run(self, first: int, last: int) -> bool:
        return all(self._gap(at) == "" for at in range(first + 1, last + 1))

    def _is_topic(self, at: int) -> bool:
        """Check if a site is of something else: "knee replacement"."""
        return at < len(self._hashes) and self._gap(at) == "" and self._hashes[at] in self._words.topics

    def _goes_on(self, last: int) -> bool:
        at = last + 1
        if at >= len(self._hashes) or self._gap(at) != "":
            return False
        return self._hashes[at] not in self._text.opening | self._text.idle

    def find_regions(self, headings: Iterable[Heading]) -> list[tuple[int, int, Site]]:
        """Find parts of a note that are about a site: behind the heading "Abdomen", and behind "Left knee:"."""
        text = self._text.text
        regions = []
        for heading in headings:
            if name := self._words.whole_sites.get(heading.text.lower()):
                site = Site(name, heading.start, heading.end, heading.start)
                regions.append((heading.end, heading.section_end, site))
        for k in np.flatnonzero(find_places(self._words.site_hashes, self._text.reading.hashes) >= 0).tolist():
            if found := self._find_site(k, self._words.sites, -1):
                sides = self._look_for_sides(k)
                before = self._starts[sides]
                is_study = sides and self._hashes[sides - 1] in self._words.studies and self._gap(sides) == "p"
                is_item = text.startswith(":", self._ends[found[1]]) and _LINE_START.search(text, max(before - NEAR, 0), before)
                if is_study or is_item:
                    site = Site(found[0], self._starts[k], self._ends[found[1]], before)
                    regions.append((site.end, self._find_line_end(site.end), site))
        return sorted(regions)

    def list_allergens(self, headings: Iterable[Heading]) -> Iterator[Allergen]:
        """List what may be the items behind "allergic to", and below the heading "Allergies"; of each the longest words
        first."""
        words, n = self._words, len(self._hashes)
        for k in np.flatnonzero(find_places(words.allergy_hashes, self._text.reading.hashes) >= 0).tolist():
            head, at = (self._starts[k], self._ends[k]), k + 1
            while at < n and (gap := self._gap(at)) is not None and (head is None or gap == "p"):
                if gap == "" and head is None:
                    at += 1
                    continue
                yield from self._list_lengths(at, head)
                head, at = None, at + 1
        for heading in headings:
            if heading.label == ALLERGIES:
                first, last = (bisect_left(self._starts, place) for place in heading[1:3])
                for at in range(first, last):
                    if at == first or self._gap(at) != "":
                        yield from self._list_lengths(at, None)

    def _list_lengths(self, at: int, head: Place | None) -> Iterator[Allergen]:
        for last in range(min(at + MOST_ALLERGEN, len(self._hashes)) - 1, at - 1, -1):
            if self._is_run(at, last):
                yield Allergen(tuple(self._hashes[at : last + 1]), self._starts[at], self._ends[last], head)

    def _find_line_end(self, place: int) -> int:
        found = _NEW_LINE.search(self._text.text, place)
        return found.start() if found else len(self._text.text)


@lru_cache(1 << 12)
def _read_gap(gap: str, small: frozenset[str]) -> str | None:
    kinds = set()
    for piece in _PIECE.findall(gap):
        if piece in small:
            kinds.add("p")
        elif piece in ("and", "or", "/", "&"):
            kinds.add("&")
        elif piece == ",":
            kinds.add(",")
        elif piece not in ("a", "an", "the", "-", "'", "’", "s"):
            return None
    return "".join(sorted(kinds, key=",&p".index))
