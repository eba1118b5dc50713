"""Token ids of many names, each tokenised once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import polars as pl

from spacy_sapbert.encoder import EncoderShim

from ..errors import Warnings

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
        self._warn_of_unknown(encoder)

    def _warn_of_unknown(self, encoder: EncoderShim) -> None:
        """Warn of names whose tokens the encoder does not know."""
        ids, places = np.unique(self._ids, return_inverse=True)
        is_known = np.array([encoder.is_informative([token]) for token in ids.tolist()], dtype=bool)
        # How many known tokens there are up to the end of each name.
        n_known = np.concatenate([[0], is_known[places].cumsum()])[np.concatenate([[0], self._ends])]
        if missing := int(np.count_nonzero(np.diff(n_known) == 0)):
            warnings.warn(Warnings.W602.format(missing=missing, n=len(self)), stacklevel=3)

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
