"""Token ids of many names, each tokenised once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from spacy_sapbert.encoder import EncoderShim

TOKENISED_AT_ONCE = 50_000


class Tokens(Sequence[np.ndarray]):
    """Token ids of many names, in two arrays.

    names (pl.Series): The names.
    encoder (EncoderShim): Whose tokenizer to use.
    """

    def __init__(self, names: pl.Series, encoder: EncoderShim) -> None:
        # None of both where there are no names.
        parts, lengths = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int64)]
        for start in range(0, len(names), TOKENISED_AT_ONCE):
            chunk = encoder.tokenize(names[start : start + TOKENISED_AT_ONCE].to_list())
            lengths.append(np.fromiter(map(len, chunk), dtype=np.int64, count=len(chunk)))
            parts.append(np.fromiter((token for ids in chunk for token in ids), dtype=np.int32))
        self._ids = np.concatenate(parts)
        self._ends = np.concatenate(lengths).cumsum()

    def __len__(self) -> int:
        """Return the number of names.

        RETURNS (int): Names.
        """
        return len(self._ends)

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]  # no slices
        """Return the token ids of a name.

        row (int): Which name.
        RETURNS (np.ndarray): Its token ids, int32.
        """
        return self._ids[self._ends[row - 1] if row else 0 : self._ends[row]]
