"""Token ids of many strings in two arrays, because a list of millions of arrays takes ten times the memory; and strings
as numbers of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Self

if TYPE_CHECKING:
    import polars as pl

# The token ids of one string.
TokenIds = Sequence[int] | np.ndarray


class TokenLists(Sequence[np.ndarray]):
    """The token ids of many strings.

    ids (ndarray): The token ids of all strings, one string after the other; int32.
    ends (ndarray): Where each string ends in them; int64.
    """

    def __init__(self, ids: np.ndarray, ends: np.ndarray) -> None:
        # Plain views: single items of a memmap are slow to get.
        self.ids, self.ends = np.asarray(ids), np.asarray(ends)

    @classmethod
    def make(cls, lists: Sequence[TokenIds]) -> Self:
        """Copy the token ids of each string."""
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        ids = np.fromiter(chain.from_iterable(lists), dtype="<i4", count=int(lengths.sum()))
        return cls(ids, lengths.cumsum())

    @classmethod
    def join(cls, parts: Iterable[TokenLists]) -> Self:
        """Join the token ids of several groups of strings, in their order."""
        parts = [cls.make([]), *parts]
        before = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
        ends = [part.ends + start for part, start in zip(parts, before, strict=True)]
        return cls(np.concatenate([part.ids for part in parts]), np.concatenate(ends))

    def take(self, rows: np.ndarray) -> TokenLists:
        """Copy the token ids of some strings."""
        starts = np.where(rows > 0, self.ends[rows - 1], 0)
        lengths = self.ends[rows] - starts
        ends = lengths.cumsum()
        places = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        return TokenLists(self.ids[places], ends)

    def split(self, size: int) -> Iterator[TokenLists]:
        """Yield views of `size` strings each."""
        for start in range(0, len(self), size):
            begin, ends = self.ends[start - 1] if start else 0, self.ends[start : start + size]
            yield TokenLists(self.ids[begin : ends[-1]], ends - begin)

    def replace(self, lists: TokenLists) -> TokenLists:
        """Replace each id by the ids of the string of that number."""
        replaced = lists.take(self.ids)
        return TokenLists(replaced.ids, np.concatenate([[0], replaced.ends])[self.ends])

    def cut(self, length: int) -> TokenLists:
        """Keep the first token ids of each string."""
        lengths = np.diff(self.ends, prepend=0)
        kept = np.minimum(lengths, length)
        places = np.arange(len(self.ids)) - np.repeat(self.ends - lengths, lengths)
        return TokenLists(self.ids[places < length], kept.cumsum())

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]  # no slices
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]


def number_parts(texts: pl.Series) -> tuple[pl.Series, TokenLists]:
    """Split strings at spaces, and number the distinct parts, which are few in millions of names: the parts, and the
    numbers of those of each string."""
    import polars as pl

    split = texts.str.split(" ")
    counts, parts = split.list.len().to_numpy(), pl.DataFrame({"part": split.explode()})
    distinct = parts.unique(maintain_order=True).with_row_index("number")
    numbers = parts.join(distinct, on="part", how="left", maintain_order="left")["number"]
    return distinct["part"], TokenLists(numbers.cast(pl.Int32).to_numpy(), counts.cumsum(dtype=np.int64))
