"""Token ids of many names, each tokenised once."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from typing_extensions import Self

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.files import save_array

from ..errors import Warnings
from .run_folder import write_whole

TOKENISED_AT_ONCE = 50_000


class Tokens(Sequence[np.ndarray]):
    """Token ids of many names, in two arrays.

    ids (np.ndarray): The token ids of all names, one name after the other; int32.
    ends (np.ndarray): Where each name ends in them; int64.
    """

    def __init__(self, ids: np.ndarray, ends: np.ndarray) -> None:
        # Plain views: single items of a memmap are slow to get.
        self._ids, self._ends = np.asarray(ids), np.asarray(ends)

    @classmethod
    def make(cls, names: pl.Series, encoder: EncoderShim) -> Self:
        """Tokenise names. A warning counts those of which the encoder knows no token.

        names (pl.Series): The names.
        encoder (EncoderShim): Whose tokenizer to use.
        RETURNS (Tokens): Their tokens.
        """
        # None of both where there are no names.
        parts, lengths = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int64)]
        for start in range(0, len(names), TOKENISED_AT_ONCE):
            chunk = encoder.tokenize(names[start : start + TOKENISED_AT_ONCE].to_list())
            lengths.append(np.fromiter(map(len, chunk), dtype=np.int64, count=len(chunk)))
            parts.append(np.fromiter((token for ids in chunk for token in ids), dtype=np.int32))
        tokens = cls(np.concatenate(parts), np.concatenate(lengths).cumsum())
        tokens._warn_of_unknown(encoder)
        return tokens

    @classmethod
    def make_once(cls, names: pl.Series, encoder: EncoderShim, folder: Path) -> Self:
        """Tokenise names, and store their tokens for other processes and for a resumed run, which map them from disk.

        names (pl.Series): The names.
        encoder (EncoderShim): Whose tokenizer to use.
        folder (Path): Where to store them, by a hash of encoder and names.
        RETURNS (Tokens): Their tokens.
        """
        digest = hashlib.sha256(encoder.fingerprint.encode())
        for start in range(0, len(names), TOKENISED_AT_ONCE):
            digest.update("\0".join([*names[start : start + TOKENISED_AT_ONCE].to_list(), ""]).encode())
        ids, ends = (folder / f"{digest.hexdigest()[:16]}-{what}.npy" for what in ("ids", "ends"))
        if not (ids.exists() and ends.exists()):
            tokens = cls.make(names, encoder)
            folder.mkdir(parents=True, exist_ok=True)
            for path, array in ((ids, tokens._ids), (ends, tokens._ends)):
                with write_whole(path) as temporary, temporary.open("wb") as file:
                    save_array(file, array)
        return cls(np.load(ids, mmap_mode="r"), np.load(ends, mmap_mode="r"))

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
