"""The names of a linker, with the settings of a matcher applied to them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it
from spacy.tokens import Doc

from ..abbreviations.component import Abbreviations, abbreviations_by_start, get_bounds
from ..candidates import ConceptFilter
from ..retrieval.filters import FilterTable
from ..retrieval.name_table import INVISIBLE, own_case_forms
from ..terminology.codes import rank_name
from . import MatcherSettings
from .bags import ABNORMALITIES, BagTable
from .reading import Reading, read

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# Words, names and labels that are remembered.
KEPT = 1 << 16
# Before a name, and behind it, these stand for something else: "non-Hodgkin lymphoma", "seizure-free".
_OPPOSITE = re.compile(r"\b(?:(?:non|anti)[\s\-‐‑–]*|pre[\-‐‑–])$", re.IGNORECASE)
_FREE = re.compile(r"[\-‐‑–]free\b", re.IGNORECASE)
# Behind an adjective: "oral hypoglycemic agents" are no hypoglycemia.
_REMEDY = re.compile(r"\s+(?:agent|drug|medication)s?\b", re.IGNORECASE)
# A letter with a full stop, which spaCy leaves together.
_DOTTED = re.compile(r"(?<![^\W_])[^\W\d_]\.")
# A short form inside a name, "breast (BRCA) cancer", and the characters around it in which the name may be.
_BRACKET, REACH = re.compile(r"\s?\([A-Z][A-Za-z0-9\-]{1,9}\)(?=\s\w)"), 200
# What a long form may lack of a name, and the share that the name covers, up to the end, for the short form to have it.
HEADS = (("", 0.5), (" disease", 1.0), (" syndrome", 1.0))
# Characters on both sides that say whether a text is in capitals.
NEAR = 20
# The score of a name none of whose words is in the text as it is. One with all words there has the score 1.
LEAST_SCORE = 0.9


class Choice(NamedTuple):
    """The names that fit words of a text best: of each concept one, the best concept first."""

    rows: tuple[int, ...]
    n_same: int  # words that are in the text as they are
    in_order: bool


class Hit(NamedTuple):
    """A mention, by characters."""

    start: int
    end: int
    how: str
    rows: tuple[int, ...]  # of the terminology's names
    score: float
    pieces: tuple[tuple[int, int], ...]

    def moved(self, by: int) -> Hit:
        """Move it by some characters."""
        pieces = tuple((start + by, end + by) for start, end in self.pieces)
        return self._replace(start=self.start + by, end=self.end + by, pieces=pieces)


class Placed(NamedTuple):
    """A hit with its first token, the token behind its last one, and a label."""

    start: int
    end: int
    label: str
    hit: Hit


class CompiledMatcher:
    """Find the names of a table in documents, but for those that the linker may not link to."""

    def __init__(
        self, table: BagTable, terminology: Terminology, settings: MatcherSettings, linker_filter: ConceptFilter
    ) -> None:
        self._made_of = table, terminology, settings, linker_filter
        self.settings, self._table, self._terminology = settings, table, terminology
        self.fingerprint = terminology.fingerprint
        self._known, self._shift = table.make_filter()
        # Single columns, because getting one from its table takes longer than reading a value.
        self._name_column, self._types = terminology.names["name"], terminology.concepts["types"]
        self._canonical_names = terminology.concepts["canonical_name"]
        self._sizes = np.bincount(terminology.name_concept, minlength=len(terminology))
        filters = FilterTable(terminology)
        # All values, so that a misspelled type does not mean a label that no name gets.
        filters.check(ConceptFilter(types={type_ for types in settings.label_types.values() for type_ in types}))
        self._label_types = {label: filters.find_types(types) for label, types in settings.label_types.items()}
        own = settings.make_filter()
        order = linker_filter.source_order or own.source_order
        preferred, kinds, sources = (terminology.names[key] for key in ("preferred", "term_type", "source"))
        self._rank = lru_cache(KEPT)(lambda row: rank_name(preferred[row], kinds[row], sources[row], order))
        self._names = np.ones(terminology.n_names, dtype=bool)
        for allowed in (own, linker_filter):
            if not allowed.is_open:
                self._names &= filters.match(allowed)
        self._read_name = lru_cache(KEPT)(self._read_name_at)
        # The words of each, in any order.
        self._skipped = {tuple(sorted(name.words)) for text in settings.skip_names for name in self._read_text(text)}
        before = np.concatenate([[0], np.cumsum(self._names[table.rows])])
        self._is_wanted = before[table.offsets[1:]] > before[table.offsets[:-1]]
        self._generic = frozenset(table.generic.tolist())
        self._abnormalities = frozenset(ABNORMALITIES.tolist())
        self._heads = (self._generic | self._abnormalities) - {hash_string("abnormal")}
        self._class_of = dict(zip(table.members.tolist(), table.classes.tolist(), strict=True))
        self._choose = lru_cache(KEPT)(self._choose_names)
        self._get_label = lru_cache(KEPT)(self._choose_label)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy can fill its own caches.
        return CompiledMatcher, self._made_of

    def find(self, docs: Sequence[Doc]) -> list[list[Placed]]:
        """Find names, which may overlap, in each of several documents."""
        # As `doc.text`, in half the time.
        texts = [doc.text_with_ws for doc in docs]
        brackets = [(n, *found.span()) for n, text in enumerate(texts) for found in _BRACKET.finditer(text)]
        around = [(n, max(start - REACH, 0), start, end) for n, start, end in brackets]
        defined = [abbreviations_by_start(doc) if self.settings.abbreviations else {} for doc in docs]
        long_forms = [*dict.fromkeys(long_form for of_doc in defined for _, long_form in of_doc.values())]
        parts = [
            texts[n][first:start] + " " * (end - start) + texts[n][end : end + REACH] for n, first, start, end in around
        ]
        names = [(one, one + head, covered) for one in long_forms for head, covered in _list_heads(one)]
        hits = self._find_in([*texts, *parts, *(name for _, name, _ in names)])
        for (n, first, start, end), found in zip(around, hits[len(texts) :], strict=False):
            hits[n] += [hit.moved(first) for hit in found if hit.start < start - first and hit.end > end - first]
        whole: dict[str, Hit | None] = {}
        for (long_form, name, covered), found in zip(names, hits[len(texts) + len(parts) :], strict=True):
            whole[long_form] = whole.get(long_form) or _find_at_end(name, found, covered)
        of_docs = zip(docs, texts, hits[: len(docs)], defined, strict=True)
        return [self._place(doc, text, found, known, whole) for doc, text, found, known in of_docs]

    def _place(
        self, doc: Doc, text: str, hits: list[Hit], defined: Abbreviations, whole: dict[str, Hit | None]
    ) -> list[Placed]:
        """Find the tokens of plausible hits, and what short forms stand for."""
        first, last = _read_bounds(doc, text)
        found: dict[tuple[int, int], Hit] = {}
        for hit in hits:
            is_whole = hit.start in first and hit.end in last
            if is_whole and self._is_plausible(doc, text[hit.start : hit.end]) and not _is_other(text, hit):
                found.setdefault((first[hit.start], last[hit.end] + 1), hit)
        for start, (end, long_form) in defined.items():
            found.pop((start, end), None)
            named = whole[long_form]
            place = doc[start].idx, doc[end - 1].idx + len(doc[end - 1])
            if named is not None and not self._is_skipped(read(text[slice(*place)]).hashes.tolist()):
                found[start, end] = named._replace(start=place[0], end=place[1], how="definition", pieces=(place,))
        return [Placed(*tokens, self._get_label(hit.rows), hit) for tokens, hit in found.items()]

    def _find_in(self, texts: Sequence[str]) -> list[list[Hit]]:
        """Find names in texts. All are read as one, which is faster, with blank lines that no name crosses."""
        text = "\n\n".join(texts)
        reading = self._table.read(text)
        hashes, _, _, _, links, joins, skipped = (column.tolist() for column in reading)
        starts, ends = reading.starts.tolist(), reading.ends.tolist()
        goes_on = np.append(~np.diff(reading[3:], axis=1).any(axis=0), False).tolist()
        found = self._table.find(reading, self._known, self._shift)
        is_wanted = self._is_wanted[found.entry]
        best: dict[tuple[int, int], tuple[tuple[bool, bool], Hit]] = {}
        ended: set[int] = set()
        for row in zip(*(column[is_wanted].tolist() for column in found), strict=True):
            start, end, then, until, entry, is_loose = row
            is_joined = until > then
            last, rank = (until if is_joined else end) - 1, (is_joined, is_loose)
            place = starts[start], ends[last]
            if place in best and best[place][0] <= rank:
                continue
            words = tuple(hashes[start:end] + hashes[then:until])
            if self._is_skipped(words):
                continue
            crossed, fixed, head = (0, 0), None, None
            if not is_joined:
                crossed = links[last] - links[start], joins[last] - joins[start]
                if words[0] in self._heads and last > start and skipped[start] == skipped[start + 1]:
                    fixed = words[0]
            elif links[end] == links[end - 1]:  # "C of A and B", but not "loss of appetite and weight gain"
                head = words[end - start - 1]
                if goes_on[last]:
                    continue
            elif ends[end - 1] in ended:  # "A and B C"; what ends a name says nothing about what comes later
                continue
            else:
                head = words[-1]
            covered = text[place[0] : place[1]]
            # Case says nothing in a text in capitals.
            is_short = len(covered) <= self.settings.own_case_length
            short = covered if is_short and not text[max(place[0] - NEAR, 0) : place[1] + NEAR].isupper() else ""
            choice = self._choose(words, entry, fixed, crossed, short, head)
            if choice is None:
                continue
            how = self._name_way(choice, len(words), is_joined, covered)
            # "Absence of kidney" in "absence of kidney disease": the last word belongs to what comes behind it.
            if not choice.in_order and not is_joined and goes_on[last] and skipped[last] > skipped[start]:
                continue
            if self.settings.words == "exact" and (how not in ("exact", "form") or not choice.in_order):
                continue
            score = LEAST_SCORE + (1 - LEAST_SCORE) * choice.n_same / len(words)
            pieces = ((place[0], ends[end - 1]), (starts[then], place[1])) if is_joined else (place,)
            best[place] = rank, Hit(*place, how, choice.rows, score, pieces)
            if not is_joined:
                ended.add(place[1])
        of_texts: list[list[Hit]] = [[] for _ in texts]
        first = [0, *accumulate(len(part) + 2 for part in texts)]
        for hit in self._drop_joined([hit for _, hit in best.values()]):
            n = bisect_right(first, hit.start) - 1
            of_texts[n].append(hit.moved(-first[n]))
        return of_texts

    def _name_way(self, choice: Choice, n_words: int, is_joined: bool, text: str) -> str:
        if is_joined or choice.n_same < n_words:
            return "coordination" if is_joined else "classes"
        return "exact" if text.lower() in (self._name_column[row].lower() for row in choice.rows) else "form"

    def _drop_joined(self, hits: list[Hit]) -> list[Hit]:
        """Drop what was put together of two pieces if a name inside it already is one of the concept."""
        concepts = self._terminology.name_concept
        inside: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for hit in hits:
            if hit.how != "coordination":
                inside[int(concepts[hit.rows[0]])].append((hit.start, hit.end))
        for places in inside.values():
            places.sort()

        def is_new(hit: Hit) -> bool:
            places = inside.get(int(concepts[hit.rows[0]]), [])
            at = bisect_left(places, (hit.start, 0))
            return at == len(places) or places[at][1] > hit.end

        return [hit for hit in hits if hit.how != "coordination" or is_new(hit)]

    def _choose_names(
        self,
        words: tuple[int, ...],
        entry: int,
        fixed: int | None,
        crossed: tuple[int, int],
        short: str,
        head: int | None,
    ) -> Choice | None:
        """Choose the names of an entry with the most words as they are written, and of these those in their order.

        `fixed` is a word that doesn't stand for another one: the first one if it is like "disease", but not the disease
        "of" something. `crossed` are the links and joins between the words. `head` says what a coordinated mention is,
        and has to be what the name says it is.
        """
        if len(words) == 1 and words[0] in self._generic:
            return None
        counted = Counter(words)
        best = 0 if len(words) == 1 else -1, True, False
        chosen: list[int] = []
        rows = self._table.rows_of(entry)
        for row in rows[self._names[rows]].tolist():
            for name in self._read_name(row):
                n_same = sum((counted & name.counted).values())
                fit = n_same, name.words == words, name.is_own
                # Over commas and "and", a name has to go on as the text does.
                if fit < best or (crossed[0] and (name.words != words or name.crossed != crossed)):
                    continue
                if head is not None and not self._stand_for(head, name.head):
                    continue
                if fixed is not None and fixed not in name.counted:
                    continue
                if short and n_same == len(words) and own_case_forms(short).isdisjoint(self._get_forms(row)):
                    continue
                chosen = [*chosen, row] if fit == best else [row]
                best = fit
        n_same, in_order, is_own = best
        return Choice(self._order(chosen), n_same if is_own else 0, in_order) if chosen else None

    def _stand_for(self, word: int, other: int) -> bool:
        same_class = self._class_of.get(word, word) == self._class_of.get(other, other)
        return same_class or self._abnormalities.issuperset((word, other))

    def _read_text(self, text: str) -> list[_Name]:
        """Read a name with its words as they are, and with those joined that have hyphens between them."""
        readings = [_Name.make(read(text)), _Name.make(self._table.read(text))]
        return readings[: 1 if readings[0].words == readings[1].words else 2]

    def _read_name_at(self, row: int) -> list[_Name]:
        others = (_Name(words, is_own=False) for words in self._table.others_of(row))
        return [*self._read_text(self._name_column[row]), *others]

    def _is_skipped(self, words: Sequence[int]) -> bool:
        return bool(self._skipped) and tuple(sorted(words)) in self._skipped

    def _get_forms(self, row: int) -> frozenset[str]:
        return own_case_forms(self._name_column[row])

    def _order(self, rows: Iterable[int]) -> tuple[int, ...]:
        """Keep the best name of each concept. Concepts whose canonical name it is come first, then those whose names
        have a better rank, then those with more names."""
        rows = [*rows]
        if len(rows) == 1:
            return tuple(rows)
        best: dict[int, int] = {}
        for row in sorted(rows, key=self._rank):
            best.setdefault(int(self._terminology.name_concept[row]), row)

        def key(item: tuple[int, int]) -> tuple[bool, tuple[int, int], int, int]:
            concept, row = item
            is_other = self._name_column[row] != self._canonical_names[concept]
            return is_other, self._rank(row), -int(self._sizes[concept]), concept

        return tuple(row for _, row in sorted(best.items(), key=key))

    def _is_plausible(self, doc: Doc, text: str) -> bool:
        """Leave out what is more probably an ordinary word, a number, or a short form of something else."""
        if len(text) < self.settings.min_length or self._is_short_form(text) or not any(map(str.isalpha, text)):
            return False
        return text.isupper() or not (self.settings.skip_stop_words and doc.vocab[text.lower()].is_stop)

    def _is_short_form(self, text: str) -> bool:
        form = text.removesuffix("s")
        n_letters = sum(map(str.isalpha, form))
        return form.isalnum() and n_letters <= self.settings.define_length and sum(map(str.isupper, form)) > 1

    def _choose_label(self, rows: tuple[int, ...]) -> str:
        concepts = self._terminology.name_concept[[*rows]].tolist() if self._label_types else ()
        found = {type_ for concept in concepts for type_ in self._types[concept].to_list()}
        fitting = (label for label, wanted in self._label_types.items() if not found.isdisjoint(wanted))
        return next(fitting, self.settings.label)


def _is_other(text: str, hit: Hit) -> bool:
    """Check if the words around a mention change its meaning."""
    is_opposite = _OPPOSITE.search(text, max(hit.start - 6, 0), hit.start) or _FREE.match(text, hit.end)
    return bool(is_opposite or (hit.how == "classes" and _REMEDY.match(text, hit.end)))


def _list_heads(long_form: str) -> tuple[tuple[str, float], ...]:
    """List what may be missing behind a long form: "von Hippel-Lindau (VHL) gene" is about von Hippel-Lindau disease.
    A single name is left alone, because it may be a place."""
    is_eponym = " ".join(long_form.split()[-1:]).istitle() and not long_form.isalpha()
    return HEADS if is_eponym else HEADS[:1]


def _find_at_end(text: str, hits: Iterable[Hit], covered: float) -> Hit | None:
    """Find the longest name that a text ends with, if that covers so much of it."""
    at_end = (hit for hit in hits if hit.end == len(text) and not _is_other(text, hit))
    longest = min(at_end, key=lambda hit: hit.start, default=None)
    return longest if longest and longest.end - longest.start >= covered * len(text) else None


class _Name:
    """The words of a name, how many commas and "and" are between them, and the word that says what it is."""

    def __init__(
        self, words: tuple[int, ...], crossed: tuple[int, int] = (0, 0), n_head: int = 0, is_own: bool = True
    ) -> None:
        self.words, self.crossed, self.is_own = words, crossed, is_own
        self.counted = Counter(words)
        self.head = words[n_head - 1] if words else 0

    @classmethod
    def make(cls, reading: Reading) -> _Name:
        columns = reading.links, reading.joins
        breaks = np.flatnonzero(np.diff(reading.links) + np.diff(reading.skipped))
        n_links, n_joins = (int(np.ptp(column)) if len(column) else 0 for column in columns)
        return cls(tuple(reading.hashes.tolist()), (n_links, n_joins), int(breaks[0]) + 1 if len(breaks) else 0)


def _read_bounds(doc: Doc, text: str) -> tuple[dict[int, int], dict[int, int]]:
    """Get the token that starts, and the one that ends, at each place, with or without invisible characters, or
    with the full stop behind a letter."""
    starts, ends = get_bounds(doc) if len(doc) else ([], [])
    first, last = ({place: token for token, place in enumerate(places)} for places in (starts, ends))
    for found in INVISIBLE.finditer(text):
        if found.start() in first:
            first.setdefault(found.end(), first[found.start()])
        if found.end() in last:
            last.setdefault(found.start(), last[found.end()])
    for found in _DOTTED.finditer(text):
        if found.end() in last:
            last.setdefault(found.end() - 1, last[found.end()])
    return first, last
