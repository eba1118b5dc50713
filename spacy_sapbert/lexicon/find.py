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
from ..ragged import as_hashes, find_places, list_owners, make_offsets, sum_lists, take_lists
from ..terminology.codes import SOURCE_SEPARATOR, rank_name
from ..text import write_plainly
from .bags import SAID, Bag, BagTable, make_key_filter
from .initialisms import own_case_forms
from .languages import get_reader
from .mentions import JOINED, LOOSER, PLAIN, Hit, Proposal, ReadText, find_shared
from .place_reader import Heading, get_place_words
from .places import Name, PlaceFinder
from .scan import Place, scan, sum_hashes
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

    words: Bag
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
    def of(cls, words: Bag) -> Demands:
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
        language = table.language
        self._table = table
        self._terminology = terminology
        self._allowed = allowed
        self._is_read = allowed if outside is None else allowed | outside
        self._is_exact = is_exact
        self._own_case_length = own_case_length
        self._may_be = make_key_filter(table.keys)
        self._head_first = language.head_first
        # Single columns, because getting one from its table takes longer than reading a value.
        self._name_column = terminology.names["name"]
        self._canonical_names = terminology.concepts["canonical_name"]
        self._list_texts = ColumnReader(self._name_column).list
        self._sizes = np.bincount(terminology.name_concept, minlength=len(terminology))
        preferred, kinds, sources = (terminology.names[key] for key in ("preferred", "term_type", "source"))
        self._rank = lru_cache(KEPT)(lambda row: rank_name(preferred[row], kinds[row], sources[row], source_order))
        self._sources = sources
        self._names: dict[int, list[_Name]] = {}
        # The words of each, in any order.
        self._skipped = {tuple(sorted(name.words)) for names in self._read_texts([*skip_names]) for name in names}
        # Entries with an allowed name, and those with any that is read.
        self._is_allowed = sum_lists(allowed[table.rows], table.offsets) > 0
        self._has_read = sum_lists(self._is_read[table.rows], table.offsets) > 0
        self._generic = frozenset(table.generic.tolist())
        self._abnormalities = frozenset(language.abnormal.tolist())
        self._heads = (self._generic | self._abnormalities) - {hash_string("abnormal")}
        self._class_of = dict(zip(table.members.tolist(), table.classes.tolist(), strict=True))
        self._acronyms = frozenset(table.acronyms.tolist())
        small = language.idle_hashes, language.opening_hashes, language.contracted_hashes
        self._ordering = frozenset(np.concatenate(small).tolist())
        self._denying = frozenset(map(hash_string, language.denying))
        self._choose_names = lru_cache(KEPT)(self._choose_names_of)
        self._placer: PlaceFinder | None = None
        self._speller: Speller | None = None
        if is_exact:
            return
        if words := get_place_words(language):
            self._placer = PlaceFinder(words, self._find_entries, self._name_words)
        if language.has_speller:
            vocabulary = np.concatenate([table.vocabulary, table.other_words, table.members])
            self._speller = Speller(np.sort(vocabulary, kind="stable"))

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
            hit = self._choose(text, part, place, demands) if demands else None
            if hit:
                text.add(part, hit)
        text.drop_sized()
        hits = self._drop_joined([hit for _, hit in text.found.values()])
        if not self._is_exact:
            hits += self._find_shared(joined)
        starts = [0, *accumulate(len(one) + len(BETWEEN) for one in texts)]
        if self._placer:
            hits = self._place(self._placer, text, hits, starts, headings)
        of_texts: list[list[Hit]] = [[] for _ in texts]
        for hit in hits:
            number = bisect_right(starts, hit.start) - 1
            of_texts[number].append(hit.moved(-starts[number]))
        return of_texts

    @staticmethod
    def _place(
        placer: PlaceFinder,
        text: ReadText,
        hits: list[Hit],
        starts: list[int],
        headings: Sequence[Sequence[Heading]],
    ) -> list[Hit]:
        """Add findings that are put together with their sites, and to others their sites."""
        moved = [one.moved(start) for start, of_text in zip(starts, headings, strict=False) for one in of_text]
        names, sites = placer.find(text, starts, moved)
        # What has its site in other words says more than its words alone. Others may be a name as they stand.
        joined = {(hit.start, hit.end) for hit in hits if len(hit.pieces) > 1}

        def is_new(name: Name) -> bool:
            if len(name.pieces) == 1:
                return text.find_way(name.start, name.end) in ("", SAID)
            return (name.pieces[0][0], name.pieces[1][1]) not in joined

        placed = {(name.start, name.end): name for name in filter(is_new, names)}
        hits = [hit for hit in hits if (hit.start, hit.end) not in placed]
        hits += [Hit(*place, "place", name.rows, 1.0, name.pieces, is_inside=False) for place, name in placed.items()]
        of_sites = sorted(sites)
        return [hit._replace(sites=_take_sites(hit, of_sites, sites)) for hit in hits] if sites else hits

    def _find_shared(self, text: str) -> Iterator[Hit]:
        """Find words that are a name with the part that they share with another one."""
        read = get_reader(self._table.language)
        for shared in find_shared(text, self._table.language):
            bags = [read(form).hashes for form in shared.forms]
            for words, entry, other in zip(bags, self._find_entries(bags).tolist(), shared.others, strict=True):
                choice = self._choose_plainly(entry, words) if entry >= 0 else None
                if choice and choice.rows:
                    pieces = tuple(sorted([(shared.start, shared.end), other]))
                    yield Hit(shared.start, shared.end, "coordination", choice.rows, 1.0, pieces, is_inside=False)
                    break

    def _choose_plainly(self, entry: int, words: Bag) -> Choice | None:
        """Choose the names that words mean, without looking at what is around them."""
        return None if self._skips(words) else self._choose_names(entry, Demands.of(words))

    def _find_entries(self, bags: Sequence[Bag]) -> np.ndarray:
        """Find the entries of bags of words; -1 where there is none."""
        owners = list_owners(make_offsets([*map(len, bags)]))
        classes = self._table.classify(as_hashes(chain.from_iterable(bags)))
        return find_places(self._table.keys, sum_hashes(classes, owners, len(bags)))

    def _name_words(self, entry: int, words: Bag) -> tuple[int, ...]:
        """Choose the names that have just these words."""
        choice = self._choose_plainly(entry, words)
        return choice.rows if choice and choice.n_same == len(words) else ()

    def is_skipped(self, text: str) -> bool:
        """Return whether a text has the words of a name in `skip_names`."""
        return self._skips(scan(text, self._table.language).read_content().hashes.tolist())

    def _skips(self, words: Sequence[int]) -> bool:
        return bool(self._skipped) and tuple(sorted(words)) in self._skipped

    def _propose(self, text: ReadText) -> Iterator[Proposal]:
        """Propose all words that are the bag of an allowed name, and those around such words that are another's, plain
        ones first."""
        bags = self._table.find(text.reading, self._may_be)
        links = text.reading.links
        last = bags.until - 1
        way = np.where(bags.has_gap | (links[bags.start] != links[last]), LOOSER, PLAIN)
        way[bags.until > bags.then] = JOINED
        is_proposed = self._is_allowed[bags.entry]
        # The first end of allowed words that start at each word or behind it.
        first_end = np.full(len(text.hashes) + 1, len(text.hashes) + 1)
        np.minimum.at(first_end, bags.start[is_proposed], bags.until[is_proposed])
        first_end = np.minimum.accumulate(first_end[::-1])[::-1]
        is_proposed |= self._has_read[bags.entry] & (way == PLAIN) & (first_end[bags.start] <= bags.until)
        order = np.argsort(way, kind="stable")
        order = order[is_proposed[order]]
        places, _ = take_lists(self._table.offsets, np.unique(bags.entry[order]))
        rows = np.unique(self._table.rows[places])
        new = [row for row in rows[self._is_read[rows]].tolist() if row not in self._names]
        if new:
            self._read_names(new)
        columns = [column[order].tolist() for column in (*bags, way, last)]
        return map(Proposal._make, zip(*columns, strict=True))

    def _check(self, text: ReadText, part: Proposal, place: Place) -> Demands | None:
        """Say what the words at a place demand of a name; None if they can't be one."""
        words = text.find_words(part)
        if self._skips(words) or text.cuts_compound(part) or not text.is_apart(part):
            return None
        short = self._find_short(text.text, *place)
        is_cell = short.isupper() and self._is_cell(text.text, *place)
        demands = Demands(words, None, (0, 0), None, short, is_cell)
        if part.is_joined:
            return demands._replace(head=self._find_head(text, part, words)) if text.may_join(part) else None
        start, last = part.start, part.last
        if part.has_gap:
            # "The disease is rare" says nothing.
            is_idle = words[0] in self._generic and text.hashes[start + 1] in text.idle
            return None if is_idle or text.goes_on_behind(part) else demands
        is_head = words[0] in self._heads and last > start and not self._head_first
        is_fixed = is_head and text.skipped[start] == text.skipped[start + 1]
        crossed = text.links[last] - text.links[start], text.joins[last] - text.joins[start]
        return demands._replace(fixed=words[0] if is_fixed else None, crossed=crossed)

    def _find_head(self, text: ReadText, part: Proposal, words: Bag) -> int | None:
        """Find the word that says what two pieces are, where the name has to say it too."""
        if text.begins_with_attribute(part):
            return None
        if text.begins_with_shared(part):
            words = tuple(text.hashes[part.start : part.end])
        elif text.ends_with_predicate(part):
            return None
        return words[0 if self._head_first else -1]

    @staticmethod
    def _is_cell(text: str, start: int, end: int) -> bool:
        return bool(_CELL_START.search(text, max(start - NEAR, 0), start) and _CELL_END.match(text, end))

    def _find_short(self, text: str, start: int, end: int) -> str:
        # Case says nothing in a text in capitals.
        is_short = end - start <= self._own_case_length
        return text[start:end] if is_short and not text[max(start - NEAR, 0) : end + NEAR].isupper() else ""

    def _choose(self, text: ReadText, part: Proposal, place: Place, demands: Demands) -> Hit | None:
        """Choose the names that the words at a place stand for; None if there are none after all."""
        choice = self._choose_names(part.entry, demands)
        if choice is None or self._belongs_behind(text, part, choice, demands.words):
            return None
        start, end = place
        written = text.text[start:end]
        n_words = len(demands.words)
        n_misspelt = text.count_misspelt(part)
        pieces = text.list_pieces(part, start, end)
        how = self._name_way(choice, n_words, part, written.lower())
        if n_misspelt and not part.is_joined:
            how = "spelling"
        elif len(pieces) > 1 and how == "form":
            how = "coordination"
        # Of another kind are only words that are a name as they stand.
        is_name = choice.in_order and how in ("exact", "form")
        if not is_name and (self._is_exact or not choice.rows):
            return None
        rows = choice.rows
        if how == "exact":
            rows = self._sort_as_written(rows, written, is_cell=demands.is_cell)
        score = LEAST_SCORE + (1 - LEAST_SCORE) * max(choice.n_same - n_misspelt, 0) / n_words
        return Hit(start, end, how, rows, score, pieces, text.is_inside(part))

    def _belongs_behind(self, text: ReadText, part: Proposal, choice: Choice, words: Bag) -> bool:
        """Check if the last word rather belongs to what comes behind it."""
        if not choice.in_order and text.begins_with_attribute(part):
            return True
        # "Decreased renal" in "decreased renal function".
        if choice.how == "classes" and choice.n_same < len(words) and text.ends_with_adjective(part):
            return True
        if not text.goes_on_behind(part):
            return False
        # "No neck" in "no neck stiffness".
        if choice.how == SAID and words[0] in self._denying:
            return True
        # "Absence of kidney" in "absence of kidney disease".
        has_skipped = text.skipped[part.last] > text.skipped[part.start]
        return has_skipped and not choice.in_order and not part.is_joined

    def _sort_as_written(self, rows: tuple[int, ...], written: str, *, is_cell: bool) -> tuple[int, ...]:
        """Sort names by how they are written: "Bar" is not "Bär", and "ALL" rather "ALL" than "all"."""

        def differs(row: int) -> tuple[bool, bool]:
            name = self._name_column[row]
            return name.lower() != written.lower(), is_cell and name != written

        return tuple(sorted(rows, key=differs))

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
        places_of: dict[int, list[Place]] = defaultdict(list)
        for hit in sorted(hits):
            if hit.how != "coordination" and hit.rows:
                places_of[int(concepts[hit.rows[0]])].append((hit.start, hit.end))

        def is_new(hit: Hit) -> bool:
            places = places_of[int(concepts[hit.rows[0]])]
            number = bisect_left(places, (hit.start, 0))
            return number == len(places) or places[number][1] > hit.end

        return [hit for hit in hits if hit.how != "coordination" or is_new(hit)]

    def _choose_names_of(self, entry: int, demands: Demands) -> Choice | None:
        """Choose the names of an entry with the most words as they are written, and of these those in their order."""
        words = demands.words
        if len(words) == 1 and words[0] in self._generic:
            return None
        best = (0 if len(words) == 1 else -1, True, False, False)
        how = "classes"
        chosen: list[int] = []
        rows = self._table.rows_of(entry)
        for row in rows[self._is_read[rows]].tolist():
            for name in self._names.get(row) or self._read_names([row])[row]:
                n_same = sum(min(words.count(word), name.words.count(word)) for word in {*words})
                fit = n_same, name.words == words, name.is_own, not name.is_apart
                if fit < best or not self._fits(name, demands, n_same):
                    continue
                if name.is_own and not self._has_case(row, demands, is_same=n_same == len(words)):
                    continue
                if fit > best or not chosen:
                    chosen = []
                    how = name.how
                chosen.append(row)
                best = fit
        if not chosen:
            return None
        inside = [row for row in chosen if self._allowed[row]]
        outside = [row for row in chosen if not self._allowed[row]]
        if inside and outside and self._is_outside(inside, outside):
            inside = []
        ordered = self.order_rows(inside, rows.tolist())
        texts = frozenset(self._name_column[row].lower() for row in ordered)
        n_same, in_order, is_own, _ = best
        return Choice(ordered, n_same if is_own else 0, in_order, how, texts)

    def _fits(self, name: _Name, demands: Demands, n_same: int) -> bool:
        """Check if a name has what the words of a text demand."""
        words = demands.words
        ordering = self._ordering.intersection(words)
        if name.is_own:
            # "No neck" stands for "short neck", and not "neck, no".
            fits = ordering <= {*name.words}
        else:
            # A name is in several bags, other words for it are in one.
            fits = n_same == len(words) == len(name.words) and (not ordering or name.words == words)
        if not fits:
            return False
        # Over commas and "and", a name has to go on as the text does.
        goes_over = demands.crossed[0] or not self._table.language.is_spaced
        if goes_over and (name.words, name.crossed) != (words, demands.crossed):
            return False
        if demands.head is not None and not self._stand_for(demands.head, name.head):
            return False
        return demands.fixed is None or demands.fixed in name.words

    def _has_case(self, row: int, demands: Demands, *, is_same: bool) -> bool:
        """Check if a text is in the same case as a name."""
        short = demands.short
        if row in self._acronyms:
            return short.removesuffix("s").isupper()
        if not short or not is_same:
            return True
        of_name = own_case_forms(self._name_column[row])
        return not own_case_forms(short).isdisjoint(of_name) or (demands.is_cell and "" in of_name)

    def _stand_for(self, word: int, other: int) -> bool:
        is_one_class = self._class_of.get(word, word) == self._class_of.get(other, other)
        return is_one_class or self._abnormalities.issuperset((word, other))

    def _read_names(self, rows: Sequence[int]) -> dict[int, list[_Name]]:
        """Read the names in rows, which are then remembered."""
        names = dict(zip(rows, self._read_texts(self._list_texts(np.array(rows, dtype=np.int64))), strict=True))
        for row, words, crossed, how in self._table.list_others(rows):
            if words:
                names[row].append(_Name(words, crossed, words[-1], is_own=False, how=how))
        # Threads may read the same ones, which are equal.
        all_names = self._names if len(self._names) < KEPT else {}
        all_names.update(names)
        self._names = all_names
        return names

    def _read_texts(self, texts: Sequence[str]) -> list[list[_Name]]:
        """Read names with their words as they are, with those joined that have hyphens between them, and with compounds
        as two words."""
        names = [[name] for name in self._read_joined(texts, None)]
        hyphened = [place for place, text in enumerate(texts) if _HYPHEN.search(text)]
        joined = self._read_joined([texts[place] for place in hyphened], self._table.vocabulary)
        for place, name in zip(hyphened, joined, strict=True):
            if name.words != names[place][0].words:
                names[place].append(name)
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

        def rate(concept: int) -> tuple[bool, bool, tuple[int, int], int, int]:
            row = best[concept]
            canonical = self._canonical_names[concept]
            is_other = self._name_column[row] != canonical
            return is_other, canonical not in same, self._rank(row), -int(self._sizes[concept]), concept

        return tuple(best[concept] for concept in sorted(best, key=rate))

    def _is_outside(self, inside: Sequence[int], outside: Sequence[int]) -> bool:
        """Check if a text rather means names outside of the filters: those of twice as many sources, or else canonical
        ones."""
        n = self._count_sources(inside)
        n_outside = self._count_sources(outside)
        if n_outside >= 2 * n or n >= 2 * n_outside:
            return n_outside > n
        return min(map(self._rate, outside)) < min(map(self._rate, inside))

    def _count_sources(self, rows: Sequence[int]) -> int:
        return len({source for row in rows for source in self._sources[row].split(SOURCE_SEPARATOR)})

    def _rate(self, row: int) -> tuple[bool, int]:
        canonical = self._canonical_names[int(self._terminology.name_concept[row])]
        return self._name_column[row].lower() != canonical.lower(), self._rank(row)[0]


def _take_sites(hit: Hit, starts: list[int], sites: Mapping[int, tuple[Place, ...]]) -> tuple[Place, ...]:
    """Take the sites of the finding in a mention: those that it names, or else all."""
    for start, end in hit.pieces:
        number = bisect_left(starts, start)
        if number < len(starts) and starts[number] < end:
            of_finding = sites[starts[number]]
            return tuple(site for site in of_finding if _overlaps(site, hit.pieces)) or of_finding
    return ()


def _overlaps(place: Place, others: Iterable[Place]) -> bool:
    return any(place[0] < end and start < place[1] for start, end in others)


class _Name(NamedTuple):
    """The words of a name, how many commas and "and" are between them, and the word that says what it is."""

    words: Bag
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
        firsts = links[0], skipped[0]
        breaks = (place for place, pair in enumerate(zip(links, skipped, strict=True)) if pair != firsts)
        n_head = 1 if head_first else next(breaks, 0)
        crossed = links[-1] - links[0], joins[-1] - joins[0]
        return cls(tuple(hashes), crossed, hashes[n_head - 1])
