"""Names for the synthetic metathesaurus that resemble real ones: in their lengths, words and distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from rrf_names import mix

# A word of the name that serves as pattern gives way to one that follows the same word elsewhere.
EXCHANGED = 0.5
# A word becomes a new one: the beginning of one word and the end of another. A larger release has more rare words, so
# that its distinct words grow with a power of about 0.6 of its names.
NEW_WORD = 0.12
# Names of one word would otherwise soon be used up.
NEW_SINGLE_WORD = 0.8
LONGEST = 24


@dataclass(frozen=True)
class Patterns:
    """Words of real names, from which others are made.

    words (Series): The distinct words.
    flat (ndarray): The words of all names, one name after the other; int32.
    starts (ndarray): Where each name starts in them; int64.
    lengths (ndarray): How many words each name has.
    by_word (ndarray): Places in `flat`, sorted by the word that stands there.
    first_place (ndarray): Where the places of each word start in `by_word`; one more than there are words.
    """

    words: pl.Series
    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    by_word: np.ndarray
    first_place: np.ndarray

    @classmethod
    def split(cls, names: pl.Series) -> Patterns:
        """Split names into words.

        names (Series): The names; repeated ones count once.
        RETURNS (Patterns): Their words.
        """
        split = names.cast(pl.String).unique(maintain_order=True).str.split(" ").list.head(LONGEST)
        lengths = split.list.len().to_numpy().astype(np.int64)
        flat = split.explode()
        words = flat.unique().sort()
        codes = flat.cast(pl.Enum(words)).to_physical().to_numpy().astype(np.int64)
        first_place = np.searchsorted(np.sort(codes), np.arange(len(words) + 1))
        by_word = np.argsort(codes, kind="stable")
        return cls(words, codes, np.cumsum(lengths) - lengths, lengths, by_word, first_place)

    def make(self, concept: np.ndarray, variant: np.ndarray, seed: int) -> pl.Series:
        """Make names, the same ones for the same numbers and seed.

        All names of a concept follow one real name, and differ from each other in words.

        concept (ndarray): The numbers of the concepts.
        variant (ndarray): Which of a concept's names, below 4,096.
        seed (int): Seed of all choices.
        RETURNS (Series): The names.
        """
        pattern = (mix(concept, seed) % np.uint64(len(self.lengths))).astype(np.int64)
        lengths, starts = self.lengths[pattern], self.starts[pattern]
        key = concept * 4096 + variant
        before = np.full(len(key), -1, dtype=np.int64)
        columns = []
        for place in range(int(lengths.max(initial=0))):
            is_there = lengths > place
            own = self.flat[np.where(is_there, starts + place, 0)]
            word = np.where(_draw(key, seed, place, 0) < EXCHANGED, self._follow(before, own, key, seed, place), own)
            share = np.where(lengths == 1, NEW_SINGLE_WORD, NEW_WORD)
            text = self._join(word, _draw(key, seed, place, 1) < share, key, seed, place)
            columns.append(pl.select(pl.when(pl.Series(is_there)).then(text)).to_series().alias(str(place)))
            before = word
        return pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator=" ", ignore_nulls=True)).to_series()

    def _follow(self, before: np.ndarray, own: np.ndarray, key: np.ndarray, seed: int, place: int) -> np.ndarray:
        """Draw a word that follows the word before in some real name, or starts one; its own word at a name's end."""
        share = _draw(key, seed, place, 2)
        names = (share * len(self.starts)).astype(np.int64)
        known = np.maximum(before, 0)
        first = self.first_place[known]
        at = self.by_word[first + (share * (self.first_place[known + 1] - first)).astype(np.int64)]
        at = np.minimum(at, len(self.flat) - 2)
        ends = np.searchsorted(self.starts, at + 1)
        is_end = (ends < len(self.starts)) & (self.starts[np.minimum(ends, len(self.starts) - 1)] == at + 1)
        drawn = np.where(before < 0, self.flat[self.starts[names]], self.flat[at + 1])
        return np.where((before >= 0) & is_end, own, drawn)

    def _join(self, word: np.ndarray, is_new: np.ndarray, key: np.ndarray, seed: int, place: int) -> pl.Series:
        """Write words, some with the end of another word."""
        other = self.flat[(_draw(key, seed, place, 3) * len(self.flat)).astype(np.int64)]
        table = pl.DataFrame({"word": self.words.gather(word), "other": self.words.gather(other), "new": is_new})
        word_, other_ = pl.col("word"), pl.col("other")
        joined = word_.str.head((word_.str.len_chars() + 1) // 2) + other_.str.tail((other_.str.len_chars() + 1) // 2)
        return table.select(pl.when("new").then(joined).otherwise(word_)).to_series()


def _draw(key: np.ndarray, seed: int, place: int, what: int) -> np.ndarray:
    """Draw a number between 0 and 1 for each name, place in it and kind of choice."""
    bits = mix(key, seed * 131 + place * 4 + what + 1)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
