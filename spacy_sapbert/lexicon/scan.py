"""Texts as words: the only reader of names, mentions and documents.

A scan has a row for each word, in its normal form, and for each sign that makes another name. What compares names by
all words in their order, by the words of content in any order, or by numbers and letters, looks at the same rows.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..columns import CHUNK, TextColumn, Texts, read_chunks
from ..progress import show_progress
from ..ragged import (
    TokenLists,
    as_hashes,
    find_places,
    list_owners,
    make_offsets,
    sum_lists,
    take_lists,
)
from ..splitting import join_texts, number_parts, read_columns
from ..text import (
    CACHED,
    NUMERALS_AFTER_WORDS,
    list_marks,
    normal_words,
    normalize_name,
    normalize_writing,
    strip_accents,
    write_plainly,
)
from .languages import (
    CONTENT,
    ENGLISH,
    JOINING,
    LETTERED,
    LINKING,
    Language,
    Piece,
    get_reader,
    write_letters,
)

# Invisible format characters belong to the word around them, as marks do.
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
# Each Han character and each hiragana is a word: no spaces say where words end.
_ALONE = "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Signs that make another name: "ER+" and "ER-", "(+)-catechin", "<140", "-5", and the prime of "4'-hydroxy". A dash is
# one before a digit, in brackets, and behind a capital or a digit where no word goes on, also in the next line.
_SIGN = (
    r"[+<>≤≥±]|[-−–](?:(?<=[A-Z0-9].)(?!\w|[^\S\n]*\n[^\S\n]*[A-Z]{2})|(?<!\w.)(?=\d)|(?<=[(\[].)(?=[)\]]))|"
    r"['’′](?<=\d.)"
)
# Where spaCy finds no punctuation behind such characters, it is in the word's token.
INVISIBLE = re.compile(rf"[{_INVISIBLE}]+[^\w\s]*")

# What stands before a word: the end of what a name may cover, what the name has as well, and what joins; and the full
# stop of an ordinal number, which ends nothing.
END, LINK, HYPHEN, JOIN, BRACKET, DOTTED = 1, 2, 4, 8, 16, 32
_END = re.compile(r"[.:;!?]\s|[。！？；：؟۔।]|[{}\t]|\n\s*\n|\n\s*[-*•–]")
_BRACKET = re.compile(r"[()\[\]]")
# A bracket counts for more links than a text has commas, so that only a name with a bracket goes on behind one.
BRACKETED = 1 << 32
_ORDINAL = re.compile(r"\d{1,2}")
_WEAK = re.compile(r"[\s'’\-‐‑–]*")
# A word may be cut at the end of a line.
_HYPHEN = re.compile(r"[-‐‑](?:[^\S\n]*\n\s*)?")
# Characters of a line that ends where the next one begins, and not before.
_WRAPPED = 50
# Words whose ends or beginnings others have: "Herz- und", "oder -unterfunktion".
_CUT, _CUT_BEFORE = re.compile(r"[-‐‑],?\s+"), re.compile(r"\s+[-‐‑]")
_JOINING = re.compile(r"\s*[/&]\s*")
_BLANK_LINE = re.compile(r"\n\s*\n")
# What names are written with or without. Anything else between two words has to be in the name as well.
_WEAK_GAP = re.compile(r"[\s'\-]*")
# Texts of more characters are not remembered.
MOST_CACHED = 200
# Stands between texts that are read as one, and no name crosses it.
BETWEEN = "\n\n"
Place = tuple[int, int]  # start and end in characters

# Kinds of bytes. Nothing depends on closing punctuation behind a word, nor on opening punctuation before it.
_OTHER, _BLANK, _ALPHANUMERIC, _CLOSING, _OPENING = range(5)
_BYTE_KINDS = np.full(256, _OTHER, dtype=np.uint8)
_BYTE_KINDS[[*b" \n"]] = _BLANK
_BYTE_KINDS[[*f"{string.digits}{string.ascii_letters}".encode()]] = _ALPHANUMERIC
_BYTE_KINDS[[*b",;:)]"]] = _CLOSING
_BYTE_KINDS[[*b"(["]] = _OPENING

# The key of words a, b, c is (a * MULTIPLIER + b) * MULTIPLIER + c, modulo 2^64. Any large odd number does.
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# "C5-deficient" is what has a deficiency of C5.
_DEFICIENT, _DEFICIENCY = (np.uint64(hash_string(word)) for word in ("deficient", "deficiency"))


# The "s" of "Crohn 's", as texts have it that are split into words.
_NOTHING = Piece((), (), CONTENT)


class Reading(NamedTuple):
    """The content words of a text, one row each. The last four columns only grow: where two words have the same number,
    there is nothing of the kind between them."""

    hashes: np.ndarray  # of normal forms; uint64
    starts: np.ndarray  # in characters
    ends: np.ndarray
    # Where the part of another word is that it stands for as well: "Herz-" in "Herz- und Niereninsuffizienz"; or -1.
    other_starts: np.ndarray
    other_ends: np.ndarray
    segment: np.ndarray  # ends of sentences
    links: np.ndarray  # commas, "with", joins, and brackets, which count as `BRACKETED` each
    joins: np.ndarray  # "and", "or", slashes
    skipped: np.ndarray  # words without content


class Words(NamedTuple):
    """Words and signs, one row each."""

    hashes: np.ndarray  # of normal forms; uint64
    kinds: np.ndarray  # CONTENT, FUNCTION, LINKING or JOINING
    gaps: np.ndarray  # what stands before it
    marks: np.ndarray  # the hash of punctuation before it that names have as well, or 0; uint64

    def take(self, rows: np.ndarray) -> Words:
        """Take some rows."""
        return Words(*(column[rows] for column in self))

    def make_keys(self, offsets: np.ndarray) -> np.ndarray:
        """Make the keys of texts by all their words, in their order, and the punctuation between these; 0 for a text
        without words. `offsets` says where the rows of each start."""
        marks, powers, of_marks = self._weigh(offsets)
        values = self.hashes * powers + marks * of_marks
        return sum_lists(values.view(np.int64), offsets).view(np.uint64)

    def make_powers(self, offsets: np.ndarray) -> np.ndarray:
        """Make what the hash of each word is multiplied by in the key of its text."""
        return self._weigh(offsets)[1]

    def _weigh(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        marks = self.marks.copy()
        # What stands before the first word does not count.
        marks[offsets[:-1][np.diff(offsets) > 0]] = 0
        ends = np.cumsum(1 + (marks > 0))
        last = np.append(0, ends)[offsets[1:]]
        n_after = np.repeat(last, np.diff(offsets)) - ends
        powers = np.cumprod(np.append(np.uint64(1), np.full(n_after.max(initial=0) + 1, MULTIPLIER)))
        return marks, powers[n_after], powers[n_after + 1]

    def make_turned_keys(self, offsets: np.ndarray) -> np.ndarray:
        """Make the keys of texts by all their words, in any order, without punctuation."""
        return sum_lists(self.hashes.view(np.int64), offsets).view(np.uint64)

    def list_content(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the hashes of content words, and the number of the text that each is of."""
        is_content = self.kinds == CONTENT
        return name_deficiency(self.hashes[is_content]), list_owners(offsets)[is_content]


class Scan(NamedTuple):
    """The words and signs of a text, and where they are."""

    language: Language
    # Gaps, and words or signs, in turn: the gap before the first, the first, and so on.
    pieces: list[str]
    words: Words
    number: np.ndarray  # of the piece that each word is in
    starts: np.ndarray  # in characters
    ends: np.ndarray
    other_starts: np.ndarray  # of parts of other words, as a reading has them
    other_ends: np.ndarray

    def read_content(self, vocabulary: np.ndarray | None = None) -> Reading:
        """Read the words of content. Two words with a hyphen between them are one word if `vocabulary`, sorted hashes,
        has that."""
        joined = self
        if vocabulary is not None and len(vocabulary):
            joined = self._complete(vocabulary)._join_hyphens(vocabulary)
        hashes, kinds, gaps, _ = joined.words
        is_content = kinds == CONTENT
        joins = np.cumsum(((gaps & JOIN) > 0) | (kinds == JOINING))
        links = joins + np.cumsum(((gaps & LINK) > 0) | (kinds == LINKING))
        links += BRACKETED * np.cumsum((gaps & BRACKET) > 0)
        counts = np.cumsum(gaps & END), links, joins, np.cumsum(~is_content)
        columns = name_deficiency(hashes), *joined[-4:], *counts
        return Reading(*(column[is_content] for column in columns))

    def _join_hyphens(self, vocabulary: np.ndarray) -> Scan:
        """Join words with a hyphen between them that are one word."""
        hashes = self.words.hashes.copy()
        ends = self.ends.copy()
        is_left = np.ones(len(hashes), dtype=bool)
        rows = np.flatnonzero(self.words.gaps == HYPHEN)
        numbers = self.number[rows].tolist()
        ways = [(self.pieces[2 * number - 1], self.pieces[2 * number + 1]) for number in numbers]
        for hit, key in self._find_joined(ways, vocabulary):
            row = rows[hit]
            number = numbers[hit]
            before, end = np.searchsorted(self.number, (number - 1, number + 1)).tolist()
            if before < row and self.words.kinds[before] == CONTENT and is_left[before]:
                hashes[before] = key
                ends[before] = ends[row]
                is_left[before + 1 : end] = False
        words = self.words._replace(hashes=hashes).take(is_left)
        columns = (column[is_left] for column in self._replace(ends=ends)[-5:])
        return Scan(self.language, self.pieces, words, *columns)

    def _find_joined(self, ways: Sequence[tuple[str, str]], vocabulary: np.ndarray) -> Iterator[tuple[int, int]]:
        """Find pairs of parts that are one word of a vocabulary: their places, and the hashes of these words."""
        hashes = as_hashes(_hash_joined(self.language, *way) for way in ways)
        places = np.flatnonzero((hashes > 0) & is_among(hashes, vocabulary))
        return zip(places.tolist(), hashes[places].tolist(), strict=True)

    def _complete(self, vocabulary: np.ndarray) -> Scan:
        """Complete words whose end or beginning a coordinated word has: "Herz-" is "Herzinsuffizienz" in "Herz- und
        Niereninsuffizienz"."""
        hashes = self.words.hashes.copy()
        starts, ends, *others = map(np.copy, self[-4:])
        for join in self.number[self.words.kinds == JOINING].tolist():
            for piece, other, ways in _list_ways(self.pieces, 2 * join + 1):
                row, until, of_other = np.searchsorted(self.number, np.array((piece, piece + 2, other)) // 2)
                if until - row != 1:
                    continue
                for hit, key in islice(self._find_joined([way[:2] for way in ways], vocabulary), 1):
                    hashes[row] = key
                    for column, place in zip(others, ways[hit][2:], strict=True):
                        column[row] = self.starts[of_other] + place
                    # With the hyphen.
                    starts[row] -= piece > other
                    ends[row] += piece < other
        words = self.words._replace(hashes=hashes)
        return Scan(self.language, self.pieces, words, self.number, starts, ends, *others)


def scan(text: str, language: Language = ENGLISH) -> Scan:
    """Read a text. Case, number, possessive and British spelling make no difference, nor do decomposed letters and
    invisible characters. Where words are not English, spelling counts."""
    text = write_plainly(text)
    pieces, read = _read_pieces(text, language)
    words = pieces[1::2]
    before = pieces[:-1:2]
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends = np.cumsum(lengths)[1::2]
    starts = ends - lengths[1::2]
    gaps = np.fromiter(map(_read_gap, before), np.int64, len(before))
    gaps[_find_new_lines(text, words, before, starts)] |= END
    if language.dotted_ordinals:
        # The full stop of "2. Zehe" ends nothing.
        dotted = [place for place, gap in enumerate(before) if gap == ". " and place]
        gaps[[place for place in dotted if _ORDINAL.fullmatch(words[place - 1])]] = DOTTED
    n_words = [len(piece.hashes) for piece in read]
    number = np.repeat(np.arange(len(read)), n_words)
    hashes = as_hashes(chain.from_iterable(piece.hashes for piece in read))
    kinds = np.fromiter((piece.kind for piece in read), np.int64, len(read))
    marks = np.zeros(len(before), dtype=np.uint64)
    marked = np.flatnonzero(gaps & ~HYPHEN)
    marks[marked] = [_hash_gap(before[place]) for place in marked.tolist()]
    begins = np.diff(number, prepend=-1) > 0
    rows = Words(hashes, kinds[number], gaps[number] * begins, marks[number] * begins)
    others = np.full((2, len(number)), -1)
    return Scan(language, pieces, rows, number, starts[number], ends[number], *others)


def find_compounds(hashes: np.ndarray, language: Language) -> np.ndarray:
    """Find the words that make a compound with the next one: "eye brow"."""
    return np.flatnonzero(is_among(hashes[:-1] * MULTIPLIER + hashes[1:], _list_compounds(language)))


@cache
def _list_compounds(language: Language) -> np.ndarray:
    pairs = (f"{first} {other}" for first, others in language.compounds.items() for other in others.split())
    return np.unique(key_texts([*pairs], language))


def has_lone_characters(text: str, start: int, end: int) -> bool:
    """Check if a part of a text has characters that are words."""
    return _get_lone().search(text, start, end) is not None


# Both are compiled at first use, because spaCy imports this module whenever it makes a pipeline.
@cache
def _get_lone() -> re.Pattern[str]:
    return re.compile(f"[{_ALONE}]")


@cache
def _get_piece() -> re.Pattern[str]:
    """Get what finds a word or a sign; it splits a text into gaps and pieces."""
    letter = rf"[^\W_{_ALONE}]"
    marked = rf"(?:[{_ALONE}]|{letter}+)(?:[{list_marks()}{_INVISIBLE}]+{letter}*)*"
    possessive = r"(?:['’´′＇][sSｓＳ](?![^\W_]))?"
    return re.compile(f"({marked}{possessive}|{_SIGN})")


def _read_pieces(text: str, language: Language) -> tuple[list[str], list[Piece]]:
    """Split a text into gaps and pieces in turn, and read the pieces."""
    pieces = _get_piece().split(text)
    words = pieces[1::2]
    gaps = pieces[:-1:2]
    read = [*map(get_reader(language), words)]
    for place in [place for place, word in enumerate(words) if len(word) < 3]:
        is_first = place == 0 or BETWEEN in gaps[place]
        before = "" if is_first else words[place - 1]
        read[place] = _read_short(words[place], before, gaps[place], language)
    return pieces, read


def scan_many(texts: Sequence[str], language: Language = ENGLISH) -> tuple[Scan, np.ndarray]:
    """Read texts as one, which is faster: their words, and where those of each start."""
    scanned = scan(BETWEEN.join(texts), language)
    first = make_offsets([len(text) + len(BETWEEN) for text in texts])
    return scanned, np.searchsorted(scanned.starts, first)


def key_texts(texts: Sequence[str], language: Language = ENGLISH) -> np.ndarray:
    """Make the keys of texts by all their words, in their order."""
    scanned, offsets = scan_many(texts, language)
    return scanned.words.make_keys(offsets)


def make_turned_keys(texts: Sequence[str], language: Language = ENGLISH) -> np.ndarray:
    """Make the keys of texts by all their words, in any order, without punctuation."""
    scanned, offsets = scan_many(texts, language)
    return scanned.words.make_turned_keys(offsets)


def read_content(
    texts: Sequence[str], vocabulary: np.ndarray | None = None, language: Language = ENGLISH
) -> tuple[np.ndarray, np.ndarray]:
    """Read the content words of texts, each by itself: their hashes, and the number of the text that each is of."""
    first = np.cumsum([0, *(len(text) + len(BETWEEN) for text in texts)])
    reading = scan(BETWEEN.join(texts), language).read_content(vocabulary)
    return reading.hashes, np.searchsorted(first, reading.starts, side="right") - 1


def list_words(text: str, language: Language = ENGLISH) -> tuple[str, ...]:
    """List the normal forms of a text's words, without signs."""
    words: list[str] = []
    for part in text.split():
        of_part = _list_part(language, part)
        if of_part is None:
            return (_list_cached if len(text) <= MOST_CACHED else _list_whole)(language, text)
        words += of_part
    return tuple(words)


@lru_cache(CACHED)
def _list_part(language: Language, part: str) -> tuple[str, ...] | None:
    """List the words between two spaces; None if they depend on the text around."""
    return None if _is_open(part, language) else _list_whole(language, part)


def _list_whole(language: Language, text: str) -> tuple[str, ...]:
    _, pieces = _read_pieces(write_plainly(text), language)
    return tuple(chain.from_iterable(piece.words for piece in pieces if "".join(piece.words)[:1].isalnum()))


_list_cached = lru_cache(CACHED)(_list_whole)


def scan_names(names: Texts, language: Language = ENGLISH) -> Iterator[tuple[Words, np.ndarray]]:
    """Read many names, `CHUNK` at a time: their words, and where those of each start. Millions of names have few parts
    between spaces, which are read once. Where parts depend on one another, the name is read as a whole."""
    parts, numbers = number_parts(names, _find_punctuation)
    of_parts = _read_parts(parts, language)
    for texts, block in zip(read_columns(names), numbers.split(CHUNK), strict=True):
        yield _join_parts(of_parts, block, texts, language)


def _find_punctuation(data: np.ndarray) -> np.ndarray:
    """Find where punctuation meets a word on one side and has a space, or the end of a line, on the other: "(acute",
    "acute),"."""
    kinds = _BYTE_KINDS[data]
    # What stands before the first byte is what stands behind the last one: the end of a line.
    starts, ends = _find_runs(kinds == _CLOSING)
    closing = starts[(kinds[starts - 1] == _ALPHANUMERIC) & (kinds[ends] == _BLANK)]
    starts, ends = _find_runs(kinds == _OPENING)
    opening = ends[(kinds[starts - 1] == _BLANK) & (kinds[ends] == _ALPHANUMERIC)]
    return np.concatenate([closing, opening])


def _find_runs(is_kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find where runs of bytes start and end."""
    changes = np.flatnonzero(np.diff(is_kind, prepend=False))
    return changes[::2], changes[1::2]


class Keys(NamedTuple):
    """The keys of names; 0 for those without words."""

    ordered: np.ndarray  # by all their words in their order, with punctuation
    turned: np.ndarray  # by the same words in any order, without


def key_names(names: Texts, language: Language = ENGLISH) -> Keys:
    """Make the keys of many names."""
    ordered = [np.empty(0, dtype=np.uint64)]
    turned = [np.empty(0, dtype=np.uint64)]
    for words, offsets in scan_names(names, language):
        ordered.append(words.make_keys(offsets))
        turned.append(words.make_turned_keys(offsets))
    return Keys(np.concatenate(ordered), np.concatenate(turned))


class _Parts(NamedTuple):
    """Parts of names, as they are read by themselves."""

    words: Words
    offsets: np.ndarray  # where the words of each start
    gaps: np.ndarray  # of parts that are punctuation: what they are between two words
    marks: np.ndarray
    is_open: np.ndarray  # whether the parts around it decide as well


def _read_parts(parts: list[str], language: Language) -> _Parts:
    chunks: list[_Parts] = []
    with show_progress(total=len(parts), description="Reading the words of names", unit="words") as progress:
        for texts in chain([[]], read_chunks(parts)):
            chunks.append(_read_chunk(texts, language))
            progress.update(len(texts))
    words = Words(*join_columns(chunk.words for chunk in chunks))
    offsets = make_offsets(np.concatenate([np.diff(chunk.offsets) for chunk in chunks]))
    return _Parts(words, offsets, *join_columns(chunk[2:] for chunk in chunks))


def _read_chunk(texts: list[str], language: Language) -> _Parts:
    scanned, offsets = scan_many(texts, language)
    n_words = np.diff(offsets)
    filled = np.flatnonzero(n_words)
    firsts = offsets[filled]
    for column in (scanned.words.gaps, scanned.words.marks):
        column[firsts] = 0
    # Punctuation at either end goes on in the next part.
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    starts = make_offsets(lengths + len(BETWEEN))[:-1]
    is_bare = scanned.starts[firsts] == starts[filled]
    is_bare &= scanned.ends[offsets[filled + 1] - 1] == (starts + lengths)[filled]
    depends = (_is_open(text, language) or text.split() != [text] for text in texts)
    is_open = np.fromiter(depends, bool, len(texts))
    is_open[filled] |= ~is_bare
    alone = [f" {text} " if n == 0 else " " for text, n in zip(texts, n_words.tolist(), strict=True)]
    gaps = np.array([*map(_read_gap, alone)], dtype=np.int64)
    marks = as_hashes(map(_hash_gap, alone))
    return _Parts(scanned.words, offsets, gaps, marks, is_open)


def _is_open(part: str, language: Language) -> bool:
    """Check if a part has words that others decide about."""
    return _find_open(language)(strip_accents(write_letters(part).lower())) is not None


@cache
def _find_open(language: Language) -> Callable[[str], re.Match[str] | None]:
    """Get what finds words in a part that others decide about: numerals, letters, and the "s" of "Crohn 's"."""
    letters = (word for word in language.word_kinds if len(word) == 1)
    words = {*NUMERALS_AFTER_WORDS, *letters, *language.possessives.split()}
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(sorted(words))})(?![^\W_])", re.IGNORECASE).search


def _join_parts(
    of_parts: _Parts, numbers: TokenLists, names: TextColumn, language: Language
) -> tuple[Words, np.ndarray]:
    """Put the words of names together from those of their parts."""
    rows, starts = take_lists(of_parts.offsets, numbers.ids)
    words = of_parts.words.take(rows)
    is_punctuation = np.diff(starts) == 0
    behind = np.flatnonzero(is_punctuation[:-1] & ~is_punctuation[1:]) + 1
    words.gaps[starts[behind]] = of_parts.gaps[numbers.ids[behind - 1]]
    words.marks[starts[behind]] = of_parts.marks[numbers.ids[behind - 1]]
    is_open = of_parts.is_open[numbers.ids]
    # Punctuation of two parts is one.
    is_open[1:] |= is_punctuation[1:] & is_punctuation[:-1]
    whole = np.flatnonzero(_has_writing(names) | (sum_lists(is_open, numbers.offsets) > 0))
    scanned, of_whole = scan_many(names[whole].to_list(), language)
    offsets = starts[numbers.offsets]
    offsets = np.concatenate([offsets, offsets[-1] + of_whole[1:]])
    of_names = np.arange(len(names))
    of_names[whole] = len(names) + np.arange(len(whole))
    rows, offsets = take_lists(offsets, of_names)
    both = Words(*join_columns([words, scanned.words]))
    return both.take(rows), offsets


def _has_writing(names: TextColumn) -> np.ndarray:
    """Tell which names may have entities, or plurals in brackets, which are read with what is around them."""
    texts = join_texts(names)
    is_entity = texts.data == ord("&")
    is_plural = (texts.data[:-1] == ord("s")) & (texts.data[1:] == ord(")"))
    places = np.concatenate([np.flatnonzero(is_entity), np.flatnonzero(is_plural)])
    has_writing = np.zeros(len(names), dtype=bool)
    has_writing[texts.find_owners(places)] = True
    return has_writing


def is_among(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Tell which hashes are those of words, which are sorted."""
    return np.asarray(find_places(words, hashes) >= 0)


def sum_hashes(hashes: np.ndarray, owners: np.ndarray, n: int) -> np.ndarray:
    """Add up the hashes of each of `n` texts or names, modulo 2^64, given the number of each one's owner."""
    sums = np.zeros(n, dtype=np.uint64)
    np.add.at(sums, owners, hashes)
    return sums


def join_columns(tables: Iterable[Iterable[np.ndarray]]) -> list[np.ndarray]:
    """Join the columns of several tables."""
    return [np.concatenate(columns) for columns in zip(*tables, strict=True)]


def name_deficiency(hashes: np.ndarray) -> np.ndarray:
    """Take "deficient" for "deficiency"."""
    return np.where(hashes == _DEFICIENT, _DEFICIENCY, hashes)


def _read_short(word: str, before: str, gap: str, language: Language) -> Piece:
    """Read a short word again, which may be a numeral or the name of a type behind another: "factor V", "type A"."""
    if word.lower() in language.possessives.split() and gap in (" '", " ’"):
        return _NOTHING
    return _read_behind(language, word, before)


@lru_cache(CACHED)
def _read_behind(language: Language, word: str, before: str) -> Piece:
    alone = get_reader(language)(word)
    small = strip_accents(write_letters(word).lower())
    is_numeral = small in NUMERALS_AFTER_WORDS
    if not is_numeral and alone.kind == CONTENT:
        return alone
    words = alone.words
    if is_numeral:
        # "faktoru V" and "Klasse I": behind the word or its base form.
        behind = (normal_words(word, one) for one in (before, language.to_singular(before)))
        words = next((words for words in behind if words != (small,)), (small,))
    if alone.kind != CONTENT and words == (small,):
        # In a text in capitals, some languages have more words of one letter than names have letters.
        is_capitals = bool(language.single_letters) and len(before) > 1 and before.isupper()
        is_letter = before.lower() in LETTERED or (word.isupper() and not is_capitals)
        if len(small) > 1 or not is_letter:
            return alone
    return Piece(words, tuple(map(hash_string, words)), CONTENT)


@lru_cache(CACHED)
def _read_gap(gap: str) -> int:
    if gap == " ":
        return 0
    if not gap.isascii() and not _END.search(gap):
        gap = write_letters(gap)
    if _END.search(gap):
        return END
    if _BRACKET.search(gap):
        return BRACKET
    if _HYPHEN.fullmatch(gap):
        return HYPHEN
    if _JOINING.fullmatch(gap):
        return JOIN
    return 0 if _WEAK.fullmatch(gap) else LINK


@lru_cache(CACHED)
def _hash_gap(gap: str) -> int:
    """Hash the punctuation between two words; 0 if there is none that counts."""
    if _BLANK_LINE.search(gap):
        return int(hash_string("\n\n"))
    gap = normalize_writing(normalize_name(gap))
    return 0 if _WEAK_GAP.fullmatch(gap) else int(hash_string("".join(gap.split())))


def _find_new_lines(text: str, words: list[str], gaps: list[str], starts: np.ndarray) -> list[int]:
    """Find the lines that start with a capital. They are items of a list more probably than the same sentence, unless
    the line before is as long as lines may be, or ends in a hyphen."""
    places = []
    # A blank line is an end anyway.
    new = (place for place, gap in enumerate(gaps) if "\n" in gap and BETWEEN not in gap)
    for place in new:
        gap = gaps[place]
        if words[place][0].isupper() and not _HYPHEN.fullmatch(gap):
            end = int(starts[place]) - len(gap) + gap.index("\n")
            if end - text.rfind("\n", 0, end) <= _WRAPPED:
                places.append(place)
    return places


def _list_ways(pieces: list[str], join: int) -> Iterator[tuple[int, int, list[tuple[str, str, int, int]]]]:
    """List the words that a hyphen cuts before and behind a joining word: the piece of each, the piece that has what is
    lacking, and the ways in which the whole may be put together: two parts, and where the other word has its one."""
    first = join - 2
    second = join + 2
    if first < 0 or second >= len(pieces):
        return
    word, gap, _, behind, other = pieces[first : second + 1]
    is_cut = _CUT_BEFORE.fullmatch(behind) is not None
    before = first if is_cut or behind.isspace() else -1
    while before > 0 and _CUT.fullmatch(pieces[before + 1]):
        yield before, second, [(pieces[before], other[cut:], cut, len(other)) for cut in range(1, len(other))]
        before -= 2
    if is_cut and (gap.isspace() or _CUT.fullmatch(gap)):
        yield second, first, [(word[:cut], other, 0, cut) for cut in range(len(word), 1, -1)]


@lru_cache(CACHED)
def _hash_joined(language: Language, first: str, second: str) -> int:
    if len(first) < 2 or len(second) < 3:
        return 0
    hashes = get_reader(language)(first + second).hashes
    return hashes[0] if len(hashes) == 1 else 0
