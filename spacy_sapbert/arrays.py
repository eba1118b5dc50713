"""Arrays of saved folders, in NumPy's format. They are checked when they are read: a folder from elsewhere may hold
anything, and a number that points outside of another array ends in an error much later, or in wrong answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from safetensors.numpy import load_file

from .errors import OTHER_VERSION
from .ragged import KeyTable

# Types of row numbers and offsets. Tables of few names have the smaller ones.
WHOLE = (np.uint32, np.int64)


def save_array(path: Path, array: np.ndarray) -> None:
    """Save an array in NumPy's format, or raise an OSError. Given a file of the system, `np.save` writes with C's
    buffers, and does not notice that the last few kilobytes of an array cannot be written because the disk is full."""
    with path.open("wb") as file:
        np.save(cast(Any, SimpleNamespace(write=file.write)), array)


class ArrayFolder:
    """Read the arrays of a folder, mapped into memory or not. What is not as its reader needs it is an OSError that
    names the file."""

    def __init__(self, folder: Path, *, memory_map: bool = True) -> None:
        self._folder = folder
        self._mode: Any = "r" if memory_map else None

    def read_any(self, name: str) -> np.ndarray:
        """Read an array of any type."""
        path = self._find(name)
        try:
            # A plain view: single items of a memmap are slow to get.
            return np.asarray(np.load(path, mmap_mode=self._mode))
        except Exception as error:  # a forged header makes NumPy raise nearly anything
            raise self.refuse(name, f"it holds no array ({error})") from error

    def read(self, name: str, *dtypes: Any, shape: tuple[int | None, ...] = (None,)) -> np.ndarray:
        """Read an array of one of some types, and of a shape; None stands for any length."""
        array = self.read_any(name)
        if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
            raise self.refuse(name, f"it holds {array.dtype}, not {' or '.join(np.dtype(of).name for of in dtypes)}")
        is_shape = array.ndim == len(shape) and all(
            wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
        )
        if not is_shape or not array.flags.c_contiguous:
            raise self.refuse(name, f"its shape is {array.shape}, not {shape}")
        if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
            raise self.refuse(name, "a condition is neither 0 nor 1")
        return array

    def read_sorted(self, name: str, dtype: Any) -> np.ndarray:
        """Read distinct numbers in ascending order."""
        values = self.read(name, dtype)
        if (values[1:] <= values[:-1]).any():
            raise self.refuse(name, "its numbers do not ascend")
        return values

    def read_rows(self, name: str, n_rows: int, *dtypes: Any) -> np.ndarray:
        """Read row numbers of a table that has `n_rows` rows."""
        rows = self.read(name, *(dtypes or WHOLE))
        if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
            raise self.refuse(name, f"it has rows that a table of {n_rows:,} lacks")
        return rows

    def read_distinct_rows(self, name: str, n_rows: int, *dtypes: Any) -> np.ndarray:
        """Read row numbers likewise, of which each is there once at most."""
        rows = self.read_rows(name, n_rows, *dtypes)
        is_there = np.zeros(n_rows, dtype=bool)
        is_there[rows] = True
        if is_there.sum() != len(rows):
            raise self.refuse(name, f"of its {len(rows):,} rows, only {is_there.sum():,} are distinct")
        return rows

    def read_offsets(self, name: str, n_lists: int, n_values: int) -> np.ndarray:
        """Read where each list begins in an array of all their values, and where the last one ends."""
        offsets = self.read(name, *WHOLE, shape=(n_lists + 1,))
        if offsets[0] != 0 or offsets[-1] != n_values or (offsets[1:] < offsets[:-1]).any():
            raise self.refuse(name, f"its places do not ascend from 0 to {n_values:,}")
        return offsets

    def read_keys(self, name: str, n_rows: int) -> KeyTable:
        """Read a table of keys, whose rows are those of a table that has `n_rows` rows."""
        keys = self.read_sorted(f"{name}_keys", np.uint64)
        rows = self.read_rows(f"{name}_rows", n_rows)
        return KeyTable(keys, self.read_offsets(f"{name}_offsets", len(keys), len(rows)), rows)

    def refuse(self, name: str, reason: str) -> OSError:
        """Make the error for an array that is not as it has to be."""
        return OSError(OTHER_VERSION.format(path=self._find(name), reason=reason))

    def _find(self, name: str) -> Path:
        return self._folder / f"{name}.npy"


class ArrayFile(ArrayFolder):
    """Read the arrays of one file in the format of safetensors, likewise."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._arrays = load_file(path)
        except Exception as error:  # safetensors has errors of its own, and raises others for types that NumPy lacks
            raise OSError(OTHER_VERSION.format(path=path, reason=error)) from error

    def read_any(self, name: str) -> np.ndarray:
        """Read an array of any type."""
        if name not in self._arrays:
            raise self.refuse(name, "it is not there")
        return self._arrays[name]

    def refuse(self, name: str, reason: str) -> OSError:
        """Make the error for an array that is not as it has to be."""
        return OSError(OTHER_VERSION.format(path=self._folder, reason=f"{name}: {reason}"))
