"""The names of a terminology as bags of word classes, and the words of a text that are one of these bags."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..arrays import ArrayFolder, save_array
from ..columns import TextColumn, read_chunks
from ..progress import say, show_progress
from ..ragged import KeyTable, as_hashes, find_places, list_owners, make_offsets
from .classes import learn_classes
from .derived import list_adjectives, read_list
from .languages import ENGLISH, ENGLISH_CODES, Language, get_reader, join_phrases
from .said import SaidTable
from .scan import Reading, is_among, join_columns, list_words, read_content, scan, scan_names, sum_hashes
from .trust import INSIDE, WAYS, compute_trust, find_word_acronyms

if TYPE_CHECKING:
    from ..terminology.rows import Table
    from ..terminology.table import Terminology

# Content words of the longest names that are found, where words have spaces between them or are single characters.
MOST_WORDS, MOST_CHARACTERS = 12, 24
# Names that are read at once.
CHUNK = 8192
# Words that say nothing by themselves, such as "congenital", stand in the names of at least this share of the concepts,
# and are no canonical names. Those that say what kind of thing a concept is stand in the names of this number.
GENERIC_SHARE, LEAST_GENERIC = 0.03, 20
# What any word for an abnormality is, where it says what a name is: "heart defect" is "heart malformation".
ANY_ABNORMALITY = np.uint64(hash_string("any abnormality"))
# "hand and foot deformities", "deformities of hand and foot": words of each part, and items of a list.
MOST_JOINED, MOST_ITEMS = 3, 4
_SIZES = np.indices((MOST_JOINED,) * 3).reshape(3, 1, -1) + 1
_ZERO = np.uint64(0)
_NO_KEYS = np.empty(0, dtype=np.uint64)
# How other words stand for a name: synonyms, what is derived from it, and what people say.
OTHERS, SAID = ("classes", "derived"), "said"
# The most words of a name with idle words inside ("pain in his left knee"), and the most of these.
MOST_AROUND, MOST_IDLE = 5, 4


# Tells for each key whether a table may have it.
KeyFilter = Callable[[np.ndarray], np.ndarray]
Bag = tuple[int, ...]  # the hashes of words


class Found(NamedTuple):
    """Words of a text that are the bag of a name: from `start` to `end`, and from `then` to `until`, or none there."""

    start: np.ndarray
    end: np.ndarray
    then: np.ndarray
    until: np.ndarray
    entry: np.ndarray  # of the table
    is_loose: np.ndarray  # whether the name has another word for an abnormality
    has_gap: np.ndarray  # whether idle words inside are left out


class BagTable(NamedTuple):
    """The keys of names, which are the sums of the hashes of their words' classes, sorted; and what belongs to it."""

    language: Language  # that names and texts are read in
    said: SaidTable  # what people say in place of names
    keys: np.ndarray  # distinct; uint64
    offsets: np.ndarray  # where the names of each start in `rows`
    rows: np.ndarray  # of the terminology's names
    members: np.ndarray  # words that are in a class with others, sorted
    classes: np.ndarray  # the word that stands for the class of each
    vocabulary: np.ndarray  # all words of names, sorted
    generic: np.ndarray  # words that are not a name by themselves, sorted
    other_rows: np.ndarray  # of names with other words for the whole, sorted
    other_offsets: np.ndarray  # where the words of each start
    other_words: np.ndarray
    other_is_derived: np.ndarray  # whether they are derived from the name
    trust: np.ndarray  # the logit of each name (trust.py); none without a terminology
    acronyms: np.ndarray  # rows of names that count only in capitals, sorted

    @classmethod
    def of(cls, terminology: Terminology, language: Language = ENGLISH, said: SaidTable | None = None) -> BagTable:
        """Make the table of a terminology, with the lists that come with the package for a language, and with phrases
        that people say."""
        names = terminology.names["name"]
        of_names = read_names(names, language)
        words = _read_english(terminology.names, of_names)
        trust = compute_trust(terminology, *words)
        acronyms = find_word_acronyms(terminology, *words)
        # What is rather an ordinary word than a name may be derived from one: "wheezes".
        is_name = trust > 0
        is_name[acronyms] = True
        lists = *read_lists(language), list_canonical_words(terminology)
        table = cls.build(names, terminology.name_concept, *lists, language, of_names, is_name, said)
        return table._replace(trust=trust, acronyms=acronyms)

    @classmethod
    def build(
        cls,
        names: TextColumn,
        concept: np.ndarray,
        pairs: Iterable[Sequence[str]],
        synonyms: Iterable[Sequence[str]] = (),
        derived: Iterable[Sequence[str]] = (),
        canonical_names: Iterable[str] = (),
        language: Language = ENGLISH,
        of_names: NameReadings | None = None,
        is_name: np.ndarray | None = None,
        said: SaidTable | None = None,
    ) -> BagTable:
        """Make the table of names, given the concept of each, pairs of words that may stand for one another, names that
        do, and names with what is derived from them. Canonical names stay names even if they are a word that many
        concepts have in their names."""
        of_names = of_names or read_names(names, language)
        spell = make_speller(names, of_names)
        different = read_list("different_words", language)
        of_concept = concept[of_names.name]
        members, classes = learn_classes(of_names.hashes, of_names.reading, of_concept, spell, pairs, different)
        generic = _find_generic(of_names, concept, canonical_names)
        _say_dropped(generic, of_names, spell)
        others = _find_others(names, concept, _index_bags(of_names, concept), synonyms, derived, language, is_name)
        other_rows, bags, is_derived = zip(*others, strict=True) if others else ((), (), ())
        rows = np.array(other_rows, dtype=np.uint32)
        offsets = make_offsets([*map(len, bags)])
        words = as_hashes(chain.from_iterable(bags))
        table = cls(
            language,
            said or SaidTable.empty(),
            *(_NO_KEYS, _NO_KEYS, _NO_KEYS),
            members,
            classes,
            np.unique(of_names.hashes),
            generic,
            rows,
            offsets,
            words,
            np.array(is_derived, dtype=bool),
            trust=np.empty(0, dtype=np.float32),
            acronyms=np.empty(0, dtype=np.uint32),
        )
        return table._with_keys(of_names.extended(words, list_owners(offsets), rows))

    @property
    def _most_words(self) -> int:
        return MOST_WORDS if self.language.is_spaced else MOST_CHARACTERS

    def _with_keys(self, readings: NameReadings) -> BagTable:
        """Make the table with the keys of readings. One with a word for an abnormality has a second, loose key."""
        classes = self.classify(readings.hashes)
        sums = readings.add_up(classes)
        n_words = readings.n_words
        is_short = (n_words > 0) & (n_words <= self._most_words)
        is_any = is_among(readings.hashes, self.language.abnormal)
        is_loose = np.bincount(readings.reading[is_any], minlength=len(sums)) == 1
        is_loose &= is_short & (n_words > 1)
        places = np.flatnonzero(is_any & is_loose[readings.reading])
        loose = readings.reading[places]
        loose_keys = sums[loose] - classes[places] + ANY_ABNORMALITY
        keys = np.concatenate([sums[is_short], loose_keys])
        of_phrases, phrase_rows = self._list_said(keys)
        rows = np.concatenate([readings.name[is_short], readings.name[loose], phrase_rows])
        table = KeyTable.make(np.concatenate([keys, of_phrases]), rows)
        return self._replace(**table._asdict())

    def _list_said(self, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the keys of phrases and the rows of their names, but for phrases that are a name without idle words."""
        phrases = self.said.bags
        owners = list_owners(phrases.offsets)
        classes = self.classify(phrases.words)
        keys = sum_hashes(classes, owners, len(phrases.rows))
        is_idle = is_among(phrases.words, self.language.idle_hashes)
        without_idle = keys - sum_hashes(classes[is_idle], owners[is_idle], len(keys))
        is_name = np.isin(keys, names) | np.isin(without_idle, names)
        is_new = ~is_name & (np.diff(phrases.offsets) <= self._most_words)
        return keys[is_new], phrases.rows[is_new].astype(np.int64)

    def to_disk(self, folder: Path) -> None:
        """Save to a folder that has more."""
        for name, array in zip(ARRAYS, self[2:], strict=True):
            save_array(folder / f"{name}.npy", array)

    @classmethod
    def from_disk(cls, arrays: ArrayFolder, n_names: int, language: Language, said: SaidTable) -> BagTable:
        """Load what `to_disk` saved, for a terminology of so many names."""
        members = arrays.read_sorted("bag_members", np.uint64)
        other_words = arrays.read("bag_other_words", np.uint64)
        other_rows = arrays.read_rows("bag_other_rows", n_names, np.uint32)
        return cls(
            language,
            said,
            *arrays.read_keys("bag", n_names),
            members=members,
            classes=arrays.read("bag_classes", np.uint64, shape=members.shape),
            vocabulary=arrays.read_sorted("bag_vocabulary", np.uint64),
            generic=arrays.read_sorted("bag_generic", np.uint64),
            other_rows=other_rows,
            other_offsets=arrays.read_offsets("bag_other_offsets", len(other_rows), len(other_words)),
            other_words=other_words,
            other_is_derived=arrays.read("bag_other_is_derived", np.bool_, shape=other_rows.shape),
            trust=arrays.read("bag_trust", np.float32, shape=(n_names,)),
            acronyms=arrays.read_rows("bag_acronyms", n_names, np.uint32),
        )

    def read(self, text: str) -> Reading:
        """Read a text. Words with a hyphen between them are one where a name has that."""
        return scan(text, self.language).read_content(self.vocabulary)

    def rows_of(self, entry: int) -> np.ndarray:
        """Return the names of an entry."""
        return self.rows[self.offsets[entry] : self.offsets[entry + 1]]

    def list_others(self, rows: Sequence[int]) -> Iterator[tuple[int, Bag, tuple[int, int], str]]:
        """List other words for names: the row of each one's name, the words, their links and joins, and how they stand
        for it."""
        places = np.flatnonzero(np.isin(self.other_rows, np.array(rows, dtype=np.uint32)))
        for place, row in zip(places.tolist(), self.other_rows[places].tolist(), strict=True):
            words = _take_bag(self.other_words, self.other_offsets, place)
            yield row, words, (0, 0), OTHERS[int(self.other_is_derived[place])]
        phrases = self.said.bags
        for row in rows:
            start, end = np.searchsorted(phrases.rows, (row, row + 1)).tolist()
            for place in range(start, end):
                n_links, n_joins = phrases.crossed[place].tolist()
                yield row, _take_bag(phrases.words, phrases.offsets, place), (n_links, n_joins), SAID

    def find_trusted(self, least: float) -> np.ndarray:
        """Find the names that probably mean their concepts in a text, and those that count only in capitals: bool."""
        is_trusted: np.ndarray = 1 / (1 + np.exp(-self.trust)) >= least
        is_trusted[self.acronyms] = True
        return is_trusted

    def judge(self, row: int, how: str, *, is_inside: bool) -> float:
        """Judge how probable it is that words mean the concept of a name, given how this was found, and whether it is
        inside a longer phrase."""
        logit = float(self.trust[row]) + WAYS[how] + INSIDE * is_inside
        return float(1 / (1 + np.exp(-logit)))

    def classify(self, hashes: np.ndarray) -> np.ndarray:
        """Put the word that stands for its class in place of each word."""
        places = find_places(self.members, hashes)
        return np.where(places >= 0, self.classes[places], hashes) if len(self.members) else hashes

    def find(self, reading: Reading, may_be: KeyFilter) -> Found:
        """Find the bags of names in a text: in one piece, or in two beside "and" and "or"; and with idle words inside,
        which are left out."""
        classes = self.classify(reading.hashes)
        windows = [_list_windows(reading, self._most_words), _list_joined(reading)]
        whole = self._look_up(reading, classes, np.concatenate(windows, axis=1), may_be)
        gaps = self._find_gaps(reading, classes, may_be)
        return Found(*join_columns([whole, gaps]))

    def _find_gaps(self, reading: Reading, classes: np.ndarray, may_be: KeyFilter) -> Found:
        """Find the bags of names with idle words inside."""
        places = np.flatnonzero(~is_among(reading.hashes, self.language.idle_hashes))
        rest = Reading(*(column[places] for column in reading))
        windows = np.concatenate([_list_gaps(rest, places), _list_joined(rest)], axis=1)
        start, last = windows[0], windows[3] - 1
        n_idle = places[last] - places[start] - (last - start)
        windows = windows[:, (n_idle > 0) & (n_idle <= MOST_IDLE)]
        gaps = self._look_up(rest, classes[places], windows, may_be)
        # From places among the other words to those in the text.
        until = places[gaps.until - 1] + 1
        then = np.where(gaps.then < gaps.until, places[np.minimum(gaps.then, len(places) - 1)], until)
        return gaps._replace(
            start=places[gaps.start], end=places[gaps.end - 1] + 1, then=then, until=until, has_gap=~gaps.has_gap
        )

    def _look_up(self, reading: Reading, classes: np.ndarray, windows: np.ndarray, may_be: KeyFilter) -> Found:
        start, end, then, until = windows
        sums = np.append(_ZERO, np.cumsum(classes))
        keys = sums[end] - sums[start] + sums[until] - sums[then]
        head = start if self.language.head_first else until - 1
        is_any = is_among(reading.hashes, self.language.abnormal)
        loose = np.flatnonzero(is_any[head] & (until - then + end - start > 1))
        loose_keys = keys[loose] - classes[head[loose]] + ANY_ABNORMALITY
        keys = np.concatenate([keys, loose_keys])
        hits = np.flatnonzero(may_be(keys))
        entries = find_places(self.keys, keys[hits])
        hits = hits[entries >= 0]
        numbers = np.append(np.arange(len(start)), loose)[hits]
        is_loose = hits >= len(start)
        has_gap = np.zeros(len(hits), dtype=bool)
        return Found._make((*windows[:, numbers], entries[entries >= 0], is_loose, has_gap))


def _take_bag(words: np.ndarray, offsets: np.ndarray, place: int) -> Bag:
    return tuple(words[offsets[place] : offsets[place + 1]].tolist())


def make_key_filter(keys: np.ndarray) -> KeyFilter:
    """Make a function that tells these keys from most others by their first bits."""
    bits = max(len(keys).bit_length() + 4, 8)
    shift = np.uint64(64 - bits)
    is_first = np.zeros(1 << bits, dtype=bool)
    is_first[keys >> shift] = True
    return lambda others: is_first[others >> shift]


# Windows have four rows, as `Found`: `start`, `end`, `then` and `until`.


def _list_windows(reading: Reading, most: int) -> np.ndarray:
    n = len(reading.hashes)
    starts = np.tile(np.arange(n), most)
    ends = starts + np.repeat(np.arange(most) + 1, n)
    return _list_whole_windows(starts[ends <= n], ends[ends <= n], reading.segment)


def _list_gaps(reading: Reading, places: np.ndarray) -> np.ndarray:
    """List windows of words that idle words stood between; `places` are those of the words in the text."""
    behind = np.flatnonzero(np.diff(places) > 1) + 1
    # A window with several of these places is listed for its first one.
    earlier = np.append(0, behind)[:-1, None]
    before, after = np.indices((MOST_AROUND - 1,) * 2).reshape(2, 1, -1) + 1
    starts = behind[:, None] - before
    ends = behind[:, None] + after
    fits = (starts >= earlier) & (ends <= len(places)) & (before + after <= MOST_AROUND)
    return _list_whole_windows(starts[fits], ends[fits], reading.segment, reading.links)


def _list_whole_windows(starts: np.ndarray, ends: np.ndarray, *columns: np.ndarray) -> np.ndarray:
    """List windows of one piece that nothing of some columns of a reading stands in."""
    for column in columns:
        is_whole = column[starts] == column[ends - 1]
        starts, ends = starts[is_whole], ends[is_whole]
    return np.stack([starts, ends, ends, ends])


def _list_joined(reading: Reading) -> np.ndarray:
    """List "A C" of "A, B and D C", and "C B" of "C of A, B and D", in as many words as there may be."""
    lists = _list_items(reading)
    if not lists:
        return np.empty((4, 0), dtype=np.int64)
    a, b, c = _SIZES
    # The first words of the first item but one, of any of the others, and of the last one.
    places = [(items[0], item, items[-1]) for items in lists for item in items]
    second, here, last = np.array(places).T[:, :, None]
    before = np.stack(np.broadcast_arrays(here - a, here, last + b, last + b + c, last)).reshape(5, -1)
    behind = np.stack(np.broadcast_arrays(second - a - c, second - a, here, here + b, here)).reshape(5, -1)
    windows = np.concatenate([before, behind], axis=1)
    windows = windows[:, (windows[0] >= 0) & (windows[3] <= len(reading.hashes))]
    start, end, then, until, item = windows
    fits = reading.segment[start] == reading.segment[until - 1]
    for column in (reading.links, reading.skipped):
        fits &= column[start] == column[end - 1]
        fits &= column[item] == column[until - 1]
    return windows[:4, fits]


def _list_items(reading: Reading) -> list[list[int]]:
    """List the items of each "A, B and C" but for the first: the places of their first words."""
    segment, links, joins, skipped = np.diff(reading[5:], axis=1)
    is_comma = (segment == 0) & (links > 0) & (joins == 0) & (skipped == 0)
    is_join = (segment == 0) & (joins > 0) & (links <= joins + 1) & (skipped <= 1)
    lists = []
    for place in (1 + np.flatnonzero(is_join)).tolist():
        items = [place]
        for before in range(place - 1, max(place - MOST_ITEMS * MOST_JOINED, 0), -1):
            if items[0] - before > MOST_JOINED or segment[before - 1]:
                break
            if is_comma[before - 1]:
                items.insert(0, before)
        lists.append(items)
    return lists


ARRAYS = tuple(f"bag_{name}" for name in BagTable._fields[2:])


class NameReadings(NamedTuple):
    """The words of names. A name has other readings where it has words with a hyphen between them that are one word in
    another name, and a word that is also written as two: "eyebrow"."""

    language: Language
    hashes: np.ndarray  # of all words; uint64
    reading: np.ndarray  # the number of the reading that each is of
    name: np.ndarray  # of each reading

    @property
    def n_words(self) -> np.ndarray:
        """Count the words of each reading."""
        return np.bincount(self.reading, minlength=len(self.name))

    @property
    def first(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of the first reading of each name, and the row of each one's name."""
        is_first = self.reading <= self.name.max(initial=-1)
        return self.hashes[is_first], self.reading[is_first]

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """Add up a value of each word for each reading, modulo 2^64."""
        return sum_hashes(values, self.reading, len(self.name))

    def extended(self, hashes: np.ndarray, reading: np.ndarray, name: np.ndarray) -> NameReadings:
        """Add more readings."""
        more = hashes, len(self.name) + reading, name
        return NameReadings(self.language, *join_columns([self[1:], more]))


def read_names(names: TextColumn, language: Language = ENGLISH) -> NameReadings:
    """Read the words of names."""
    hashes = [_NO_KEYS]
    name = [np.empty(0, dtype=np.int64)]
    n = 0
    for words, offsets in scan_names(names, language):
        content, owner = words.list_content(offsets)
        hashes.append(content)
        name.append(n + owner)
        n += len(offsets) - 1
    first = NameReadings(language, np.concatenate(hashes), np.concatenate(name), np.arange(len(names)))
    hyphened = _find_matching(names, "[-‐‑]")
    again, place = _read_rows(names, hyphened, np.unique(first.hashes), language)
    is_other = np.bincount(place, minlength=len(hyphened)) < first.n_words[hyphened]
    is_of_other = is_other[place]
    numbers = np.cumsum(is_other) - 1
    both = first.extended(again[is_of_other], numbers[place[is_of_other]], hyphened[is_other])
    closed = _find_matching(names, language.compound_starts)
    return both.extended(*_read_rows(names, closed, None, language, language.write_apart), closed)


def _read_english(names: Table, of_names: NameReadings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the words of the first reading of each name, the row of each one's name, and which names have words of
    which it is known how common they are: English ones. In a pipeline of another language, these are read again."""
    words, name = of_names.first
    if of_names.language.has_levels:
        return words, name, np.ones(len(names), dtype=bool)
    has_levels = names["language"].is_in(ENGLISH_CODES)
    again, place = read_names(names["name"][np.flatnonzero(has_levels)]).first
    is_other = ~has_levels[name]
    name = np.concatenate([name[is_other], np.flatnonzero(has_levels)[place]])
    return np.concatenate([words[is_other], again]), name, has_levels


def _index_bags(of_names: NameReadings, concept: np.ndarray) -> Callable[[Bag], list[int]]:
    """Make a function that lists the names with a bag of words as they are: the first one of each concept."""
    sums = of_names.add_up(of_names.hashes)
    name = of_names.name
    order = np.lexsort((-name, concept[name], sums))
    sums = sums[order]
    ordered = name[order]

    def list_rows(words: Bag) -> list[int]:
        key = np.uint64(sum(words) % (1 << 64))
        start, end = (np.searchsorted(sums, key, side=side) for side in ("left", "right"))
        rows = ordered[start:end]
        return [*dict(zip(concept[rows].tolist(), rows.tolist(), strict=True)).values()]

    return list_rows


def _find_others(
    names: TextColumn,
    concept: np.ndarray,
    list_rows: Callable[[Bag], list[int]],
    synonyms: Iterable[Sequence[str]],
    derived: Iterable[Sequence[str]],
    language: Language,
    is_name: np.ndarray | None = None,
) -> list[tuple[int, Bag, bool]]:
    """Find other words for names, unless these words are a name: synonyms, and what is derived from names. The names
    that a terminology has of a group of synonyms must be of one concept."""
    rows_of: dict[Bag, list[int]] = {}
    for name, *others in _hash_groups([*derived, *_derive(names, language)], language):
        for words in others:
            rows_of[words] = rows_of.get(words) or list_rows(name)
    of_groups: dict[Bag, set[int]] = defaultdict(set)
    for bags in _hash_groups([*synonyms], language):
        rows = {rows[0] for rows in map(list_rows, bags) if len(rows) == 1}
        if len({concept[row] for row in rows}) == 1:
            for words in bags:
                of_groups[words].add(min(rows))
    same = {words: [min(rows)] for words, rows in of_groups.items() if len({concept[row] for row in rows}) == 1}
    rows_of.update(same)

    def is_free(words: Bag) -> bool:
        return not any(is_name is None or is_name[row] for row in list_rows(words))

    return sorted((row, words, words not in same) for words in filter(is_free, rows_of) for row in rows_of[words])


def _derive(names: TextColumn, language: Language) -> Iterator[Sequence[str]]:
    """List names with their adjectives, and names with what is left without their last word."""
    for name in _list_matching(names, f"(?i)^[a-z]{{2,}}(?:{join_phrases(language.adjectives)})$"):
        yield name, *list_adjectives(name, language)
    headless = join_phrases(language.headless.split())
    heads = join_phrases(language.short_heads)
    for name in _list_matching(names, rf"(?i)\b(?!(?:{headless})\b)[\w-]+(?:{heads})$"):
        yield name, name.rpartition(" ")[0]


def _list_matching(names: TextColumn, pattern: str) -> list[str]:
    texts: list[str] = names[_find_matching(names, pattern)].to_list()
    return texts


def _hash_groups(groups: Sequence[Sequence[str]], language: Language) -> Iterator[list[Bag]]:
    """Hash the words of each text of some groups."""
    texts = [*chain.from_iterable(groups)]
    hashes, place = read_content(texts, None, language)
    words = iter(hashes.tolist())
    sizes = iter(np.bincount(place, minlength=len(texts)).tolist())
    for group in groups:
        yield [tuple(islice(words, next(sizes))) for _ in group]


def make_speller(names: TextColumn, of_names: NameReadings) -> Callable[[int], str]:
    """Make a function that spells the hash of a word of names, which `read_names` has read."""
    language = of_names.language
    words, first = np.unique(of_names.hashes, return_index=True)
    example = dict(zip(words.tolist(), of_names.name[of_names.reading[first]].tolist(), strict=True))

    def spell(word: int) -> str:
        text = names[example[word]]
        parts = (part for way in (text, text.replace("-", "")) for part in list_words(way, language))
        return next((part for part in parts if hash_string(part) == word), "")

    return spell


def _find_matching(names: TextColumn, pattern: str | re.Pattern[str]) -> np.ndarray:
    search = re.compile(pattern).search
    matched = (search(name) is not None for chunk in read_chunks(names) for name in chunk)
    return np.flatnonzero(np.fromiter(matched, dtype=bool, count=len(names)))


def _read_rows(
    names: TextColumn,
    rows: np.ndarray,
    vocabulary: np.ndarray | None,
    language: Language,
    write: Callable[[str], str] = str,
) -> tuple[np.ndarray, np.ndarray]:
    """Read names by their rows: the hashes of words, and the place of each one's name among the rows. `write` says how
    they are written."""
    hashes = [_NO_KEYS]
    of_name = [np.empty(0, dtype=np.int64)]
    with show_progress(total=len(rows), description="Joining the words of names", unit="names") as progress:
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            texts = [*map(write, names[chunk].to_list())]
            words, place = read_content(texts, vocabulary, language)
            hashes.append(words)
            of_name.append(start + place)
            progress.update(len(chunk))
    return np.concatenate(hashes), np.concatenate(of_name)


def _find_generic(of_names: NameReadings, concept: np.ndarray, canonical_names: Iterable[str]) -> np.ndarray:
    language = of_names.language
    hashes = of_names.hashes
    concept = concept[of_names.name[of_names.reading]]
    n_concepts = concept.max(initial=0) + 1
    order = np.lexsort((concept, hashes))
    hashes = hashes[order]
    is_new = (np.diff(hashes, prepend=0) > 0) | (np.diff(concept[order], prepend=-1) != 0)
    distinct, n = np.unique(hashes[is_new], return_counts=True)
    kinds = {hash_ for word in language.kinds.split() for hash_ in get_reader(language)(word).hashes}
    is_kind = np.isin(distinct, as_hashes(kinds))
    least = np.where(is_kind, 1, GENERIC_SHARE * n_concepts).clip(LEAST_GENERIC)
    (of_canonical,) = _hash_groups([[*canonical_names]], language)
    names = {words[0] for words in of_canonical if len(words) == 1} - kinds
    is_name = np.isin(distinct, as_hashes(names))
    return np.asarray(distinct[(n >= least) & ~is_name])


def _say_dropped(generic: np.ndarray, of_names: NameReadings, spell: Callable[[int], str]) -> None:
    alone = of_names.hashes[of_names.n_words[of_names.reading] == 1]
    if dropped := sorted(filter(None, map(spell, np.intersect1d(generic, alone).tolist()))):
        because = "many concepts have them in their names"
        say(f"The matcher does not look for these words alone, because {because}: {', '.join(dropped)}")


def list_canonical_words(terminology: Terminology) -> list[str]:
    """List the canonical names of one word, but for the top of a hierarchy: concepts without parents, but with
    children."""
    ids, parents, names = (terminology.concepts[key].to_list() for key in ("id", "parents", "canonical_name"))
    with_children = {parent for of_concept in parents for parent in of_concept}
    of_concepts = zip(ids, parents, names, strict=True)
    return [name for id_, above, name in of_concepts if " " not in name and (above or id_ not in with_children)]


def read_lists(language: Language) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """Read the lists that come with the package for a language: pairs of words, the synonyms of each of many concepts,
    and names with what is derived from them."""
    kinds = "word_pairs", "word_groups", "synonyms", "derived_words"
    pairs, groups, synonyms, derived = (read_list(kind, language) for kind in kinds)
    return [*pairs, *(list(pair) for group in groups for pair in combinations(group, 2))], synonyms, derived
