"""The names of a terminology as bags of word classes, and the windows of a text that have the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..progress import show_progress
from .classes import choose_pairs, count_pairs, join_classes
from .reading import Reading, read

if TYPE_CHECKING:
    import polars as pl

# Content words of the longest names that are found.
MOST_WORDS = 8
# Names that are read at once.
CHUNK = 8192
# One-word names that so many concepts have in their names say nothing by themselves: "disease".
GENERIC_SHARE, LEAST_GENERIC = 0.02, 20
# What stands for an abnormality, whatever it is called, at the end of a name: "heart defect", "heart malformation".
ABNORMALITIES = np.sort(
    np.array(
        [
            hash_string(word)
            for word in (
                "abnormality anomaly defect malformation deformity abnormal disturbance impairment alteration "
                "aberration irregularity dysfunction problem deficit change finding"
            ).split()
        ],
        dtype=np.uint64,
    )
)
ANY_ABNORMALITY = np.uint64(hash_string("any abnormality"))
# Words of "hand and foot deformities", "deformities of hand and foot": of each part so many at most.
MOST_JOINED = 3


MOST_ITEMS=1; MAXSKIP=2; CONTIG=False
class Found(NamedTuple):
    """Words of a text that are the bag of a name: two pieces of the text, or one and an empty one."""

    start: np.ndarray
    end: np.ndarray
    then: np.ndarray
    until: np.ndarray
    entries: np.ndarray
    is_loose: np.ndarray  # whether it needs one word for an abnormality to be as good as another


class BagTable(NamedTuple):
    """The keys of names, which are the sums of the hashes of their words' classes, sorted."""

    keys: np.ndarray  # distinct; uint64
    offsets: np.ndarray  # where the names of each start in `rows`
    rows: np.ndarray  # of the terminology's names
    members: np.ndarray  # words that are in a class with others, sorted
    classes: np.ndarray  # the word that stands for the class of each
    vocabulary: np.ndarray  # all words of names, sorted
    generic: np.ndarray  # words that are no name by themselves, sorted

    @classmethod
    def build(cls, names: pl.Series, concept: np.ndarray, pairs: Iterable[tuple[str, str]] | None) -> BagTable:
        """Make the table of names, given the concept of each. Without `pairs`, each word is a class of its own."""
        hashes, name = _read_names(names)
        vocabulary = np.unique(hashes)
        class_of: dict[int, int] = {}
        if pairs is not None:
            class_of = _learn(names, concept, hashes, name, pairs)
        members = np.array(sorted(class_of), dtype=np.uint64)
        classes = np.array([class_of[word] for word in members.tolist()], dtype=np.uint64)
        lengths = np.bincount(name, minlength=len(names))
        of_words = _replace(hashes, members, classes)
        keys = np.zeros(len(names), dtype=np.uint64)
        np.add.at(keys, name, of_words)
        is_whole = (lengths > 0) & (lengths <= MOST_WORDS)
        loose = _find(ABNORMALITIES, hashes) >= 0
        n_loose = np.bincount(name[loose], minlength=len(names))
        once = loose & (n_loose[name] == 1) & (lengths[name] > 1) & is_whole[name]
        loose_rows = name[once]
        loose_keys = keys[loose_rows] - of_words[once] + ANY_ABNORMALITY
        whole = np.flatnonzero(is_whole)
        arranged = _arrange(np.concatenate([keys[whole], loose_keys]), np.concatenate([whole, loose_rows]))
        return cls(*arranged, members, classes, vocabulary, _find_generic(hashes, concept[name], len(set(concept.tolist()))))

    def read(self, text: str) -> Reading:
        """Read a text. Words with a hyphen are one where a name has them as one."""
        return read(text, self.vocabulary)

    def make_filter(self) -> tuple[np.ndarray, np.uint64]:
        """Make a table by which nearly all keys that the table lacks are told by their first bits."""
        bits = max(int(len(self.keys)).bit_length() + 4, 8)
        shift = np.uint64(64 - bits)
        known = np.zeros(1 << bits, dtype=bool)
        known[self.keys >> shift] = True
        return known, shift


def find(table: BagTable, reading: Reading, known: np.ndarray, shift: np.uint64) -> Found:
    """Find the bags of names in a text, in one piece or beside "and", "or" and commas."""
    n = len(reading.hashes)
    classes = _replace(reading.hashes, table.members, table.classes)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(classes)])
    is_loose = _find(ABNORMALITIES, reading.hashes) >= 0
    parts = [_list_windows(n, reading), _list_joined(n, reading)]
    start, end, then, until = (np.concatenate(column) for column in zip(*parts, strict=True))
    keys = sums[end] - sums[start] + sums[until] - sums[then]
    last = np.where(until > then, until, end) - 1
    loose = np.flatnonzero(is_loose[last] & (until - then + end - start > 1))
    loose_keys = keys[loose] - classes[last[loose]] + ANY_ABNORMALITY
    places, keys = np.concatenate([np.arange(len(keys)), loose]), np.concatenate([keys, loose_keys])
    may_be = np.flatnonzero(known[keys >> shift])
    entries = _find(table.keys, keys[may_be])
    hits = may_be[entries >= 0]
    at = places[hits]
    return Found(start[at], end[at], then[at], until[at], entries[entries >= 0], hits >= len(start))


def _list_windows(n: int, reading: Reading) -> tuple[np.ndarray, ...]:
    starts = np.tile(np.arange(n), MOST_WORDS)
    ends = starts + np.repeat(np.arange(1, MOST_WORDS + 1), n)
    inside = ends <= n
    starts, ends = starts[inside], ends[inside]
    whole = reading.segment[starts] == reading.segment[ends - 1]
    starts, ends = starts[whole], ends[whole]
    return starts, ends, ends, ends


def _list_joined(n: int, reading: Reading) -> tuple[np.ndarray, ...]:
    """List "A C" of "A, B and D C", and "C B" of "C of A, B and D"."""
    segment, links, joins, skipped = reading[3:]
    lists = _list_lists(reading)
    sizes = np.indices((MOST_JOINED,) * 3).reshape(3, -1) + 1
    outer = np.array([place for *_, place in lists], dtype=np.int64)  # the last item's first word
    found = []

    def add(start: np.ndarray, end: np.ndarray, then: np.ndarray, until: np.ndarray, last: np.ndarray) -> None:
        """Add those whose parts lie in the text, in one stretch of it, each without a link inside."""
        fits = (start >= 0) & (until <= n)
        start, end, then, until, last = (part[fits] for part in (start, end, then, until, last))
        fits = segment[start] == segment[until - 1]
        for first, behind in ((start, end), (last, until)):
            fits &= (links[first] == links[behind - 1]) & (skipped[first] == skipped[behind - 1])
        found.append(tuple(part[fits] for part in (start, end, then, until)))

    pairs = np.array([(place, of_list[-1]) for of_list in lists for place in of_list], dtype=np.int64).reshape(-1, 2)
    (here, last), (a, b, c) = pairs.T[:, :, None], sizes[:, None]
    add(*(part.ravel() for part in np.broadcast_arrays(here - a, here, last + b, last + b + c, last)))
    pairs = np.array([(of_list[0], place) for of_list in lists for place in of_list], dtype=np.int64).reshape(-1, 2)
    (first, here), (a, b, c) = pairs.T[:, :, None], sizes[:, None]
    start, end, then, until = (part.ravel() for part in np.broadcast_arrays(first - a - c, first - a, here, here + b))
    fits = (start >= 0) & (end > 0)
    fits[fits] = skipped[end[fits]] != skipped[end[fits] - 1]
    add(*(part[fits] for part in (start, end, then, until, then)))
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))


def _list_lists(reading: Reading) -> list[list[int]]:
    """List the items of each "A, B and C" but for the first: the places of their first words."""
    segment, links, joins, skipped = np.diff(reading[3:], axis=1)
    is_comma = (segment == 0) & (links > 0) & (joins == 0) & (skipped == 0)
    lists = []
    for place in (1 + np.flatnonzero((segment == 0) & (joins > 0) & (links <= joins + 1) & (skipped <= MAXSKIP))).tolist():
        items = [place]
        for before in range(place - 1, max(place - MOST_ITEMS * MOST_JOINED, 0), -1):
            if items[0] - before > MOST_JOINED or segment[before - 1]:
                break
            if is_comma[before - 1]:
                items.insert(0, before)
        lists.append(items)
    return lists


def _find(sorted_values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find values in a sorted array; -1 where there is none."""
    if not len(sorted_values):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    return np.where(sorted_values[places] == wanted, places, -1)


def _replace(hashes: np.ndarray, members: np.ndarray, classes: np.ndarray) -> np.ndarray:
    places = _find(members, hashes)
    return np.where(places >= 0, classes[places], hashes) if len(members) else hashes


def _read_names(names: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Read the words of names: their hashes, and the number of the name that each is of."""
    hashes, name = _read_rows(names, np.arange(len(names)), None)
    hyphened = np.flatnonzero(names.str.contains("[-‐‑]").to_numpy())
    again, of_name = _read_rows(names, hyphened, np.unique(hashes))
    kept = np.ones(len(names), dtype=bool)
    kept[hyphened] = False
    hashes, name = np.concatenate([hashes[kept[name]], again]), np.concatenate([name[kept[name]], of_name])
    order = np.argsort(name, kind="stable")
    return hashes[order], name[order]


def _read_rows(names: pl.Series, rows: np.ndarray, joined: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    hashes, of_name = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.int64)]
    with show_progress(total=len(rows), description="Reading the words of names", unit="names") as progress:
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            texts = names.gather(chunk).to_list()
            first = np.cumsum([0, *(len(text) + 2 for text in texts)])
            reading = read("\n\n".join(texts), joined)
            hashes.append(reading.hashes)
            of_name.append(chunk[np.searchsorted(first, reading.starts, side="right") - 1])
            progress.update(len(chunk))
    return np.concatenate(hashes), np.concatenate(of_name)


def _learn(
    names: pl.Series, concept: np.ndarray, hashes: np.ndarray, name: np.ndarray, pairs: Iterable[tuple[str, str]]
) -> dict[int, int]:
    """Learn the classes of words from names, and from pairs unless the names speak against them."""
    from ..text import normal_words

    counts = count_pairs(hashes, name, concept)
    words = {word for pair in counts for word in pair}
    spelled: dict[int, str] = {}
    order = np.unique(hashes, return_index=True)
    example = dict(zip(order[0].tolist(), name[order[1]].tolist(), strict=True))
    for row in sorted({example[word] for word in words}):
        for piece in normal_words(names[row]) + normal_words(names[row].replace("-", "")):
            spelled[hash_string(piece)] = piece
    chosen = choose_pairs(counts, lambda word: spelled.get(word, ""))
    for pair in pairs:
        first, second = sorted(map(hash_string, pair))
        n_same, n_both = counts.get((first, second), (0, 0))
        if n_same >= 0.5 * n_both:
            chosen[first, second] = max(chosen.get((first, second), 0), 5)
    return join_classes(chosen)


def _find_generic(hashes: np.ndarray, concept: np.ndarray, n_concepts: int) -> np.ndarray:
    words = np.unique(np.rec.fromarrays([hashes, concept], names="word,concept"))["word"]
    distinct, n = np.unique(words, return_counts=True)
    return distinct[n >= max(GENERIC_SHARE * n_concepts, LEAST_GENERIC)]


def _arrange(keys: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    distinct, entries = np.unique(keys, return_inverse=True)
    order = np.lexsort((rows, entries))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(entries, minlength=len(distinct)))])
    return distinct, offsets.astype(np.uint32), rows[order].astype(np.uint32)
