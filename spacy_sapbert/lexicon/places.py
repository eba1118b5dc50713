"""Findings put together with their sites: "pain in the left knee" has the names that a terminology has of both and of
nothing else, such as "knee pain"."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from .bags import Bag
from .place_reader import Heading, Pair, Placed, PlaceReader, PlaceWords, Region, Site
from .scan import Place

if TYPE_CHECKING:
    import numpy as np

    from .mentions import ReadText

# How many characters behind the mention of a site a finding without one is still there.
FAR = 1000


class Name(NamedTuple):
    """A mention of a finding with its site, and the rows of the names of both."""

    start: int
    end: int
    rows: tuple[int, ...]
    pieces: tuple[Place, ...]


class PlaceFinder:
    """Find names of a terminology that say what a finding is and where. `find_entries` finds bags of words in it, and
    `choose` the names in an entry that have just these words."""

    def __init__(
        self,
        words: PlaceWords,
        find_entries: Callable[[Sequence[Bag]], np.ndarray],
        choose: Callable[[int, Bag], tuple[int, ...]],
    ) -> None:
        self._words, self._find_entries, self._choose = words, find_entries, choose
        self._rows: dict[Pair, tuple[int, ...]] = {}

    def find(
        self, text: ReadText, starts: Sequence[int], headings: Sequence[Heading]
    ) -> tuple[list[Name], dict[int, tuple[Place, ...]]]:
        """Find names in texts that are read as one and begin at `starts`; and the sites of findings, by where these
        start."""
        reader = PlaceReader(self._words, text)
        names = [*self._name_allergies(reader, headings)]
        sites: dict[int, tuple[Place, ...]] = {}
        regions = reader.find_regions(headings)
        inside = _list_inside(text)
        # What each text has said so far.
        memories: dict[int, _Memory] = defaultdict(lambda: _Memory(self._words))
        for placed in reader.find():
            memory = memories[bisect_right(starts, placed.start)]
            if placed.sites:
                memory.add(placed)
            elif placed.start not in inside and reader.is_bare(placed):
                site = _find_region_site(regions, placed.start) or memory.recall(placed)
                if site:
                    placed = placed._replace(sites=(site,), is_next=False)
            of_finding = [*self._name(placed)]
            names += of_finding
            if placed.sites and (of_finding or not placed.is_shared):
                sites[placed.start] = tuple(site.place for site in placed.sites)
        return names, sites

    def _name(self, placed: Placed) -> Iterator[Name]:
        """Name a finding at each of its sites. The mention at the first one has both, if they stand side by side; the
        others have their own words."""
        own = placed.start, placed.end
        for site in placed.sites:
            if site.is_whole and site.start == placed.start:
                continue
            rows = self._find_rows(placed, site)
            if not rows:
                continue
            of_site = site.start, site.end
            pieces = tuple(sorted((own, of_site)))
            whole = pieces[0][0], pieces[1][1]
            mention = of_site
            if site is placed.sites[0]:
                mention = whole if placed.is_next else own
            yield Name(*mention, rows, (whole,) if mention == whole else pieces)

    def _find_rows(self, placed: Placed, site: Site) -> tuple[int, ...]:
        """Find the names of a finding at a site, or at the one that this is a part of."""
        name: str | None = site.name
        while name:
            for head in placed.heads:
                if rows := self._choose_rows((head, name)):
                    return rows
            name = self._words.broader.get(name)
        return ()

    def _choose_rows(self, pair: Pair) -> tuple[int, ...]:
        if pair not in self._rows:
            bags = [*self._words.list_names(pair)]
            entries = self._find_entries(bags).tolist()
            chosen = (self._choose(entry, bag) for entry, bag in zip(entries, bags, strict=True) if entry >= 0)
            self._rows[pair] = next(filter(None, chosen), ())
        return self._rows[pair]

    def _name_allergies(self, reader: PlaceReader, headings: Iterable[Heading]) -> Iterator[Name]:
        items = [*reader.list_allergens(headings)]
        pairs = [(item, (*item.words, word)) for item in items for word in self._words.allergies]
        entries = self._find_entries([bag for _, bag in pairs]).tolist() if pairs else []
        end = 0
        for (item, bag), entry in zip(pairs, entries, strict=True):
            rows = self._choose(entry, bag) if entry >= 0 and item.start >= end else ()
            if rows:
                end = item.end
                yield Name(item.start, end, rows, ((item.start, end),))


class _Memory:
    """The sites that the findings of a text have had so far, the last ones last."""

    def __init__(self, words: PlaceWords) -> None:
        self._words = words
        self._sites: dict[str, dict[str, Site]] = defaultdict(dict)

    def add(self, placed: Placed) -> None:
        """Remember where a finding is."""
        for head in self._words.recalled.intersection(placed.heads):
            sites = self._sites[head]
            for site in placed.sites:
                if site.name not in self._words.vague:
                    sites.pop(site.name, None)
                    sites[site.name] = site

    def recall(self, placed: Placed) -> Site | None:
        """Find where a finding is that was somewhere before, and nowhere else. "The pain" is no headache."""
        sites = [*self._sites[placed.heads[0]].values()]
        if not sites:
            return None
        last = sites[-1]
        if last.is_whole or placed.start - last.end > FAR:
            return None
        return last if all(self._is_same(site.name, last.name) for site in sites) else None

    def _is_same(self, name: str, other: str) -> bool:
        broader = self._words.broader
        return name == other or broader.get(name) == other or broader.get(other) == name


def _find_region_site(regions: Sequence[Region], start: int) -> Site | None:
    """Find the site that a place of a text is about."""
    number = bisect_right(regions, start, key=attrgetter("start")) - 1
    is_there = number >= 0 and start < regions[number].end
    return regions[number].site if is_there else None


def _list_inside(text: ReadText) -> set[int]:
    """List where words start that are part of a mention of several words."""
    bounds = ((bisect_left(text.starts, start), bisect_left(text.starts, end)) for start, end in text.found)
    return {text.starts[k] for first, last in bounds if last - first > 1 for k in range(first, last)}
