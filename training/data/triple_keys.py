"""Triples as one number each, so that millions are sorted and compared in little memory."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..errors import Errors
from .triple_data import TripleData

BITS = 64


class TripleKeys:
    """Pack relation, head and tail into 64 bits. Labels are numbered as they come, and by their order at the end."""

    def __init__(self, n_concepts: int) -> None:
        """Prepare to pack triples."""
        self.n_concepts = n_concepts
        self.width = max(1, (n_concepts - 1).bit_length())
        self.numbers: dict[str, int] = {}

    def pack(self, heads: np.ndarray, labels: pl.Series, tails: np.ndarray) -> np.ndarray:
        """Pack triples."""
        for label in labels.unique().sort().to_list():
            self.numbers.setdefault(label, len(self.numbers))
        if len(self.numbers) > 1 << (BITS - 2 * self.width):
            raise ValueError(
                (
                    f"The {len(self.numbers)} relations of {self.n_concepts} concepts are too many to number their "
                    "triples. Choose fewer sources, or the label REL."
                )
            )
        known, rows = list(self.numbers), list(self.numbers.values())
        relations = labels.replace_strict(known, rows, return_dtype=pl.UInt64()).to_numpy()
        width = np.uint64(self.width)
        packed: np.ndarray = (relations << width | heads.astype(np.uint64)) << width | tails.astype(np.uint64)
        return packed

    def unpack(self, parts: list[np.ndarray], ids: pl.Series) -> tuple[TripleData, int]:
        """Sort the triples of all parts by label, head and tail, and drop repeated ones."""
        keys = np.concatenate(parts)
        parts.clear()
        labels = pl.Series(list(self.numbers), dtype=pl.String()).sort()
        number_of = np.empty(len(labels), dtype=np.uint64)
        number_of[[self.numbers[label] for label in labels]] = np.arange(len(labels), dtype=np.uint64)
        width, double = np.uint64(self.width), np.uint64(2 * self.width)
        inner = (np.uint64(1) << double) - np.uint64(1)
        relations = number_of[(keys >> double).astype(np.int64)]
        keys &= inner
        keys |= relations << double
        del relations
        keys.sort()
        is_new = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
        n_dropped = len(keys) - int(is_new.sum())
        keys = keys[is_new]
        outer = (np.uint64(1) << width) - np.uint64(1)
        heads, tails = ((keys >> width) & outer).astype(np.int32), (keys & outer).astype(np.int32)
        is_used = np.zeros(len(ids), dtype=bool)
        is_used[heads] = is_used[tails] = True
        place = np.cumsum(is_used, dtype=np.int32) - 1
        relations = (keys >> double).astype(np.int32)
        concepts = ids.filter(pl.Series(is_used))
        return TripleData(concepts, labels, place[heads], relations, place[tails]), n_dropped
