"""What people say in place of names: phrases ("waterworks infection"), each with standard names of what it means.

The package has phrases of some languages: the English ones are in said.tsv.xz, and said.md is the card of all. A line
has phrases, a tab and standard names of one concept, each joined by "|". The first of these names that a terminology
has is the one that the phrases stand for; it may be in another language. Those of said_if_marked.tsv.xz ("fell",
"rubs") mean it where somebody has marked them as a mention, and are not looked for in texts.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import ArrayFolder, save_array
from ..progress import say
from ..ragged import KeyTable, count_offsets, find_places, list_owners, make_offsets, sum_lists, take_lists
from ..text import normalize_name
from .english import find_levels
from .initialisms import OWN_CASE_LENGTH, own_case_forms
from .languages import ENGLISH, JOINING, LINKING, Language, join_phrases
from .scan import key_names, scan_names

if TYPE_CHECKING:
    from ..terminology.table import Terminology

FOLDER = Path(__file__).parent
# What stands for the phrases of the package among files of phrases.
PACKAGE = "package"
SEPARATOR = "|"
# Examples of what is left out, in messages.
EXAMPLES = 3
FILES = (
    "said_keys",
    "said_offsets",
    "said_rows",
    "said_bag_rows",
    "said_bag_crossed",
    "said_bag_offsets",
    "said_bag_words",
)
# Phrases of more concepts are left out.
MOST_CONCEPTS = 2
# A word of this level, or a rarer one, means something by itself: "bloated".
UNCOMMON = 40


@dataclass(frozen=True, eq=False)
class Phrases:
    """Phrases and standard names of concepts, as they are read."""

    phrases: list[list[str]] = field(default_factory=list)  # of each concept
    names: list[list[str]] = field(default_factory=list)
    n_searched: int = 0  # concepts whose phrases are looked for in texts: the first ones
    is_own: bool = True  # from a user, who is told how many of them can be used

    @classmethod
    def read(cls, sources: Sequence[str | Path], language: Language = ENGLISH) -> Phrases:
        """Read files of phrases, and those that the package has for a language: none for most."""
        own = {kind: [FOLDER / language.lists[kind]] for kind in ("said", "said_if_marked") if kind in language.lists}
        paths = ([Path(source)] if source != PACKAGE else own.get("said", []) for source in sources)
        searched = _read_files([*chain.from_iterable(paths)])
        marked = _read_files(own.get("said_if_marked", []) if PACKAGE in sources else [])
        names = [of.split(SEPARATOR) for of in (*searched, *marked)]
        return cls([*searched.values(), *marked.values()], names, len(searched))

    @cached_property
    def standard(self) -> list[str]:
        """All standard names, in their order."""
        return [normalize_name(name) for names in self.names for name in names]


@cache
def read_package(language: Language) -> Phrases:
    """Read the phrases that the package has for a language."""
    return replace(Phrases.read([PACKAGE], language), is_own=False)


@lru_cache(4)
def _key_standard(phrases: Phrases, language: Language) -> np.ndarray:
    """Make the keys of standard names. Those of the package are asked for by each terminology."""
    return key_names(phrases.standard, language).ordered


def _read_files(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Read the phrases of files by the standard names of their concepts."""
    of_names: dict[str, list[str]] = {}
    for path in paths:
        for phrases, names in _read_file(path):
            of_names.setdefault(names, []).extend(phrases.split(SEPARATOR))
    return of_names


def _read_file(path: Path) -> Iterator[tuple[str, str]]:
    data = path.read_bytes()
    try:
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8-sig")
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise ValueError(f"The file of phrases {path} can't be read: {error}. Save it as text in UTF-8.") from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line[0] == "#":
            continue
        phrases, *names = line.split("\t")
        if not names or not phrases.strip() or not names[0].strip():
            raise ValueError(
                f"Line {number} of {path} is {line[:80]!r}, but has to be a phrase, a tab, and the standard name of "
                "what it means."
            )
        # Behind the second tab, tables may have notes.
        yield phrases, names[0]


class Bags(NamedTuple):
    """What the matcher looks for."""

    rows: np.ndarray  # of the name of each, sorted
    crossed: np.ndarray  # the links and joins among its words; uint8, shape (rows, 2)
    offsets: np.ndarray  # where its words start
    words: np.ndarray  # their hashes; uint64


class SaidTable(NamedTuple):
    """Phrases that stand for names of a terminology: as whole texts for linkers, as content words for matchers."""

    whole: KeyTable
    bags: Bags

    @classmethod
    def empty(cls) -> SaidTable:
        """Make a table without phrases."""
        keys, rows = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
        bags = Bags(rows, np.empty((0, 2), dtype=np.uint8), make_offsets([]), keys)
        return cls(KeyTable.make(keys, rows), bags)

    @classmethod
    def build(cls, phrases: Phrases, terminology: Terminology, names: KeyTable, language: Language) -> SaidTable:
        """Find the names that phrases stand for, given the keys of all names. Left out, and counted, are phrases whose
        standard names the terminology lacks, phrases that are names, and those of many concepts."""
        named = _find_named(phrases, terminology, names, language)
        known = np.flatnonzero(named >= 0)
        texts = [text for of in known for text in phrases.phrases[of]]
        of_concept = np.repeat(known, [len(phrases.phrases[of]) for of in known])
        row = named[of_concept]
        keys = key_names(texts, language).ordered
        places = np.flatnonzero((keys > 0) & (names.find(keys) < 0))
        keys = keys[places]
        is_clear = _count_concepts(keys, terminology.name_concept[row[places]]) <= MOST_CONCEPTS
        keys, places = keys[is_clear], places[is_clear]
        _say_used(phrases, named, len(places))
        rows = row[places]
        searched = np.flatnonzero(of_concept[places] < phrases.n_searched)
        order = searched[np.argsort(rows[searched], kind="stable")]
        return cls(
            KeyTable.make(keys, rows),
            _list_bags([texts[place] for place in places[order].tolist()], rows[order], language),
        )

    def moved(self, moved: np.ndarray) -> SaidTable:
        """Make the table of an edited terminology, given the new row of each name, or -1."""
        rows = moved[self.bags.rows]
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        places, offsets = take_lists(self.bags.offsets, order)
        crossed, words = self.bags.crossed[order], self.bags.words[places]
        return SaidTable(self.whole.moved(moved), Bags(rows[order].astype(np.uint32), crossed, offsets, words))

    def to_disk(self, folder: Path) -> None:
        """Save to a folder that has more."""
        for name, array in zip(FILES, (*self.whole, *self.bags), strict=True):
            save_array(folder / f"{name}.npy", array)

    @classmethod
    def from_disk(cls, arrays: ArrayFolder, n_names: int) -> SaidTable:
        """Load what `to_disk` saved, for a terminology of so many names."""
        whole = arrays.read_keys("said", n_names)
        rows, words = arrays.read_rows("said_bag_rows", n_names), arrays.read("said_bag_words", np.uint64)
        crossed = arrays.read("said_bag_crossed", np.uint8, shape=(len(rows), 2))
        offsets = arrays.read_offsets("said_bag_offsets", len(rows), len(words))
        if (rows[1:] < rows[:-1]).any():
            raise arrays.refuse("said_bag_rows", "its rows do not ascend")
        return cls(whole, Bags(rows, crossed, offsets, words))


def _find_named(phrases: Phrases, terminology: Terminology, names: KeyTable, language: Language) -> np.ndarray:
    """Find the name that the phrases of each concept stand for: its row, or -1."""
    owner = np.repeat(np.arange(len(phrases.names)), [*map(len, phrases.names)])
    entries = names.find(_key_standard(phrases, language))
    places = np.flatnonzero(entries >= 0)
    entries = entries[places]
    row_of = np.full(len(phrases.names), -1, dtype=np.int64)
    texts, canonical = terminology.names["name"], terminology.concepts["canonical_name"]
    # From the last one to the first one, which stays.
    for place, entry in zip(places[::-1].tolist(), entries[::-1].tolist(), strict=True):
        rows, name = names.rows_of(entry).tolist(), phrases.standard[place]
        if len(name) <= OWN_CASE_LENGTH:
            rows = [row for row in rows if not own_case_forms(texts[row]).isdisjoint(own_case_forms(name))]
        if len(rows) > 1:
            rows.sort(key=lambda row: texts[row] != canonical[int(terminology.name_concept[row])])
        if rows:
            row_of[owner[place]] = rows[0]
    return row_of


def _count_concepts(keys: np.ndarray, concept: np.ndarray) -> np.ndarray:
    """Count the concepts that have each key."""
    order = np.lexsort((concept, keys))
    keys, concept = keys[order], concept[order]
    is_key = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    is_new = is_key | (np.diff(concept, prepend=-1) != 0)
    group = np.cumsum(is_key) - 1
    counts = np.empty(len(keys), dtype=np.int64)
    counts[order] = np.bincount(group, is_new).astype(np.int64)[group]
    return counts


def _list_bags(phrases: Sequence[str], rows: np.ndarray, language: Language) -> Bags:
    """List the words of phrases, and these again without the small ones inside, such as "is"."""
    crossed, offsets, words = _read_words(phrases, language)
    owner = list_owners(offsets)
    is_small = (find_places(language.small_hashes, words) >= 0) | _find_beginnings(words, offsets, language)
    is_clear = _find_clear(words[~is_small], owner[~is_small], len(rows), language)
    # At the ends, small words are left out anyway.
    n_kept = np.cumsum(~is_small)
    before, behind = np.append(0, n_kept)[offsets[:-1]], np.append(0, n_kept)[offsets[1:]]
    # "Thyroxine" does not say what "on thyroxine" does.
    taking, articles = (join_phrases(of.split()) for of in (language.taking, language.articles))
    find_taken = re.compile(rf"(?i)\b(?:{taking})\s+(?:(?:{articles})\s+)?\S+$").search
    is_taken = np.array([find_taken(phrase) is not None for phrase in phrases], dtype=bool)
    is_clear &= ~(is_taken & (behind - before == 1))
    is_inner = (n_kept > before[owner]) & ((n_kept < behind[owner]) | ~is_small)
    inner, kept = (np.flatnonzero(which & is_clear[owner]) for which in (is_inner, ~is_small))
    place, number = np.concatenate([inner, kept]), np.concatenate([owner[inner], owner[kept] + len(rows)])
    words, rows, crossed = words[place], np.concatenate([rows, rows]), np.concatenate([crossed, crossed])
    sums = np.zeros(len(rows), dtype=np.uint64)
    np.add.at(sums, number, words)
    order = np.lexsort((sums, rows))
    order = order[np.concatenate([is_clear, is_clear])[order]]
    is_new = np.append(True, (np.diff(rows[order]) != 0) | (np.diff(sums[order]) != 0))[: len(order)]
    order = order[is_new]
    places, taken = take_lists(count_offsets(number, len(rows)), order)
    return Bags(rows[order].astype(np.uint32), crossed[order], taken, words[places])


def _find_beginnings(words: np.ndarray, offsets: np.ndarray, language: Language) -> np.ndarray:
    """Find the subjects that phrases begin with, such as "I" and "he's"."""
    is_subject = find_places(language.subject_hashes, words) >= 0
    is_contracted = find_places(language.contracted_hashes, words) >= 0
    is_first = np.zeros(len(words), dtype=bool)
    is_first[offsets[:-1][np.diff(offsets) > 0]] = True
    begins = is_first & is_subject
    goes_on = np.append(False, begins[:-1]) & ~is_first & is_contracted
    result: np.ndarray = begins | goes_on
    return result


def _find_clear(words: np.ndarray, owner: np.ndarray, n: int, language: Language) -> np.ndarray:
    """Find the phrases that mean something by themselves: those with an uncommon word, or with two words of which one
    is no stop word, nor a number: "type 1" does not."""
    stops = language.opening_hashes, language.subject_hashes, language.contracted_hashes, language.numbered_hashes
    is_stop = np.isin(words, np.concatenate(stops))
    is_rare = (find_levels(words) >= UNCOMMON) & ~is_stop
    n_words, n_rare, n_stop = (np.bincount(owner, of, minlength=n) for of in (np.ones(len(words)), is_rare, is_stop))
    is_clear: np.ndarray = (n_rare > 0) | ((n_words > 1) & (n_words > n_stop))
    return is_clear


def _read_words(phrases: Sequence[str], language: Language) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the content words of phrases: the links and joins of each, where its words start, and their hashes."""
    hashes = [np.empty(0, dtype=np.uint64)]
    lengths = [np.empty(0, dtype=np.int64)]
    crossed = [np.empty((0, 2), dtype=np.uint8)]
    for words, offsets in scan_names(phrases, language):
        is_link, is_join = words.kinds >= LINKING, words.kinds == JOINING
        crossed.append(np.stack([sum_lists(which, offsets) for which in (is_link, is_join)], axis=1).astype(np.uint8))
        content, owner = words.list_content(offsets)
        hashes.append(content)
        lengths.append(np.bincount(owner, minlength=len(offsets) - 1))
    return np.concatenate(crossed), make_offsets(np.concatenate(lengths)), np.concatenate(hashes)


def _say_used(phrases: Phrases, named: np.ndarray, n_used: int) -> None:
    unknown = [phrases.names[place][0] for place in np.flatnonzero(named < 0).tolist()]
    lacking = f"; it lacks {len(unknown):,} of {len(named):,} standard names, such as {', '.join(unknown[:EXAMPLES])}"
    n_phrases = sum(map(len, phrases.phrases))
    if phrases.is_own and len(named):
        say(f"{n_used:,} of {n_phrases:,} phrases stand for names of the terminology{lacking * bool(unknown)}")
