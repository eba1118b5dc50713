"""Where texts say that findings are: "pain in the left knee", "the knee is swollen". places.json has the words of each
language: findings, sites, and what may stand between them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import srsly

from ..ragged import as_hashes
from .bags import Bag, KeyFilter, make_key_filter
from .languages import Language, get_reader
from .scan import Place

if TYPE_CHECKING:
    from .mentions import ReadText
    from .sections import Section

# How a finding says where it is: "pain in the knee", "the knee is swollen", "the knee hurts", "broke her wrist".
KINDS = {"nouns": 1, "adjectives": 2, "verbs": 4, "acts": 8}
NOUN, ADJECTIVE, VERB, ACT = KINDS.values()
# The most words from a finding to its site behind it and before it, and the most characters between two words.
MOST_BETWEEN, MOST_BEFORE, LONGEST_GAP = 7, 5, 24
# The label of sections with allergies, and the most words of an item there.
ALLERGIES, MOST_ALLERGEN = "allergies", 3
# What stands before "Left knee:", how many characters of it are looked at, and where a line ends that is not wrapped.
_LINE_START = re.compile(r"(?:\A|[\n.;])[\s\-*•]*\Z")
NEAR = 40
_LINE_END = re.compile(r"\n(?![ \t]*[a-z])")
_PIECE, _SPACE = re.compile(r"\w+|[^\w\s]"), re.compile(r"[\s-]+")
# What stands between two words, and its sign in what `_gap` says.
_SIGNS = {**dict.fromkeys(("and", "or", "/", "&"), "&"), ",": ","}
# What says nothing between two words.
_WEAK = frozenset(("a", "an", "the", "-", "'", "’", "s"))

Words = frozenset[int]  # by their hashes
Phrase = tuple[Bag, str]  # its words, and what they stand for
Phrases = Mapping[int, list[Phrase]]  # by one of their words
Pair = tuple[str, str]  # a finding and a site


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


class Site(NamedTuple):
    """A site in a text."""

    name: str
    start: int
    end: int
    first: int  # where the words for its side start
    is_whole: bool = False  # whether its word says the finding as well: "headache"

    @property
    def place(self) -> Place:
        """Return where it is, with its side."""
        return self.first, self.end


class Region(NamedTuple):
    """A part of a note that is about a site."""

    start: int
    end: int
    site: Site


class Placed(NamedTuple):
    """A finding in a text and its sites."""

    number: int  # of its word
    start: int
    end: int
    heads: tuple[str, ...]  # what it may be called
    kind: int
    sites: tuple[Site, ...] = ()
    is_next: bool = True  # whether no other finding, and no "not", stands between it and its first site
    is_shared: bool = False  # whether its sites are those of another finding, which it is joined to

    @property
    def is_ahead(self) -> bool:
        """Return whether its sites stand behind it."""
        return bool(self.sites) and self.sites[0].start > self.start


class Allergen(NamedTuple):
    """What somebody may be allergic to."""

    words: Bag
    start: int  # with "allergic" before it
    end: int


class PlaceWords(NamedTuple):
    """The words of a language."""

    heads: dict[int, list[tuple[str, int]]]  # by their words: findings, and of which kind the word is
    sites: Phrases  # by their first words, the longest first
    sites_by_last: Phrases
    headings: dict[str, str]  # sites by how they are written in headings
    wholes: dict[int, Pair]  # words that say both
    head_forms: dict[str, Bag]  # of findings, usual ones first
    site_forms: dict[str, list[Bag]]
    broader: dict[str, str]  # of sites
    lists: dict[str, Words]
    small: frozenset[str]  # prepositions as they are written
    allergies: tuple[int, ...]
    recalled: frozenset[str]  # findings that are mentioned again without their sites
    vague: frozenset[str]  # sites that are everywhere
    may_be: KeyFilter  # whether words are any of these

    @classmethod
    def read(cls, listed: Mapping[str, Any], language: Language) -> PlaceWords:
        """Read the lists of a language."""
        read = get_reader(language)

        def read_words(text: str) -> Bag:
            return tuple(hash_ for word in _SPACE.split(text) if word for hash_ in read(word).hashes)

        forms_of = {name: _list_forms(of_head, read_words) for name, of_head in listed["heads"].items()}
        heads: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for name, forms in forms_of.items():
            for form, kind in forms.items():
                heads[form].append((name, kind))
        site_forms: dict[str, list[Bag]] = {}
        headings: dict[str, str] = {}
        for name, texts in listed["sites"].items():
            site_forms[name] = []
            for text in texts.split(", "):
                site_forms[name].append(read_words(text))
                plural = listed["plurals"].get(text, f"{text}s")
                headings |= {text.lower(): name, plural.lower(): name}
        phrases = [(form, name) for name, forms in site_forms.items() for form in forms]
        phrases.sort(key=lambda phrase: -len(phrase[0]))
        by_first = _group(phrases, 0)
        wholes = {read_words(whole)[0]: _split_pair(pair) for whole, pair in listed["wholes"].items()}
        lists = {key: frozenset(read_words(listed[key])) for key in LISTS}
        lists["between"] |= lists["determiners"].union(language.idle_hashes.tolist())
        lists["before"] = lists["between"] | lists["sides"] | lists["prepositions"]
        allergies = read_words(listed["allergies"])
        words = as_hashes([*heads, *wholes, *by_first, *allergies])
        return cls(
            heads=dict(heads),
            sites=by_first,
            sites_by_last=_group(phrases, -1),
            headings=headings,
            wholes=wholes,
            head_forms={name: tuple(forms) for name, forms in forms_of.items()},
            site_forms=site_forms,
            broader=listed["broader"],
            lists=lists,
            small=frozenset(listed["prepositions"].split()),
            allergies=allergies,
            recalled=frozenset(listed["recalled"].split(", ")),
            vague=frozenset(listed["vague"].split(", ")),
            may_be=make_key_filter(np.unique(words)),
        )

    def list_names(self, pair: Pair) -> Iterator[Bag]:
        """List how a finding at a site may be called, usual names first."""
        head, site = pair
        for form, of_site in product(self.head_forms[head], self.site_forms[site]):
            yield *of_site, form
        for form, whole in self.wholes.items():
            if whole == pair:
                yield (form,)


# The lists of words without more structure.
LISTS = "prepositions", "sides", "determiners", "between", "elsewhere", "studies", "denials", "topics"


def _list_forms(of_head: Mapping[str, str], read_words: Callable[[str], Bag]) -> dict[int, int]:
    """List the forms of a finding, and of which kinds each may be."""
    kinds: dict[int, int] = {}
    for kind, text in of_head.items():
        for form in read_words(text):
            kinds[form] = kinds.get(form, 0) | KINDS[kind]
    return kinds


def _split_pair(text: str) -> Pair:
    head, _, site = text.partition(" ")
    return head, site


def _group(phrases: Iterable[Phrase], place: int) -> Phrases:
    """Group phrases by the word at a place."""
    groups: dict[int, list[Phrase]] = defaultdict(list)
    for phrase in phrases:
        groups[phrase[0][place]].append(phrase)
    return dict(groups)


@cache
def read_place_lists() -> dict[str, dict[str, Any]]:
    """Read the lists of all languages, by their codes."""
    lists: dict[str, dict[str, Any]] = srsly.read_json(Path(__file__).with_name("places.json"))
    return lists


@cache
def get_place_words(language: Language) -> PlaceWords | None:
    """Get the words of a language; None if there are none."""
    listed = read_place_lists().get(language.code)
    return PlaceWords.read(listed, language) if listed else None


class PlaceReader:
    """Read findings and sites of a text."""

    def __init__(self, words: PlaceWords, text: ReadText) -> None:
        self._words = words
        self._text = text.text
        self._lists = words.lists
        self._hashes = text.hashes
        self._starts = text.starts
        self._ends = text.ends
        self._segment = text.segment
        self._opening = text.opening | text.idle
        # Words that may be a finding, a site or "allergic".
        self._places = np.flatnonzero(words.may_be(text.reading.hashes)).tolist()
        self._cuts = text.cuts
        self._is_of = text.is_of

    def find(self) -> list[Placed]:
        """Find all findings, with their sites if their sentences say these."""
        findings: dict[int, Placed] = {}
        for k in self._places:
            if self._cuts(k, k):
                continue
            if whole := self._words.wholes.get(self._hashes[k]):
                head, name = whole
                start, end = self._starts[k], self._ends[k]
                site = Site(name, start, end, start, is_whole=True)
                findings[k] = Placed(k, start, end, (head,), NOUN, (site,))
            elif self._hashes[k] in self._words.heads:
                findings[k] = self._read(k, findings)
        # "Pain and swelling in the knee"
        for k in reversed([*findings]):
            placed = findings[k]
            if not placed.is_ahead:
                continue
            number, joint = self._find_joint(k)
            before = findings.get(number)
            if before and joint and not before.sites and before.kind & placed.kind & NOUN:
                findings[number] = before._replace(sites=placed.sites, is_next=False)
        return [*findings.values()]

    def _read(self, k: int, findings: Mapping[int, Placed]) -> Placed:
        heads = self._words.heads[self._hashes[k]]
        kind = heads[0][1]
        placed = Placed(k, self._starts[k], self._ends[k], tuple(name for name, _ in heads), kind)
        before, is_next = self._look_back(k, kind)
        # What follows "knee pain in" is not where it is.
        ahead = () if before and kind & NOUN else self._look_ahead(k, kind)
        if ahead or before:
            return placed._replace(sites=ahead or before, is_next=bool(ahead) or is_next)
        # "Knee pain and swelling", "the knee is swollen, painful"
        number, joint = self._find_joint(k)
        other = findings.get(number)
        is_joined = "&" in joint or (joint and not kind & NOUN)
        if is_joined and other and other.sites and not other.is_ahead:
            return placed._replace(sites=other.sites, is_next=False, is_shared=True)
        return placed

    def _find_joint(self, k: int) -> tuple[int, str]:
        """Find the word that another one, with words before it such as "mild", is joined to; and how it is."""
        at = k
        while at and self._gap(at) == "" and self._hashes[at - 1] in self._lists["between"]:
            at -= 1
        gap = self._gap(at)
        return at - 1, gap if gap in ("&", ",", ",&") else ""

    def _gap(self, k: int) -> str | None:
        """Say what stands before a word: a comma, "and" (&), a preposition (p); None if no phrase goes on there."""
        if not 0 < k < len(self._hashes) or self._segment[k] != self._segment[k - 1]:
            return None
        start, end = self._ends[k - 1], self._starts[k]
        return _read_gap(self._text[start:end], self._words.small) if end - start <= LONGEST_GAP else None

    def _look_ahead(self, k: int, kind: int) -> tuple[Site, ...]:
        """Look behind a finding, for "in the left knee and foot", or just "knees" behind "swollen"."""
        is_open = bool(kind & (ADJECTIVE | ACT)) and not kind & NOUN
        side = -1
        for at in range(k + 1, k + 1 + MOST_BETWEEN):
            gap = self._gap(at)
            # "Left and right knee", but not "stiff and the knee"
            if gap is None or "," in gap or (gap == "&" and self._hashes[at - 1] not in self._lists["sides"]):
                break
            word = self._hashes[at]
            is_preposition = word in self._lists["prepositions"]
            is_open |= "p" in gap or is_preposition
            if hit := self._find_site(at, side):
                site, last = hit
                is_site = is_open and not self.is_topic(last + 1) and not self._begins_name(last + 1)
                return (site, *self._list_more(last + 1)) if is_site else ()
            if word in self._lists["sides"]:
                side = at if side < 0 else side
            elif not (is_preposition or word in self._lists["between"]):
                break
        return ()

    def _list_more(self, at: int) -> Iterator[Site]:
        """List the other sites of "hips, her knees and elbows"."""
        waiting: list[Site] = []
        while (gap := self._gap(at)) and ("," in gap or "&" in gap):
            side = -1
            while self._hashes[at] in self._lists["before"] and not self._find_site(at, -1):
                side = at if side < 0 and self._hashes[at] in self._lists["sides"] else side
                at += 1
                if self._gap(at) not in ("", "p"):
                    return
            hit = self._find_site(at, side)
            # "Pain in the knee and ankle swelling"
            if hit is None or self._goes_on(hit[1] + 1):
                return
            site, last = hit
            waiting.append(site)
            at = last + 1
            if "&" in gap:
                yield from waiting
                waiting = []

    def _look_back(self, k: int, kind: int) -> tuple[tuple[Site, ...], bool]:
        """Look before a finding, for "her left knee really" before "hurts"; and whether nothing denies it there."""
        # "The liver is enlarged organ tissue"
        if kind == ADJECTIVE and self._goes_on(k + 1) and self._hashes[k + 1] not in self._lists["before"]:
            return (), True
        is_next = True
        for at in range(k - 1, max(k - 1 - MOST_BEFORE, -1), -1):
            if kind == ACT or self._gap(at + 1) != "" or (kind & NOUN and self._begins_phrase(at)):
                break
            word = self._hashes[at]
            for form, name in self._words.sites_by_last.get(word, ()):
                first = at - len(form) + 1
                if self._is_form(first, form):
                    start = self._starts[self._find_side(first)]
                    return (Site(name, self._starts[first], self._ends[at], start),), is_next
            is_next &= word not in self._lists["denials"]
            if not any(word in self._lists[key] for key in ("between", "sides", "denials")):
                break
        return (), True

    def _begins_phrase(self, at: int) -> bool:
        """Check if a word is like "her", or an article stands behind it."""
        behind = self._text[self._ends[at] : self._starts[at + 1]].strip()
        return behind.isalpha() or self._hashes[at] in self._lists["determiners"]

    def _find_side(self, first: int) -> int:
        least = first - MOST_BEFORE
        while first > least and self._gap(first) == "" and self._hashes[first - 1] in self._lists["sides"]:
            first -= 1
        return first

    def _find_site(self, at: int, side: int) -> tuple[Site, int] | None:
        """Find the site that begins with a word, and its last word."""
        is_side = self._hashes[at] in self._lists["sides"]
        first = at if side < 0 else side
        for form, name in self._words.sites.get(self._hashes[at], ()):
            last = at + len(form) - 1
            # "The back of her neck"
            if self._is_form(at, form) and not (is_side and self._is_of(last)):
                return Site(name, self._starts[at], self._ends[last], self._starts[first]), last
        return None

    def _is_form(self, first: int, form: Bag) -> bool:
        last = first + len(form) - 1
        is_there = first >= 0 and tuple(self._hashes[first : last + 1]) == form
        return is_there and self._is_run(first, last) and not self._cuts(first, last)

    def _is_run(self, first: int, last: int) -> bool:
        return all(self._gap(at) == "" for at in range(first + 1, last + 1))

    def is_topic(self, at: int) -> bool:
        """Check if a word says what the one before it is about: "knee replacement"."""
        return self._gap(at) == "" and self._hashes[at] in self._lists["topics"]

    def _begins_name(self, last: int) -> bool:
        """Check if a site belongs to a finding behind it: "deformity of foot pain"."""
        if self._gap(last) != "":
            return False
        return any(kind & NOUN for _, kind in self._words.heads.get(self._hashes[last], ()))

    def _goes_on(self, at: int) -> bool:
        return self._gap(at) == "" and self._hashes[at] not in self._opening

    def is_bare(self, placed: Placed) -> bool:
        """Check if no words behind a finding say where or when it is."""
        behind = placed.number + 1
        if behind >= len(self._hashes) or self._segment[behind] != self._segment[behind - 1]:
            return True
        if any(self._hashes[behind] in self._lists[key] for key in ("elsewhere", "prepositions", "topics")):
            return False
        between = self._text[placed.end : self._starts[behind]].lower()
        return self._words.small.isdisjoint(between.split()) and "with" not in between

    def find_regions(self, headings: Iterable[Heading]) -> list[Region]:
        """Find what is about a site: the section below "Abdomen", and the line behind "Left knee:" and "x-ray of the
        knee"."""
        regions = []
        for heading in headings:
            if name := self._read_heading(heading.text):
                site = Site(name, heading.start, heading.end, heading.start)
                regions.append(Region(heading.end, heading.section_end, site))
        for k in self._places:
            hit = self._find_site(k, -1)
            if hit is None:
                continue
            site, _ = hit
            first = self._find_side(k)
            start = self._starts[first]
            if self._is_study(first) or self._is_item(start, site.end):
                line_end = _LINE_END.search(self._text, site.end)
                until = line_end.start() if line_end else len(self._text)
                regions.append(Region(site.end, until, site._replace(first=start)))
        return sorted(regions)

    def _read_heading(self, text: str) -> str | None:
        """Read the site in a heading: "Abdomen", "Examination of the abdomen"."""
        words = text.lower().split()
        skipped = self._words.small | _WEAK
        for start in range(len(words)):
            name = self._words.headings.get(" ".join(words[start:]))
            if name and (start == 0 or words[start - 1] in skipped):
                return name
        return None

    def _is_study(self, first: int) -> bool:
        return self._gap(first) == "p" and self._hashes[first - 1] in self._lists["studies"]

    def _is_item(self, start: int, end: int) -> bool:
        is_before_colon = self._text.startswith(":", end)
        return is_before_colon and _LINE_START.search(self._text, max(start - NEAR, 0), start) is not None

    def list_allergens(self, headings: Iterable[Heading]) -> Iterator[Allergen]:
        """List what may be an item behind "allergic to" or below "Allergies"; of each the longest words first."""
        for k in self._places:
            if not self._begins_allergens(k):
                continue
            yield from self._list_lengths(at := k + 1, self._starts[k])
            # Another "allergic to" has its own items.
            while (gap := self._gap(at := at + 1)) is not None and not self._begins_allergens(at):
                if gap:
                    yield from self._list_lengths(at, self._starts[at])
        for heading in headings:
            if heading.label == ALLERGIES:
                first, last = (bisect_left(self._starts, place) for place in (heading.end, heading.section_end))
                for at in range(first, last):
                    if at == first or self._gap(at) != "":
                        yield from self._list_lengths(at, self._starts[at])

    def _begins_allergens(self, k: int) -> bool:
        return self._hashes[k] in self._words.allergies and self._gap(k + 1) == "p"

    def _list_lengths(self, at: int, start: int) -> Iterator[Allergen]:
        for last in range(min(at + MOST_ALLERGEN, len(self._hashes)) - 1, at - 1, -1):
            if self._is_run(at, last):
                yield Allergen(tuple(self._hashes[at : last + 1]), start, self._ends[last])


@lru_cache(1 << 12)
def _read_gap(gap: str, small: frozenset[str]) -> str | None:
    kinds: dict[str, None] = {}
    for piece in _PIECE.findall(gap.lower()):
        if piece in small:
            kinds["p"] = None
        elif piece in _SIGNS:
            kinds[_SIGNS[piece]] = None
        elif piece not in _WEAK:
            return None
    return "".join(kinds)
