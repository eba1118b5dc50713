"""Token ids of many strings in two arrays, because a list of millions of arrays takes ten times the memory; and strings
as numbers of their parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from typing_extensions import Self

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


def number_parts(chunks: Iterable[Sequence[str]]) -> tuple[list[str], list[TokenLists]]:
    """Split strings at spaces, and number the distinct parts, of which millions of names have few: the parts, and their
    numbers in each chunk of strings."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    lists = []
    for chunk in chunks:
        parts = [text.split(" ") for text in chunk]
        counts = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
        ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(parts)), dtype=np.int32, count=int(counts.sum()))
        lists.append(TokenLists(ids, counts.cumsum()))
    return list(numbers), lists
