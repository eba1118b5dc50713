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
from ..ragged import KeyTable, count_offsets, list_owners, make_offsets, sum_lists, take_lists
from ..text import normalize_name
from .english import find_levels
from .initialisms import OWN_CASE_LENGTH, own_case_forms
from .languages import ENGLISH, JOINING, LINKING, Language, join_phrases
from .scan import is_among, key_names, scan_names, sum_hashes

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
        paths: list[Path] = []
        for source in sources:
            paths += _list_own("said", language) if source == PACKAGE else [Path(source)]
        searched = _read_files(paths)
        marked = _read_files(_list_own("said_if_marked", language) if PACKAGE in sources else [])
        names = [joined.split(SEPARATOR) for joined in (*searched, *marked)]
        return cls([*searched.values(), *marked.values()], names, len(searched))

    @cached_property
    def standard(self) -> list[str]:
        """All standard names, in their order."""
        return [normalize_name(name) for names in self.names for name in names]


def _list_own(kind: str, language: Language) -> list[Path]:
    """List the file that the package has for a language, if there is one."""
    return [FOLDER / language.lists[kind]] if kind in language.lists else []


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

    def take(self, numbers: np.ndarray) -> Bags:
        """Take some, in any order."""
        places, offsets = take_lists(self.offsets, numbers)
        return Bags(self.rows[numbers].astype(np.uint32), self.crossed[numbers], offsets, self.words[places])


class SaidTable(NamedTuple):
    """Phrases that stand for names of a terminology: as whole texts for linkers, as content words for matchers."""

    whole: KeyTable
    bags: Bags

    @classmethod
    def empty(cls) -> SaidTable:
        """Make a table without phrases."""
        keys = np.empty(0, dtype=np.uint64)
        rows = np.empty(0, dtype=np.uint32)
        bags = Bags(rows, np.empty((0, 2), dtype=np.uint8), make_offsets([]), keys)
        return cls(KeyTable.make(keys, rows), bags)

    @classmethod
    def build(cls, phrases: Phrases, terminology: Terminology, names: KeyTable, language: Language) -> SaidTable:
        """Find the names that phrases stand for, given the keys of all names. Left out, and counted, are phrases whose
        standard names the terminology lacks, phrases that are names, and those of many concepts."""
        row_of = _find_named(phrases, terminology, names, language)
        named = np.flatnonzero(row_of >= 0)
        lists = [phrases.phrases[number] for number in named]
        texts = [*chain.from_iterable(lists)]
        numbers = np.repeat(named, [*map(len, lists)])
        keys = key_names(texts, language).ordered
        places = np.flatnonzero((keys > 0) & (names.find(keys) < 0))
        concepts = terminology.name_concept[row_of[numbers[places]]]
        places = places[_count_concepts(keys[places], concepts) <= MOST_CONCEPTS]
        _say_used(phrases, row_of, len(places))
        rows = row_of[numbers[places]]
        searched = np.flatnonzero(numbers[places] < phrases.n_searched)
        order = searched[np.argsort(rows[searched], kind="stable")]
        ordered = [texts[place] for place in places[order]]
        return cls(KeyTable.make(keys[places], rows), _list_bags(ordered, rows[order], language))

    def moved(self, moved: np.ndarray) -> SaidTable:
        """Make the table of an edited terminology, given the new row of each name, or -1."""
        rows = moved[self.bags.rows]
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        return SaidTable(self.whole.moved(moved), self.bags._replace(rows=rows).take(order))

    def to_disk(self, folder: Path) -> None:
        """Save to a folder that has more."""
        for name, array in zip(FILES, (*self.whole, *self.bags), strict=True):
            save_array(folder / f"{name}.npy", array)

    @classmethod
    def from_disk(cls, arrays: ArrayFolder, n_names: int) -> SaidTable:
        """Load what `to_disk` saved, for a terminology of so many names."""
        whole = arrays.read_keys("said", n_names)
        rows = arrays.read_rows("said_bag_rows", n_names)
        words = arrays.read("said_bag_words", np.uint64)
        crossed = arrays.read("said_bag_crossed", np.uint8, shape=(len(rows), 2))
        offsets = arrays.read_offsets("said_bag_offsets", len(rows), len(words))
        if (rows[1:] < rows[:-1]).any():
            raise arrays.refuse("said_bag_rows", "its rows do not ascend")
        return cls(whole, Bags(rows, crossed, offsets, words))


def _find_named(phrases: Phrases, terminology: Terminology, names: KeyTable, language: Language) -> np.ndarray:
    """Find the name that the phrases of each concept stand for: its row, or -1."""
    owners = list_owners(make_offsets([*map(len, phrases.names)]))
    entries = names.find(_key_standard(phrases, language))
    row_of = np.full(len(phrases.names), -1, dtype=np.int64)
    texts = terminology.names["name"]
    canonical = terminology.concepts["canonical_name"]
    # From the last one to the first one, which stays.
    for place in np.flatnonzero(entries >= 0)[::-1].tolist():
        rows = names.rows_of(entries[place]).tolist()
        name = phrases.standard[place]
        if len(name) <= OWN_CASE_LENGTH:
            rows = [row for row in rows if not own_case_forms(texts[row]).isdisjoint(own_case_forms(name))]
        if len(rows) > 1:
            rows.sort(key=lambda row: texts[row] != canonical[int(terminology.name_concept[row])])
        if rows:
            row_of[owners[place]] = rows[0]
    return row_of


def _count_concepts(keys: np.ndarray, concept: np.ndarray) -> np.ndarray:
    """Count the concepts that have each key."""
    numbers = np.unique(keys, return_inverse=True)[1]
    n_concepts = concept.max(initial=0) + 1
    pairs = np.unique(numbers * n_concepts + concept)
    return np.bincount(pairs // n_concepts)[numbers]


def _list_bags(phrases: Sequence[str], rows: np.ndarray, language: Language) -> Bags:
    """List the words of phrases, and these again without the small ones inside, such as "is"."""
    crossed, offsets, words = _read_words(phrases, language)
    owner = list_owners(offsets)
    is_large = ~(is_among(words, language.small_hashes) | _find_beginnings(words, offsets, language))
    is_clear = _find_clear(words[is_large], owner[is_large], len(rows), language)
    # "Thyroxine" does not say what "on thyroxine" does.
    n_large = sum_lists(is_large, offsets)
    is_clear &= ~(_find_taking(phrases, language) & (n_large == 1))
    # At the ends, small words are left out anyway.
    n_before = make_offsets(is_large)[:-1] - make_offsets(n_large)[owner]
    is_inner = is_large | ((n_before > 0) & (n_before < n_large[owner]))
    inner = np.flatnonzero(is_inner & is_clear[owner])
    large = np.flatnonzero(is_large & is_clear[owner])
    numbers = np.concatenate([owner[inner], owner[large] + len(rows)])
    hashes = words[np.concatenate([inner, large])]
    bags = Bags(np.tile(rows, 2), np.tile(crossed, (2, 1)), count_offsets(numbers, 2 * len(rows)), hashes)
    sums = sum_hashes(hashes, numbers, len(bags.rows))
    order = np.lexsort((sums, bags.rows))
    order = order[np.tile(is_clear, 2)[order]]
    pairs = np.stack([bags.rows.astype(np.uint64), sums])[:, order]
    is_new = np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0))[: len(order)]
    return bags.take(order[is_new])


def _find_taking(phrases: Sequence[str], language: Language) -> np.ndarray:
    """Find the phrases that say that somebody takes something."""
    taking = join_phrases(language.taking.split())
    articles = join_phrases(language.articles.split())
    search = re.compile(rf"(?i)\b(?:{taking})\s+(?:(?:{articles})\s+)?\S+$").search
    return np.array([search(phrase) is not None for phrase in phrases], dtype=bool)


def _find_beginnings(words: np.ndarray, offsets: np.ndarray, language: Language) -> np.ndarray:
    """Find the subjects that phrases begin with, such as "I" and "he's"."""
    is_first = np.zeros(len(words), dtype=bool)
    is_first[offsets[:-1][np.diff(offsets) > 0]] = True
    begins = is_first & is_among(words, language.subject_hashes)
    is_second = np.append(False, begins[:-1]) & ~is_first
    return np.asarray(begins | (is_second & is_among(words, language.contracted_hashes)))


def _find_clear(words: np.ndarray, owner: np.ndarray, n: int, language: Language) -> np.ndarray:
    """Find the phrases that mean something by themselves: those with an uncommon word, or with two words of which one
    is no stop word, nor a number: "type 1" does not."""
    stops = language.opening_hashes, language.subject_hashes, language.contracted_hashes, language.numbered_hashes
    is_stop = np.isin(words, np.concatenate(stops))
    is_rare = (find_levels(words) >= UNCOMMON) & ~is_stop
    n_words = np.bincount(owner, minlength=n)
    n_stop = np.bincount(owner[is_stop], minlength=n)
    has_rare = np.bincount(owner[is_rare], minlength=n) > 0
    return np.asarray(has_rare | ((n_words > 1) & (n_words > n_stop)))


def _read_words(phrases: Sequence[str], language: Language) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the content words of phrases: the links and joins of each, where its words start, and their hashes."""
    hashes = [np.empty(0, dtype=np.uint64)]
    lengths = [np.empty(0, dtype=np.int64)]
    crossed = [np.empty((0, 2), dtype=np.uint8)]
    for words, offsets in scan_names(phrases, language):
        n_links = sum_lists(words.kinds >= LINKING, offsets)
        n_joins = sum_lists(words.kinds == JOINING, offsets)
        crossed.append(np.stack([n_links, n_joins], axis=1).astype(np.uint8))
        content, owner = words.list_content(offsets)
        hashes.append(content)
        lengths.append(np.bincount(owner, minlength=len(n_links)))
    return np.concatenate(crossed), make_offsets(np.concatenate(lengths)), np.concatenate(hashes)


def _say_used(phrases: Phrases, row_of: np.ndarray, n_used: int) -> None:
    if not (phrases.is_own and phrases.names):
        return
    text = f"{n_used:,} of {sum(map(len, phrases.phrases)):,} phrases stand for names of the terminology"
    unknown = [phrases.names[number][0] for number in np.flatnonzero(row_of < 0)]
    if unknown:
        examples = ", ".join(unknown[:EXAMPLES])
        text += f"; it lacks {len(unknown):,} of {len(phrases.names):,} standard names, such as {examples}"
    say(text)
