"""Find the names of a terminology in texts: propose the words that are the bag of a name, check what the words around
them say, and choose the name that fits best."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..columns import ColumnReader
from ..ragged import find_places, make_offsets, sum_lists, take_lists
from ..terminology.codes import SOURCE_SEPARATOR, rank_name
from ..text import write_plainly
from .bags import SAID, BagTable, make_key_filter
from .initialisms import own_case_forms
from .languages import get_reader
from .mentions import JOINED, LOOSER, PLAIN, Hit, Proposal, ReadText, find_shared
from .place_reader import Heading, get_place_words
from .places import Name, PlaceFinder
from .scan import scan
from .spelling import Speller

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# Names that are remembered.
KEPT = 1 << 16
# Characters on both sides that say whether a text is in capitals. Texts that are read as one stand as far apart.
NEAR = 20
BETWEEN = "\n" * NEAR
# The score of a name none of whose words is in the text as it is. One with all words there has the score 1.
LEAST_SCORE = 0.9
_HYPHEN = re.compile("[-‐‑]")
# What stands before and behind a cell of a table or form.
_CELL_START, _CELL_END = re.compile(r"(?:\A|[|:;\t\n]) *\Z"), re.compile(r" *(?:\Z|[|:;\t\n])")


class Demands(NamedTuple):
    """What words of a text demand of a name that they may stand for."""

    words: tuple[int, ...]
    # A word that doesn't stand for another one: the first one if it is like "disease", but not the disease "of"
    # something.
    fixed: int | None
    # The links and joins between the words.
    crossed: tuple[int, int]
    # The word that says what a coordinated mention is. The name has to say the same.
    head: int | None
    # The text, if it is so short that its case counts, and whether it is a cell in capitals, which may be any word.
    short: str
    is_cell: bool

    @classmethod
    def of(cls, words: tuple[int, ...]) -> Demands:
        """Demand nothing but words."""
        return cls(words, None, (0, 0), None, "", is_cell=False)


class Choice(NamedTuple):
    """The names that fit words of a text best: of each concept one, the best concept first."""

    rows: tuple[int, ...]
    n_same: int  # words that are in the text as they are
    in_order: bool
    how: str  # how other words of the text stand for them
    texts: frozenset[str]  # the names, in small letters


class NameFinder:
    """Find the names of a table that are allowed in texts."""

    def __init__(
        self,
        table: BagTable,
        terminology: Terminology,
        allowed: np.ndarray,  # for each name; bool
        source_order: Sequence[str],
        *,
        outside: np.ndarray | None = None,  # for each name whether it is of a concept of another kind; bool
        is_exact: bool,
        own_case_length: int,
        skip_names: Iterable[str],
    ) -> None:
        self._table, self._terminology, self._allowed = table, terminology, allowed
        self._is_read = allowed if outside is None else allowed | outside
        self._is_exact, self._own_case_length = is_exact, own_case_length
        self._may_be = make_key_filter(table.keys)
        self._head_first = table.language.head_first
        # Single columns, because getting one from its table takes longer than reading a value.
        self._name_column, self._canonical_names = terminology.names["name"], terminology.concepts["canonical_name"]
        self._list_texts = ColumnReader(self._name_column).list
        self._sizes = np.bincount(terminology.name_concept, minlength=len(terminology))
        preferred, kinds, sources = (terminology.names[key] for key in ("preferred", "term_type", "source"))
        self._rank = lru_cache(KEPT)(lambda row: rank_name(preferred[row], kinds[row], sources[row], source_order))
        self._sources = sources
        self._names: dict[int, list[_Name]] = {}
        # The words of each, in any order.
        self._skipped = {tuple(sorted(name.words)) for names in self._read_texts([*skip_names]) for name in names}
        self._is_wanted = sum_lists(allowed[table.rows], table.offsets) > 0
        self._is_known = sum_lists(self._is_read[table.rows], table.offsets) > 0
        self._generic = frozenset(table.generic.tolist())
        self._abnormalities = frozenset(table.language.abnormal.tolist())
        self._heads = (self._generic | self._abnormalities) - {hash_string("abnormal")}
        self._class_of = dict(zip(table.members.tolist(), table.classes.tolist(), strict=True))
        self._acronyms = frozenset(table.acronyms.tolist())
        language = table.language
        small = language.idle_hashes, language.opening_hashes, language.contracted_hashes
        self._ordering = frozenset(np.concatenate(small).tolist())
        self._denying = frozenset(hash_string(word) for word in language.denying)
        self._choose_names = lru_cache(KEPT)(self._choose_names_of)
        known = np.sort(np.concatenate([table.vocabulary, table.other_words, table.members]), kind="stable")
        words = None if is_exact else get_place_words(language)
        self._placer = PlaceFinder(words, self._find_entries, self._name_words) if words else None
        self._speller = Speller(known) if language.has_speller and not is_exact else None

    def find(self, texts: Sequence[str], headings: Sequence[Sequence[Heading]] = ()) -> list[list[Hit]]:
        """Find names in texts, given the headings of the first ones. All are read as one, which is faster, with blank
        lines that no name crosses."""
        joined = write_plainly(BETWEEN.join(texts))
        reading = self._table.read(joined)
        misspelt = self._speller.correct(joined, reading) if self._speller else frozenset()
        text = ReadText(joined, reading, self._table.language, misspelt)
        for part in self._propose(text):
            place = text.find_place(part)
            # Of two proposals for the same characters, the plainer one counts.
            if place in text.found and text.found[place][0] <= (part.way, part.is_loose):
                continue
            demands = self._check(text, part, place)
            hit = None if demands is None else self._choose(text, part, place, demands)
            if hit is not None:
                text.add(part, hit)
        text.drop_sized()
        of_texts: list[list[Hit]] = [[] for _ in texts]
        first = [0, *accumulate(len(one) + len(BETWEEN) for one in texts)]
        hits = self._drop_joined([hit for _, hit in text.found.values()])
        hits += self._find_shared(joined) if not self._is_exact else []
        for hit in self._place(self._placer, text, hits, first, headings) if self._placer else hits:
            n = bisect_right(first, hit.start) - 1
            of_texts[n].append(hit.moved(-first[n]))
        return of_texts

    @staticmethod
    def _place(
        placer: PlaceFinder,
        text: ReadText,
        hits: list[Hit],
        first: list[int],
        headings: Sequence[Sequence[Heading]],
    ) -> list[Hit]:
        """Add findings that are put together with their sites, and to others their sites."""
        moved = [one.moved(at) for at, of_text in zip(first, headings, strict=False) for one in of_text]
        names, sites = placer.find(text, first, moved)
        # What has its site in other words says more than its words alone. Others may be a name as they stand.
        joined = {(hit.start, hit.end) for hit in hits if len(hit.pieces) > 1}

        def is_new(name: Name) -> bool:
            if len(name.pieces) == 1:
                return text.find_way(name.start, name.end) in ("", SAID)
            return (name.pieces[0][0], name.pieces[1][1]) not in joined

        placed = {(name.start, name.end): name for name in filter(is_new, names)}
        hits = [hit for hit in hits if (hit.start, hit.end) not in placed]
        hits += [Hit(*at, "place", name.rows, 1.0, name.pieces, is_inside=False) for at, name in placed.items()]
        starts = sorted(sites)
        return [hit._replace(sites=_take_sites(hit, starts, sites)) for hit in hits] if starts else hits

    def _find_shared(self, text: str) -> Iterator[Hit]:
        """Find words that are a name with the part that they share with another one."""
        read = get_reader(self._table.language)
        for shared in find_shared(text, self._table.language):
            bags = [read(form).hashes for form in shared.forms]
            for words, entry, other in zip(bags, self._find_entries(bags).tolist(), shared.others, strict=True):
                rows = self._choose_rows(entry, words) if entry >= 0 else ()
                if rows:
                    pieces = tuple(sorted([(shared.start, shared.end), other]))
                    yield Hit(shared.start, shared.end, "coordination", rows, 1.0, pieces, is_inside=False)
                    break

    def _choose_rows(self, entry: int, words: tuple[int, ...]) -> tuple[int, ...]:
        """Choose the names that words stand for."""
        choice = None if self._skips(words) else self._choose_names(entry, Demands.of(words))
        return choice.rows if choice else ()

    def _find_entries(self, bags: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Find the entries of bags of words; -1 where there is none."""
        sizes = [len(bag) for bag in bags]
        classes = self._table.classify(np.array([*chain.from_iterable(bags)], dtype=np.uint64))
        keys = np.zeros(len(bags), dtype=np.uint64)
        np.add.at(keys, np.repeat(np.arange(len(bags)), sizes), classes)
        return find_places(self._table.keys, keys)

    def _name_words(self, entry: int, words: tuple[int, ...]) -> tuple[int, ...]:
        """Choose the names that have just these words."""
        choice = None if self._skips(words) else self._choose_names(entry, Demands.of(words))
        return choice.rows if choice and choice.n_same == len(words) else ()

    def is_skipped(self, text: str) -> bool:
        """Return whether a text has the words of a name in `skip_names`."""
        return self._skips(scan(text, self._table.language).read_content().hashes.tolist())

    def _skips(self, words: Sequence[int]) -> bool:
        return bool(self._skipped) and tuple(sorted(words)) in self._skipped

    def _propose(self, text: ReadText) -> Iterator[Proposal]:
        """Propose all words that are the bag of an allowed name, and those around such words that are another's, plain
        ones first."""
        found = self._table.find(text.reading, self._may_be)
        links, last = text.reading.links, found.until - 1
        way = np.where(found.has_gap | (links[found.start] != links[last]), LOOSER, PLAIN)
        way[found.until > found.then] = JOINED
        columns = *found, way, last
        is_wanted = self._is_wanted[found.entry]
        # The first end of wanted words that start at each word or behind it.
        first_end = np.full(len(text.hashes) + 1, len(text.hashes) + 1)
        np.minimum.at(first_end, found.start[is_wanted], found.until[is_wanted])
        first_end = np.minimum.accumulate(first_end[::-1])[::-1]
        is_wanted |= self._is_known[found.entry] & (way == PLAIN) & (first_end[found.start] <= found.until)
        order = np.argsort(way, kind="stable")
        order = order[is_wanted[order]]
        rows, _ = take_lists(self._table.offsets, np.unique(found.entry[order]))
        rows = np.unique(self._table.rows[rows])
        if new := [row for row in rows[self._is_read[rows]].tolist() if row not in self._names]:
            self._read_names(new)
        return map(Proposal._make, zip(*(column[order].tolist() for column in columns), strict=True))

    def _check(self, text: ReadText, part: Proposal, place: tuple[int, int]) -> Demands | None:
        """Say what the words at a place demand of a name; None if they can't be one."""
        words, (start, end), last = text.find_words(part), (part.start, part.end), part.last
        if self._skips(words) or text.cuts_compound(part) or not text.is_apart(part):
            return None
        if part.is_joined and not text.may_join(part):
            return None
        crossed, fixed, head = (0, 0), None, None
        if part.is_joined:
            if text.begins_with_shared(part):
                head = None if text.begins_with_attribute(part) else text.hashes[start if self._head_first else end - 1]
            elif not text.ends_with_predicate(part):
                head = words[0 if self._head_first else -1]
        elif part.has_gap:
            # "The disease is rare" says nothing.
            if text.goes_on_behind(part) or (words[0] in self._generic and text.hashes[start + 1] in text.idle):
                return None
        else:
            crossed = text.links[last] - text.links[start], text.joins[last] - text.joins[start]
            is_head = words[0] in self._heads and last > start and not self._head_first
            if is_head and text.skipped[start] == text.skipped[start + 1]:
                fixed = words[0]
        short = self._find_short(text.text, *place)
        return Demands(words, fixed, crossed, head, short, short.isupper() and self._is_cell(text.text, *place))

    @staticmethod
    def _is_cell(text: str, start: int, end: int) -> bool:
        return bool(_CELL_START.search(text, max(start - NEAR, 0), start) and _CELL_END.match(text, end))

    def _find_short(self, text: str, start: int, end: int) -> str:
        # Case says nothing in a text in capitals.
        is_short = end - start <= self._own_case_length
        return text[start:end] if is_short and not text[max(start - NEAR, 0) : end + NEAR].isupper() else ""

    def _choose(self, text: ReadText, part: Proposal, place: tuple[int, int], demands: Demands) -> Hit | None:
        """Choose the names that the words at a place stand for; None if there are none after all."""
        choice = self._choose_names(part.entry, demands)
        if choice is None:
            return None
        last, n_words = part.last, len(demands.words)
        if not choice.in_order and text.begins_with_attribute(part):
            return None
        # "Absence of kidney" in "absence of kidney disease": the last word belongs to what comes behind it.
        if not choice.in_order and not part.is_joined and text.goes_on_behind(part):
            if text.skipped[last] > text.skipped[part.start]:
                return None
        # "Decreased renal" in "decreased renal function": the last word belongs to what comes behind it.
        if choice.how == "classes" and choice.n_same < n_words and text.ends_with_adjective(part):
            return None
        # "No neck" in "no neck stiffness".
        if choice.how == SAID and demands.words[0] in self._denying and text.goes_on_behind(part):
            return None
        start, end = place
        n_misspelt = text.count_misspelt(part)
        is_spelling = n_misspelt > 0 and not part.is_joined
        written = text.text[start:end].lower()
        how = "spelling" if is_spelling else self._name_way(choice, n_words, part, written)
        pieces = text.list_pieces(part, start, end)
        how = "coordination" if len(pieces) > 1 and how == "form" else how
        # Of another kind are only words that are a name as they stand.
        if (self._is_exact or not choice.rows) and (how not in ("exact", "form") or not choice.in_order):
            return None
        score = LEAST_SCORE + (1 - LEAST_SCORE) * max(choice.n_same - n_misspelt, 0) / n_words
        rows = choice.rows
        if how == "exact":  # "Bar" is not "Bär", and "ALL" rather "ALL" than "all"
            is_cell, as_it_is = demands.is_cell, text.text[start:end]
            names = {row: self._name_column[row] for row in rows}
            rows = tuple(
                sorted(rows, key=lambda row: (names[row].lower() != written, is_cell and names[row] != as_it_is))
            )
        return Hit(start, end, how, rows, score, pieces, text.is_inside(part))

    @staticmethod
    def _name_way(choice: Choice, n_words: int, part: Proposal, text: str) -> str:
        if part.is_joined:
            return "coordination"
        if choice.how == SAID and choice.n_same < n_words:
            return SAID
        if part.has_gap:
            return "gap"
        if choice.n_same < n_words:
            return choice.how
        return "exact" if text in choice.texts else "form"

    def _drop_joined(self, hits: list[Hit]) -> list[Hit]:
        """Drop a mention in two pieces if a name of its concept stands inside it."""
        concepts = self._terminology.name_concept
        inside: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for hit in hits:
            if hit.how != "coordination" and hit.rows:
                inside[int(concepts[hit.rows[0]])].append((hit.start, hit.end))
        for places in inside.values():
            places.sort()

        def is_new(hit: Hit) -> bool:
            places = inside.get(int(concepts[hit.rows[0]]), [])
            at = bisect_left(places, (hit.start, 0))
            return at == len(places) or places[at][1] > hit.end

        return [hit for hit in hits if hit.how != "coordination" or is_new(hit)]

    def _choose_names_of(self, entry: int, demands: Demands) -> Choice | None:
        """Choose the names of an entry with the most words as they are written, and of these those in their order."""
        (words, fixed, crossed, head, short, is_cell), is_spaced = demands, self._table.language.is_spaced
        if len(words) == 1 and words[0] in self._generic:
            return None
        best, how = (0 if len(words) == 1 else -1, True, False, False), "classes"
        ordering = self._ordering.intersection(words)
        chosen: list[int] = []
        rows = self._table.rows_of(entry)
        for row in rows[self._is_read[rows]].tolist():
            for name in self._names.get(row) or self._read_names([row])[row]:
                n_same = sum(min(words.count(word), name.words.count(word)) for word in {*words})
                # A name is in several bags, other words for it are in one.
                if not name.is_own and not n_same == len(words) == len(name.words):
                    continue
                # "No neck" stands for "short neck", and not "neck, no".
                if not (ordering <= {*name.words} if name.is_own else not ordering or name.words == words):
                    continue
                fit = n_same, name.words == words, name.is_own, not name.is_apart
                # Over commas and "and", a name has to go on as the text does.
                if fit < best or ((crossed[0] or not is_spaced) and (name.words != words or name.crossed != crossed)):
                    continue
                if head is not None and not self._stand_for(head, name.head):
                    continue
                if fixed is not None and fixed not in name.words:
                    continue
                if name.is_own and not self._has_case(row, short, is_cell, is_same=n_same == len(words)):
                    continue
                how = how if fit == best and chosen else name.how
                chosen = [*chosen, row] if fit == best else [row]
                best = fit
        n_same, in_order, is_own, _ = best
        inside = [row for row in chosen if self._allowed[row]]
        outside = [row for row in chosen if not self._allowed[row]]
        if inside and outside and self._is_outside(inside, outside):
            inside = []
        if not chosen:
            return None
        ordered = self.order_rows(inside, rows.tolist())
        texts = frozenset(self._name_column[row].lower() for row in ordered)
        return Choice(ordered, n_same if is_own else 0, in_order, how, texts)

    def _has_case(self, row: int, short: str, is_cell: bool, *, is_same: bool) -> bool:
        """Check if a text is in the same case as a name. `short` is empty where the case does not count."""
        if row in self._acronyms:
            return short.removesuffix("s").isupper()
        of_name = own_case_forms(self._name_column[row])
        return not short or not is_same or not own_case_forms(short).isdisjoint(of_name) or (is_cell and "" in of_name)

    def _stand_for(self, word: int, other: int) -> bool:
        same_class = self._class_of.get(word, word) == self._class_of.get(other, other)
        return same_class or self._abnormalities.issuperset((word, other))

    def _read_names(self, rows: Sequence[int]) -> dict[int, list[_Name]]:
        """Read the names in rows, which are then remembered."""
        names = dict(zip(rows, self._read_texts(self._list_texts(np.array(rows, dtype=np.int64))), strict=True))
        for row, words, crossed, how in self._table.list_others(rows):
            if words:
                names[row].append(_Name(words, crossed, words[-1], is_own=False, how=how))
        # Threads may read the same ones, which are equal.
        known = self._names if len(self._names) < KEPT else {}
        known.update(names)
        self._names = known
        return names

    def _read_texts(self, texts: Sequence[str]) -> list[list[_Name]]:
        """Read names with their words as they are, with those joined that have hyphens between them, and with compounds
        as two words."""
        names = [[name] for name in self._read_joined(texts, None)]
        hyphened = [place for place, text in enumerate(texts) if _HYPHEN.search(text)]
        joined = self._read_joined([texts[place] for place in hyphened], self._table.vocabulary)
        for place, name in zip(hyphened, joined, strict=True):
            names[place] += [name] if name.words != names[place][0].words else []
        language = self._table.language
        closed = [place for place, text in enumerate(texts) if language.compound_starts.search(text)]
        apart = self._read_joined([language.write_apart(texts[place]) for place in closed], None)
        for place, name in zip(closed, apart, strict=True):
            names[place].append(name._replace(is_apart=True))
        return names

    def _read_joined(self, texts: Sequence[str], vocabulary: np.ndarray | None) -> list[_Name]:
        """Read names as one text, which takes a fraction of the time."""
        first = make_offsets([len(text) + 2 for text in texts])
        reading = scan("\n\n".join(texts), self._table.language).read_content(vocabulary)
        bounds = np.searchsorted(reading.starts, first).tolist()
        columns = [column.tolist() for column in (reading.hashes, reading.links, reading.joins, reading.skipped)]
        parts = ([column[start:end] for column in columns] for start, end in pairwise(bounds))
        return [_Name.make(part, self._head_first) for part in parts]

    def order_rows(self, rows: Sequence[int], others: Sequence[int] = ()) -> tuple[int, ...]:
        """Keep the best name of each concept. Concepts whose canonical name it is come first, then those whose
        canonical name is among the `others`, which say the same, then those whose names have a better rank, then those
        with more names."""
        if len(rows) == 1:
            return tuple(rows)
        best: dict[int, int] = {}
        for row in sorted(rows, key=self._rank):
            best.setdefault(int(self._terminology.name_concept[row]), row)

        same = {self._name_column[row] for row in others}

        def key(item: tuple[int, int]) -> tuple[bool, bool, tuple[int, int], int, int]:
            concept, row = item
            canonical = self._canonical_names[concept]
            is_other = self._name_column[row] != canonical
            return is_other, canonical not in same, self._rank(row), -int(self._sizes[concept]), concept

        return tuple(row for _, row in sorted(best.items(), key=key))

    def _is_outside(self, inside: Sequence[int], outside: Sequence[int]) -> bool:
        """Check if a text rather means names outside of the filters: those of twice as many sources, or else canonical
        ones."""
        n, n_outside = (
            len({source for row in rows for source in self._sources[row].split(SOURCE_SEPARATOR)})
            for rows in (inside, outside)
        )
        is_better = min(map(self._rate, outside)) < min(map(self._rate, inside))
        return n_outside >= 2 * n or (n < 2 * n_outside and is_better)

    def _rate(self, row: int) -> tuple[bool, int]:
        canonical = self._canonical_names[int(self._terminology.name_concept[row])]
        return self._name_column[row].lower() != canonical.lower(), self._rank(row)[0]


def _take_sites(
    hit: Hit, starts: list[int], sites: Mapping[int, tuple[tuple[int, int], ...]]
) -> tuple[tuple[int, int], ...]:
    """Take the sites of the finding in a mention: those that it names, or else all."""
    for first, last in hit.pieces:
        at = bisect_left(starts, first)
        if at < len(starts) and starts[at] < last:
            of_all = sites[starts[at]]
            named = (site for site in of_all if any(site[0] < end and start < site[1] for start, end in hit.pieces))
            return tuple(named) or of_all
    return ()


class _Name(NamedTuple):
    """The words of a name, how many commas and "and" are between them, and the word that says what it is."""

    words: tuple[int, ...]
    crossed: tuple[int, int] = (0, 0)
    head: int = 0
    is_own: bool = True
    how: str = "classes"  # how other words stand for it
    is_apart: bool = False  # whether compounds are read as two words

    @classmethod
    def make(cls, columns: Sequence[list[int]], head_first: bool) -> _Name:
        """Make a name of its columns in a reading: hashes, links, joins and skipped words."""
        hashes, links, joins, skipped = columns
        if not hashes:
            return cls(())
        breaks = (place for place, at in enumerate(zip(links, skipped, strict=True)) if at != (links[0], skipped[0]))
        n_head = 1 if head_first else next(breaks, 0)
        return cls(tuple(hashes), (links[-1] - links[0], joins[-1] - joins[0]), hashes[n_head - 1])
