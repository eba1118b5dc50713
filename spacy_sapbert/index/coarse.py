"""Vectors of 8-bit numbers, which rank the rows of a large index. Whoever has the encoder makes exact scores of the
best rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from ..arrays import ArrayFolder

# The largest number.
LARGEST = 127
# Rows written at once: few enough to stay near the processor.
WRITTEN = 8192


class CoarseRows:
    """Rows of vectors, each with a scale for its numbers. They are read in full precision. A cosine is off by 0.0006
    (standard deviation, 192 numbers)."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    def __init__(self, codes: np.ndarray, scales: np.ndarray) -> None:
        # Shape (rows, width), int8, and shape (rows,), float32.
        self.codes = codes
        self.scales = scales

    @classmethod
    def empty(cls, rows: int, width: int) -> Self:
        """Make room for vectors."""
        return cls(np.empty((rows, width), dtype=np.int8), np.empty(rows, dtype=np.float32))

    @classmethod
    def read(cls, arrays: ArrayFolder, codes: np.ndarray, name: str) -> Self:
        """Read the scales of rows from the array of a name."""
        scales = arrays.read(name, np.float32, shape=(len(codes),))
        if not (0 <= scales.min(initial=0) and scales.max(initial=0) <= 1):
            raise arrays.refuse(name, "not all scales are between 0 and 1")
        return cls(codes, scales)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return how many rows there are, and how many numbers each has."""
        return self.codes.shape

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.codes.nbytes + self.scales.nbytes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        vectors = self.codes[rows].astype(np.float32)
        vectors *= self.scales[rows][..., None]
        return vectors

    def __setitem__(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        for start in range(0, len(rows), WRITTEN):
            part = rows[start : start + WRITTEN]
            block = np.asarray(vectors[start : start + WRITTEN], dtype=np.float32)
            scales = np.abs(block).max(axis=1) / LARGEST
            self.scales[part] = scales
            self.codes[part] = np.rint(block / np.where(scales > 0, scales, 1)[:, None])

    def take(self, rows: np.ndarray) -> Self:
        """Copy some rows."""
        return type(self)(self.codes[rows], self.scales[rows])

    def joined(self, vectors: np.ndarray) -> Self:
        """Copy all rows, and vectors behind them."""
        more = self.empty(*vectors.shape)
        more[np.arange(len(vectors))] = vectors
        codes = np.concatenate([self.codes, more.codes])
        return type(self)(codes, np.concatenate([self.scales, more.scales]))


Vectors = np.ndarray | CoarseRows
