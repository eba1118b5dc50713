"""The names of a linker, with the settings of a matcher applied to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Doc

from ..abbreviations.component import get_bounds
from ..candidates import ConceptFilter
from ..retrieval.filters import FilterTable
from ..retrieval.name_table import INVISIBLE, own_case_forms
from . import MatcherSettings
from .bags import BagTable, find
from .reading import Reading, read

if TYPE_CHECKING:
    from ..retrieval.retriever import Retriever

# Windows and names that are remembered.
KEPT = 1 << 16
ORDERED=False
CROSS=False;LOOSE=()
SAMEDROP=False
ORD=lambda *a:a
NO_FILTER = ConceptFilter()
# Before a name, these stand for something else: "non-Hodgkin lymphoma".
_OPPOSITE = re.compile(r"\b(?:non|anti)[\s\-‐‑–]*$", re.IGNORECASE)
# A short form behind a name, which the name may go on after: "breast (BRCA) cancer".
_BRACKET = re.compile(r"\s?\([A-Z][A-Za-z0-9\-]{1,9}\)(?=\s\w)")
# The share of a long form that a name has to cover, up to its end, for the short form to stand for it.
COVERED = 0.5


class Choice(NamedTuple):
    """The names that fit words of a text best, and how many words are written alike."""

    rows: tuple[int, ...]
    same: int
    in_order: bool


class Hit(NamedTuple):
    """Where names are in a text, in characters."""

    start: int
    end: int
    how: str
    rows: tuple[int, ...]
    score: float
    pieces: tuple[tuple[int, int], ...]


class CompiledMatcher:
    """Find the names of a table in documents, but for those that the linker may not link to."""

    def __init__(
        self,
        table: BagTable,
        retriever: Retriever,
        settings: MatcherSettings,
        linker_filter: ConceptFilter = NO_FILTER,
    ) -> None:
        self.settings, self._table, self._retriever = settings, table, retriever
        self._terminology = terminology = retriever.terminology
        self._known = table.make_filter()
        # Single columns, because getting one from its table takes longer than reading a value.
        self._name_column, self._types = terminology.names["name"], terminology.concepts["types"]
        filters = FilterTable(terminology)
        # All values, so that a misspelled type does not mean a label that no name gets.
        filters.check(ConceptFilter(types={type_ for types in settings.label_types.values() for type_ in types}))
        self._label_types = {label: filters.find_types(types) for label, types in settings.label_types.items()}
        fields = settings.types, settings.sources, settings.languages, settings.ids
        own = ConceptFilter(*fields, below=settings.below, not_below=settings.not_below)
        self._names = np.ones(terminology.n_names, dtype=bool)
        for allowed in (own, linker_filter):
            if not allowed.is_open:
                self._names &= filters.match(allowed)
        writing = retriever.table
        for entry in writing.find_whole(settings.skip_names).tolist():
            if entry >= 0:
                self._names[writing.rows_of(entry)] = False
        before = np.concatenate([[0], np.cumsum(self._names[table.rows])])
        self._is_wanted = before[table.offsets[1:]] > before[table.offsets[:-1]]
        self._sizes = np.bincount(terminology.name_concept)
        self._class_of = dict(zip(table.members.tolist(), table.classes.tolist()))
        from . import bags
        self._abn = set(bags.ABNORMALITIES.tolist())
        self._generic = frozenset(table.generic.tolist())
        self._choose = lru_cache(KEPT)(self._choose_rows)
        self._get_words = lru_cache(KEPT)(self._read_name)
        self._get_label = lru_cache(KEPT)(self._choose_label)

    def find(self, doc: Doc) -> list[tuple[int, int, str, Hit]]:
        """Find names, which may overlap, as first token, token behind the last one, label, and how they were found."""
        text = doc.text
        first, last = _read_bounds(doc)
        found: dict[tuple[int, int], Hit] = {}
        hits = {(hit.start, hit.end): hit for hit in self._find_hits(text)}
        defined = self._read_definitions(doc)
        for (start, end), hit in hits.items():
            is_whole = start in first and end in last and not _OPPOSITE.search(text, max(start - 6, 0), start)
            if is_whole and (start, end) not in defined and self._is_plausible(doc, text[start:end]):
                found[start, end] = hit
        for (start, end), long in defined.items():
            hit = self._find_long_form(text, long, hits) if start in first and end in last else None
            if hit is not None:
                found[start, end] = hit._replace(start=start, end=end, how="definition", pieces=((start, end),))
        return [(first[start], last[end] + 1, self._get_label(hit.rows), hit) for (start, end), hit in found.items()]

    def _read_definitions(self, doc: Doc) -> dict[tuple[int, int], tuple[int, int]]:
        if not (self.settings.abbreviations and Doc.has_extension("abbreviation_offsets")):
            return {}
        return {(start, end): (long, until) for start, end, long, until in doc._.abbreviation_offsets or ()}

    def _find_long_form(self, text: str, long: tuple[int, int], hits: dict[tuple[int, int], Hit]) -> Hit | None:
        """Find what a long form ends with, if that is most of it."""
        start, end = long
        inside = [hit for hit in hits.values() if start <= hit.start and hit.end == end]
        longest = max(inside, key=lambda hit: hit.end - hit.start, default=None)
        if longest is None or longest.end - longest.start < COVERED * (end - start):
            return None
        return longest

    def _find_hits(self, text: str) -> Iterator[Hit]:
        yield from self._find_in(text)
        for bracket in _BRACKET.finditer(text):
            start, end = bracket.span()
            # The text around it, which no name is longer than.
            begin = max(text.rfind("\n\n", 0, start), start - 200, 0)
            part = text[begin:start] + " " * (end - start) + text[end : end + 200]
            for hit in self._find_in(part):
                if hit.start < start - begin and hit.end > end - begin:
                    pieces = tuple((a + begin, b + begin) for a, b in hit.pieces)
                    yield hit._replace(start=hit.start + begin, end=hit.end + begin, pieces=pieces)

    def _find_in(self, text: str) -> list[Hit]:
        reading = self._table.read(text)
        if not len(reading.hashes):
            return []
        found = find(self._table, reading, *self._known)
        wanted = self._is_wanted[found.entries]
        best: dict[tuple[int, int], tuple[bool, bool, Hit]] = {}
        columns = [column[wanted].tolist() for column in found]
        hashes, starts, ends = (column.tolist() for column in reading[:3])
        goes_on = np.zeros(len(hashes), dtype=bool)
        goes_on[:-1] = np.all([np.diff(column) == 0 for column in reading[3:]], axis=0)
        links = reading.links.tolist()
        joins = reading.joins.tolist()
        skipped = reading.skipped.tolist()
        for start, end, then, until, entry, is_loose in zip(*columns, strict=True):
            joined = until > then
            stop = until if joined else end
            place = starts[start], ends[stop - 1]
            known = best.get(place)
            if known is not None and known[:2] <= (joined, is_loose):
                continue
            words = tuple(hashes[start:end] + hashes[then:until])
            crosses = (links[end - 1] - links[start], joins[end-1]-joins[start]) if not joined and links[end - 1] != links[start] else ()
            short = text[place[0] : place[1]] if place[1] - place[0] <= self.settings.own_case_length else ""
            choice = self._choose(words, entry, is_loose, bool(goes_on[stop - 1]), crosses, skipped[stop-1]!=skipped[start], short)
            if choice is None:
                continue
            pieces = ((starts[start], ends[end - 1]),) + (((starts[then], ends[until - 1]),) if joined else ())
            how = "coordination" if joined else self._name_way(choice, len(words), text[place[0] : place[1]])
            score = 1.0 if how in ("exact", "form") else 0.9 + 0.1 * choice.same / len(words)
            best[place] = joined, is_loose, Hit(*place, how, choice.rows, score, pieces)
        found = [hit for *_, hit in best.values()]
        if SAMEDROP:
            con = self._terminology.name_concept
            inner = [(h.start, h.end, con[h.rows[0]]) for h in found if h.how != "coordination"]
            found = [h for h in found if h.how != "coordination" or not any(c == con[h.rows[0]] and a >= h.start and b <= h.end for a, b, c in inner)]
        return found

    def _name_way(self, choice: Choice, n: int, text: str) -> str:
        if choice.same < n:
            return "classes"
        small = text.lower()
        return "exact" if any(self._name_column[row].lower() == small for row in choice.rows) else "form"

    def _choose_rows(
        self, words: tuple[int, ...], entry: int, is_loose: bool, goes_on: bool, crosses: bool, skips: bool, short: str
    ) -> Choice | None:
        """Choose the names of an entry that fit best: with the most words as written, and those in their order."""
        if len(words) == 1 and words[0] in self._generic:
            return None
        table = self._table
        rows = table.rows[table.offsets[entry] : table.offsets[entry + 1]]
        best: tuple[int, bool] | None = None
        chosen: list[int] = []
        counted = Counter(words)
        for row in rows[self._names[rows]].tolist():
            own = self._get_words(row)
            same = sum((counted & Counter(own)).values())
            if (len(words) == 1 and not same) or (crosses and (own != words or (CROSS and self._get_links(row) != crosses))):
                continue
            if goes_on and same < len(words) and words[-1] not in own:
                continue
            if short and same == len(words) and own_case_forms(short).isdisjoint(own_case_forms(self._name_column[row])):
                continue
            if ORDERED and own != words and not skips and self._classes(words, is_loose) not in self._get_orders(row, is_loose):
                continue
            fit = same, own == words
            if best is None or fit > best:
                best, chosen = fit, []
            if fit == best:
                chosen.append(row)
        return None if best is None else Choice(self._order(chosen), *best)

    def _order(self, rows: list[int]) -> tuple[int, ...]:
        """Keep the first name of each concept. Concepts come first whose canonical name it is, then those with more
        names."""
        concepts = self._terminology.name_concept[rows].tolist()
        first = dict(zip(reversed(concepts), reversed(rows), strict=True))
        if len(first) > 1:
            names, canonical = self._name_column, self._terminology.concepts["canonical_name"]
            size=self._sizes
            first = dict(sorted(first.items(), key=lambda item: ORD(names[item[1]] != canonical[item[0]], -size[item[0]], item[0])))
        return tuple(first.values())

    def _get_links(self, row):
        r = self._table.read(self._name_column[row])
        return (int(r.links[-1] - r.links[0]), int(r.joins[-1] - r.joins[0]))

    def _classes(self, words, loose):
        if loose:
            return tuple(1 if w in self._abn else self._class_of.get(w, w) for w in words)
        return tuple(self._class_of.get(w, w) for w in words)

    def _get_orders(self, row, loose):
        """List the orders in which a name's words may stand: as written, and around commas and words such as "of"."""
        r = self._table.read(self._name_column[row])
        words = self._classes(r.hashes.tolist(), loose)
        breaks = [0, *(1 + np.flatnonzero(np.diff(r.skipped) + np.diff(r.links) + np.diff(r.segment))).tolist(), len(words)]
        parts = [words[i:j] for i, j in zip(breaks, breaks[1:])]
        orders = [parts, parts[::-1], *(parts[i:] + parts[:i] for i in range(1, len(parts)))]
        return {sum(o, ()) for o in orders}

    def _read_name(self, row: int) -> tuple[int, ...]:
        return tuple(self._table.read(self._name_column[row]).hashes.tolist())

    def _is_plausible(self, doc: Doc, text: str) -> bool:
        """Leave out what is more probably an ordinary word, a number, or a short form of something else."""
        if len(text) < self.settings.min_length or self._is_short_form(text):
            return False
        if not any(map(str.isalpha, text)):
            return False
        return text.isupper() or not (self.settings.skip_stop_words and doc.vocab[text.lower()].is_stop)

    def _is_short_form(self, text: str) -> bool:
        form = text.removesuffix("s")
        n_telling = sum(letter.isupper() or letter.isdigit() for letter in form)
        return form.isalnum() and len(form) <= self.settings.define_length and n_telling > 1

    def _choose_label(self, rows: tuple[int, ...]) -> str:
        if not self.settings.label_types:
            return self.settings.label
        concepts = self._terminology.name_concept[list(rows)].tolist()
        found = {type_ for concept in concepts for type_ in self._types[concept].to_list()}
        fitting = (label for label, wanted in self._label_types.items() if not found.isdisjoint(wanted))
        return next(fitting, self.settings.label)


def _read_bounds(doc: Doc) -> tuple[dict[int, int], dict[int, int]]:
    """Get the token that starts, and the one that ends, at each place, with or without invisible characters."""
    starts, ends = get_bounds(doc) if len(doc) else ([], [])
    first, last = ({place: token for token, place in enumerate(places)} for places in (starts, ends))
    for found in INVISIBLE.finditer(doc.text):
        if found.start() in first:
            first.setdefault(found.end(), first[found.start()])
        if found.end() in last:
            last.setdefault(found.start(), last[found.end()])
    return first, last
