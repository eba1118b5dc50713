"""Token ids of many strings in two arrays, because a list of millions of arrays takes ten times the memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from typing_extensions import Self


class TokenLists(Sequence[np.ndarray]):
    """The token ids of many strings.

    ids (ndarray): The token ids of all strings, one string after the other; int32.
    ends (ndarray): Where each string ends in them; int64.
    """

    def __init__(self, ids: np.ndarray, ends: np.ndarray) -> None:
        # Plain views: single items of a memmap are slow to get.
        self.ids, self.ends = np.asarray(ids), np.asarray(ends)

    @classmethod
    def make(cls, lists: Sequence[Sequence[int]]) -> Self:
        """Copy lists of token ids.

        lists (Sequence[Sequence[int]]): The token ids of each string.
        RETURNS (TokenLists): The same in two arrays.
        """
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        ids = np.fromiter(chain.from_iterable(lists), dtype="<i4", count=int(lengths.sum()))
        return cls(ids, lengths.cumsum())

    @classmethod
    def join(cls, parts: Iterable[TokenLists]) -> Self:
        """Join the token ids of several groups of strings.

        parts (Iterable[TokenLists]): The groups, in their order.
        RETURNS (TokenLists): All strings.
        """
        parts = [cls.make([]), *parts]
        before = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
        ends = [part.ends + start for part, start in zip(parts, before, strict=True)]
        return cls(np.concatenate([part.ids for part in parts]), np.concatenate(ends))

    @property
    def starts(self) -> np.ndarray:
        """Return where each string starts in the token ids.

        RETURNS (ndarray): int64.
        """
        return np.concatenate([np.zeros(1, dtype=np.int64), self.ends[:-1]])[: len(self)]

    def take(self, rows: np.ndarray) -> TokenLists:
        """Copy the token ids of some strings.

        rows (ndarray): Which strings.
        RETURNS (TokenLists): Their token ids.
        """
        starts = self.starts[rows]
        lengths = self.ends[rows] - starts
        ends = lengths.cumsum()
        places = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
        return TokenLists(self.ids[places], ends)

    def __len__(self) -> int:
        """Return the number of strings.

        RETURNS (int): Strings.
        """
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]  # no slices
        """Return the token ids of a string.

        row (int): Which string.
        RETURNS (ndarray): Its token ids, int32.
        """
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]
