"""Assign names to index rows. Names with the same tokens share a row."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..encoder.token_lists import TokenLists
from ..errors import Warnings
from ..progress import show_progress
from .keys import group_keys, make_keys

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import DTypeLike

    from ..encoder.shim import EncoderShim
    from .vector_store import VectorStore

# Names tokenised or encoded between two steps of the progress bar.
CHUNK = 8192


class TokenGroups(NamedTuple):
    """Names grouped by their tokens.

    tokens (TokenLists): The distinct token sequences, in the order of the names.
    keys (ndarray): The key of each sequence, a hash of its token ids; `KEY_DTYPE`.
    row_of_name (ndarray): Each name's sequence, or -1 if the encoder knows none of its tokens; int64.
    """

    tokens: TokenLists
    keys: np.ndarray
    row_of_name: np.ndarray

    def take(self, rows: np.ndarray) -> TokenGroups:
        """Select sequences, without names.

        rows (ndarray): The sequences to select.
        RETURNS (TokenGroups): The selected sequences and their keys.
        """
        return TokenGroups(self.tokens.take(rows), self.keys[rows], np.empty(0, dtype=np.int64))


def group_by_tokens(names: pl.Series, encoder: EncoderShim) -> TokenGroups:
    """Tokenise names and group those with the same tokens.

    names (pl.Series): The names.
    encoder (EncoderShim): The encoder.
    RETURNS (TokenGroups): The groups.
    """
    parts, name_rows = [], [np.empty(0, dtype=np.int64)]
    with show_progress(total=len(names), description="Tokenizing names", unit="names") as progress:
        for start in range(0, len(names), CHUNK):
            chunk = encoder.tokenize(names[start : start + CHUNK].to_list())
            known = [place for place, ids in enumerate(chunk) if encoder.is_informative(ids)]
            parts.append(TokenLists.make([chunk[place] for place in known]))
            name_rows.append(np.array(known, dtype=np.int64) + start)
            progress.update(len(chunk))
    tokens = TokenLists.join(parts)
    keys = make_keys(tokens)
    first, group = group_keys(keys)
    row_of_name = np.full(len(names), -1, dtype=np.int64)
    row_of_name[np.concatenate(name_rows)] = group
    return TokenGroups(tokens.take(first), keys[first], row_of_name)


def warn_of_unsayable(groups: TokenGroups) -> None:
    """Warn of names whose tokens the encoder does not know.

    groups (TokenGroups): The names.
    """
    missing = int((groups.row_of_name < 0).sum())
    if missing:
        warnings.warn(Warnings.W410.format(missing=missing, n=len(groups.row_of_name)), stacklevel=3)


def encode_groups(
    groups: TokenGroups,
    encoder: EncoderShim,
    *,
    batch_size: int,
    store: VectorStore | None = None,
    dtype: DTypeLike = np.float32,
) -> np.ndarray:
    """Encode token sequences. Vectors in the store are reused.

    groups (TokenGroups): The sequences and their keys.
    encoder (EncoderShim): The encoder.
    batch_size (int): Sequences in one forward pass.
    store (VectorStore | None): The store of this encoder's vectors, to which new vectors are added in chunks.
    dtype (dtype): The type of the vectors.
    RETURNS (ndarray): Shape (sequences, width).
    """
    vectors = np.empty((len(groups.tokens), encoder.width), dtype=dtype)
    is_known = np.zeros(len(vectors), dtype=bool) if store is None else store.read(groups.keys, vectors)
    missing = np.flatnonzero(~is_known)
    done = len(vectors) - len(missing)
    with show_progress(total=len(vectors), initial=done, description="Encoding names", unit="names") as progress:
        for start in range(0, len(missing), CHUNK):
            rows = missing[start : start + CHUNK]
            encoded = encoder.encode_tokens([groups.tokens[row] for row in rows], batch_size=batch_size)
            vectors[rows] = encoded
            if store is not None:
                store.add(groups.keys[rows], encoded)
            progress.update(len(rows))
    return vectors


def make_row_table(row_of_name: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """List the names of each index row.

    row_of_name (ndarray): Each name's index row, or -1.
    n_rows (int): Rows of the index. Some may have no names.
    RETURNS (tuple[ndarray, ndarray]): Where each row's names start, shape (n_rows + 1,); and the names, ascending
        within a row. int64.
    """
    order = np.argsort(row_of_name, kind="stable")
    name_rows = order[np.searchsorted(row_of_name[order], 0) :]
    offsets = np.searchsorted(row_of_name[name_rows], np.arange(n_rows + 1))
    return offsets.astype(np.int64), name_rows.astype(np.int64)
