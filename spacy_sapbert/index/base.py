"""The base of all indexes: rows of vectors, exact search among them, and the folder in which they are saved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from ..errors import Errors
from ..files import fill_folder, pack_with, read_manifest, save_array, unpack_with, write_manifest
from .nearest import check_finite, exact_search, take_best

INDEX_FILE = "index.json"
VECTORS_FILE = "dataset.npy"
ADDED_FILE = "added.npy"
ALTERED_FILE = "altered.npy"
# The files that the package of an approximate index writes.
STRUCTURE_FOLDER = "structure"
FORMAT_VERSION = 1
# From so many rows on, vectors are stored in half precision: 10 million of 256 numbers take 5 GB instead of 10. A
# cosine changes by 3e-5 at most.
HALF_PRECISION_FROM = 2_000_000
# Above this share of unused rows, an index is rebuilt.
UNUSED_SHARE = 0.25
# Smaller subsets are copied. The vectors of larger ones are collected at each search.
COPIED_BYTES = 64 * 2**20


def choose_dtype(rows: int) -> np.dtype[Any]:
    """Choose the precision of an index's vectors: float32, or float16 for large indexes."""
    return np.dtype(np.float32 if rows < HALF_PRECISION_FROM else np.float16)


class Index:
    """The vectors of names, and the search that compares each query with each of them. Subclasses approximate it."""

    kind: ClassVar[str] = "exact"
    # Whether the config left the choice of the kind to the platform.
    is_auto = False

    def __init__(self) -> None:
        self._vectors: np.ndarray | None = None
        # Rows added later, separate from the built rows, which may be memory-mapped and arranged for search.
        self._added: np.ndarray | None = None
        self.fingerprint = ""
        self.configuration: dict[str, Any] = {"scoring": "exact"}
        self.recall: dict[str, Any] = {}
        # What a package has arranged for an approximate search.
        self._structure: Any = None
        # Vectors of altered names, with which recall is measured. An index built of the same rows needs them again.
        self._altered: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of rows, 0 before `build`."""
        return sum(len(part) for part in (self._vectors, self._added) if part is not None)

    @property
    def vectors(self) -> np.ndarray:
        """Return the vectors of all rows, as they are stored: mapped from disk, or a copy if rows have been added."""
        return self._built if self._added is None else np.concatenate([self._built, self._added])

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        return int(self._built.shape[1])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Copy the vectors of some rows, which are given in ascending order."""
        vectors = np.empty((len(rows), self.width), dtype=self._built.dtype)
        first_added = len(self._built)
        split = int(np.searchsorted(rows, first_added))
        vectors[:split] = self._built[rows[:split]]
        if self._added is not None:
            vectors[split:] = self._added[rows[split:] - first_added]
        return vectors

    def empty(self) -> Index:
        """Make an index with the same settings and no rows."""
        return type(self)(**self._arguments())

    def build(
        self, vectors: np.ndarray, *, fingerprint: str = "", make_altered: Callable[[], np.ndarray] | None = None
    ) -> None:
        """Build the index and replace its content.

        vectors (ndarray): Shape (rows, width), L2-normalised. They are copied only to change their type.
        fingerprint (str): That of the encoder which made the vectors.
        make_altered (Callable[[], ndarray] | None): Encodes altered names, shape (n, width), with which an approximate
            index measures its recall as well.
        RAISES (ValueError): If there are no vectors, or some are not finite.
        """
        vectors = np.ascontiguousarray(vectors, dtype=choose_dtype(len(vectors)))
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise ValueError(Errors.E302.format(shape=vectors.shape))
        check_finite(vectors)
        self._vectors = vectors
        self._added = None
        self.fingerprint = fingerprint
        self._altered = make_altered() if make_altered is not None and self._is_approximate() else None
        self._arrange()

    def extended(self, vectors: np.ndarray) -> Index:
        """Make an index with additional rows, with which every query is compared. This index does not change.

        The new index shares its rows, and row numbers go on where the present ones end.
        """
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.width:
            raise ValueError(Errors.E330.format(shape=vectors.shape, width=self.width))
        check_finite(vectors)
        twin = self.empty()
        twin.__dict__.update(self.__dict__)
        twin._added = vectors if self._added is None else np.concatenate([self._added, vectors])
        return twin

    def is_worn(self, unused: int) -> bool:
        """Tell whether to call `rearranged`, because so many rows are unused."""
        return unused > UNUSED_SHARE * len(self)

    def rearranged(self, rows: np.ndarray, make_altered: Callable[[], np.ndarray] | None = None) -> Index:
        """Build an index of some rows, given in ascending order and numbered from 0 then. This one does not change."""
        twin = self.empty()
        altered = self._altered
        get_altered = make_altered if altered is None else lambda: altered
        twin.build(self.take(rows), fingerprint=self.fingerprint, make_altered=get_altered)
        return twin

    def search(
        self, queries: np.ndarray, k: int, *, effort: int = 1, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the rows with the highest cosine for each query.

        queries (ndarray): Shape (n, width), L2-normalised.
        k (int): Rows wanted.
        effort (int): How many times the usual part of the index an approximate search covers: filters need more.
        own (ndarray | None): A row of each query that an approximate search does not count when it decides to go on.
        RETURNS (tuple[ndarray, ndarray]): Rows, shape (n, k), int64, padded with -1 where the index has fewer; and
            their cosines, float32, padded with -inf. Best first.
        RAISES (ValueError): If there are no queries, their width is wrong, or some are not finite.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[0] == 0 or queries.shape[1] != self.width:
            raise ValueError(Errors.E303.format(shape=queries.shape, width=self.width))
        if k < 1:
            raise ValueError(Errors.E304.format(k=k))
        check_finite(queries)
        rows, scores = self._search(queries, min(k, len(self._built)), effort, own)
        if self._added is not None:
            added, added_scores = exact_search(self._added, queries, min(k, len(self._added)))
            rows = np.concatenate([rows, added + len(self._built)], axis=1)
            rows, scores = take_best(rows, np.concatenate([scores, added_scores], axis=1), k)
        missing = k - rows.shape[1]
        if missing > 0:
            rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=-1)
            scores = np.pad(scores, ((0, 0), (0, missing)), constant_values=-np.inf)
        return rows, scores

    def to_disk(self, path: str | Path) -> None:
        """Save to a folder, completely or not at all.

        path (str | Path): The folder; other files in it are left alone.
        RAISES (ValueError): If the index has not been built.
        """
        arrays = {VECTORS_FILE: self._built, ADDED_FILE: self._added, ALTERED_FILE: self._altered}
        data = {
            "kind": self.kind,
            "rows": len(self),
            "fingerprint": self.fingerprint,
            "settings": self._arguments(),
            "configuration": self.configuration,
            "recall": self.recall,
        }
        # An index that lay in the folder before may have files that this one lacks.
        with fill_folder(Path(path), last=INDEX_FILE, remove=[*arrays, STRUCTURE_FOLDER]) as folder:
            for name, vectors in arrays.items():
                if vectors is not None:
                    with (folder / name).open("wb") as file:
                        save_array(file, vectors)
            if self._structure is not None:
                (folder / STRUCTURE_FOLDER).mkdir()
                self._write_structure(folder / STRUCTURE_FOLDER)
            write_manifest(folder / INDEX_FILE, FORMAT_VERSION, data)

    def from_disk(self, path: str | Path, *, memory_map: bool = True) -> Self:
        """Load from a folder.

        path (str | Path): A folder that `to_disk` wrote.
        memory_map (bool): Map the vectors from disk instead of reading them.
        RETURNS (Index): The index itself.
        RAISES (OSError): If a file is missing or damaged, or the folder holds another kind of index.
        """
        data = read_manifest(Path(path) / INDEX_FILE, FORMAT_VERSION, used=["*.npy"])
        if data.get("kind") != self.kind:
            raise OSError(Errors.E305.format(path=path, found=data.get("kind"), expected=self.kind))
        self.read(Path(path), data, memory_map)
        return self

    def read(self, folder: Path, data: dict[str, Any], memory_map: bool) -> None:
        """Load what a folder with a checked manifest holds."""
        files = data["files"]
        if VECTORS_FILE not in files:
            raise FileNotFoundError(Errors.E503.format(path=folder / VECTORS_FILE))
        load = partial(np.load, mmap_mode="r" if memory_map else None)
        names = (VECTORS_FILE, ADDED_FILE, ALTERED_FILE)
        self._vectors, self._added, self._altered = (load(folder / name) if name in files else None for name in names)
        self.fingerprint = data["fingerprint"]

    def __reduce__(self) -> tuple[Any, ...]:
        packed = None if self._vectors is None else pack_with(self.to_disk)
        return partial(type(self), **self._arguments()), (), packed

    def __setstate__(self, packed: bytes) -> None:
        unpack_with(partial(self.from_disk, memory_map=False), packed)

    @property
    def _built(self) -> np.ndarray:
        """The vectors that the index was built from, without those that were added."""
        if self._vectors is None:
            raise ValueError(Errors.E301)
        return self._vectors

    # What subclasses replace.

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments, for saving and unpickling."""
        return {}

    def _is_approximate(self) -> bool:
        """Tell whether an index of as many rows is searched approximately."""
        return False

    def _arrange(self) -> None:
        """Prepare the search after the vectors have been set."""

    def _search(
        self, queries: np.ndarray, k: int, effort: int, own: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search the built rows, of which there are at least k."""
        return exact_search(self._built, queries, k)

    def _write_structure(self, folder: Path) -> None:
        """Write the structure to an empty folder."""


class Subset:
    """Compare queries with selected rows of an index of any kind."""

    def __init__(self, index: Index, rows: np.ndarray) -> None:
        self._index = index
        # In ascending order, int64.
        self._rows = rows
        is_small = len(rows) * index.width * np.dtype(np.float32).itemsize <= COPIED_BYTES
        self._copied = index.take(rows) if is_small else None

    def __len__(self) -> int:
        """Return the number of rows that can be found."""
        return len(self._rows)

    def __getitem__(self, part: slice) -> np.ndarray:
        """Return the vectors of some of them."""
        return self._index.take(self._rows[part]) if self._copied is None else self._copied[part]

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the k selected rows with the highest cosine for each query, as `Index.search` does."""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        check_finite(queries)
        rows, scores = exact_search(self, queries, k)
        return self._rows[rows], scores
