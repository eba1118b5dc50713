"""Vectors of strings, cached by the encoder's fingerprint: in memory or in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import srsly

from spacy_sapbert.arrays import save_array
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import write_whole
from spacy_sapbert.progress import show_progress

# Strings encoded between two writes: an interruption loses at most about half a minute of work on two cores.
BLOCK = 32_768
# Files of vectors: 32-bit numbers, or the upper halves of numbers whose lower halves are zero.
WHOLE, HALF = ".npy", ".bf16"
ADVICE = "It is damaged, or another file. Delete its folder, and they are computed again."


class Embeddings:
    """Vectors of strings, not scaled to unit length. What was computed in bf16 takes two bytes a number.

    encoder (EncoderShim): The encoder.
    folder (str | Path | None): The cache, with a folder for each encoder; None keeps vectors in memory.
    """

    def __init__(self, encoder: EncoderShim, folder: str | Path | None = None) -> None:
        self.encoder = encoder
        # Rounding differs between precisions.
        dtype = str(encoder.dtype).removeprefix("torch.")
        self.folder = None if folder is None else Path(folder) / f"{encoder.fingerprint[:16]}-{dtype}"
        self._row_of: dict[str, int] = {}
        self._blocks: list[np.ndarray] = []
        self._starts: list[int] = []
        self._n_rows = 0
        self._read()

    def __len__(self) -> int:
        """Count the strings with a vector."""
        return len(self._row_of)

    def add(self, strings: Iterable[str]) -> None:
        """Compute the vectors of new strings; all at once is faster than some at a time."""
        new = [string for string in dict.fromkeys(strings) if string not in self._row_of]
        # Sorting by length avoids padding.
        new.sort(key=len)
        with show_progress(total=len(new), description="Encoding names", unit="names") as progress:
            for start in range(0, len(new), BLOCK):
                block = new[start : start + BLOCK]
                self._write(block, self.encoder.encode_unscaled(block))
                progress.update(len(block))

    def take(self, strings: Sequence[str], *, normalised: bool = True) -> np.ndarray:
        """Get the vectors of strings, float32, scaled to unit length or not. Missing vectors are computed."""
        return self._read_rows(self._find_rows(strings), normalised=normalised)

    def view(self, strings: Sequence[str], normalised: bool = True) -> VectorView:
        """View the vectors of strings, which `exact_search` reads in blocks. Missing vectors are computed."""
        return VectorView(self._find_rows(strings), partial(self._read_rows, normalised=normalised))

    def _find_rows(self, strings: Sequence[str]) -> np.ndarray:
        self.add(strings)
        return np.fromiter((self._row_of[string] for string in strings), dtype=np.int64, count=len(strings))

    def _read_rows(self, rows: np.ndarray, *, normalised: bool) -> np.ndarray:
        vectors = np.empty((len(rows), self.encoder.width), dtype=np.float32)
        block_of = np.searchsorted(self._starts, rows, side="right") - 1
        for number, (start, block) in enumerate(zip(self._starts, self._blocks, strict=True)):
            here = np.flatnonzero(block_of == number)
            # Rows of a file are read faster in its order.
            here = here[np.argsort(rows[here], kind="stable")]
            vectors[here] = _widen(block[rows[here] - start])
        if normalised:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def _write(self, strings: list[str], vectors: np.ndarray) -> None:
        vectors = _narrow(vectors)
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Another run may write there at the same time.
            path = self.folder / f"{uuid4().hex}{WHOLE if vectors.dtype == np.float32 else HALF}"
            # The vectors are written last: readers look for them first.
            srsly.write_msgpack(path.with_suffix(".strings"), strings)
            with write_whole(path) as temporary:
                save_array(temporary, vectors)
            vectors = np.load(path, mmap_mode="r")
        self._append(strings, vectors)

    def _append(self, strings: list[str], vectors: np.ndarray) -> None:
        self._starts.append(self._n_rows)
        self._row_of.update({string: row for row, string in enumerate(strings, self._n_rows)})
        self._blocks.append(vectors)
        self._n_rows += len(strings)

    def _read(self) -> None:
        files = self.folder.iterdir() if self.folder and self.folder.is_dir() else ()
        for path in sorted(path for path in files if path.suffix in (WHOLE, HALF)):
            try:
                strings = srsly.read_msgpack(path.with_suffix(".strings"))
                vectors = np.load(path, mmap_mode="r")
            except (ValueError, OSError, EOFError) as error:
                raise ValueError(f"{path} holds no vectors of strings: {error}. {ADVICE}") from error
            if vectors.shape != (len(strings), self.encoder.width):
                raise ValueError(f"{path} has the shape {vectors.shape} for {len(strings)} strings. {ADVICE}")
            self._append(strings, vectors)


@dataclass
class VectorView:
    """Vectors of rows that are read in blocks."""

    rows: np.ndarray
    read: Callable[[np.ndarray], np.ndarray]

    def __len__(self) -> int:
        """Count the vectors."""
        return len(self.rows)

    def __getitem__(self, part: slice) -> np.ndarray:
        """Read the vectors of a slice, float32."""
        return self.read(self.rows[part])


def _narrow(vectors: np.ndarray) -> np.ndarray:
    """Keep the upper halves of numbers if the lower halves are zero: after a computation in bf16, nothing is lost."""
    bits = vectors.view(np.uint32)
    return vectors if (bits & 0xFFFF).any() else (bits >> 16).astype(np.uint16)


def _widen(stored: np.ndarray) -> np.ndarray:
    return stored if stored.dtype == np.float32 else (stored.astype(np.uint32) << 16).view(np.float32)
