"""The storage of all indexes: a folder with a manifest, the vectors, and what an index arranges beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from ..errors import Errors
from ..files import fill_folder, pack_with, read_manifest, save_array, unpack_with, write_manifest

INDEX_FILE = "index.json"
# The file name and layout that ScaNN uses, so that one folder works with and without ScaNN.
VECTORS_FILE = "dataset.npy"
ADDED_FILE = "added.npy"
ALTERED_FILE = "altered.npy"
# The structures of an index that has several.
PARTS_FOLDER = "parts"
FORMAT_VERSION = 1
# From so many rows on, vectors are stored in half precision: 10 million of 256 numbers take 5 GB instead of 10. A
# cosine changes by 3e-5 at most.
HALF_PRECISION_FROM = 2_000_000


def choose_dtype(rows: int) -> np.dtype[Any]:
    """Choose the precision of an index's vectors.

    rows (int): The rows of the index.
    RETURNS (dtype): float32, or float16 for large indexes.
    """
    return np.dtype(np.float32 if rows < HALF_PRECISION_FROM else np.float16)


class StoredIndex:
    """The content of an index, and how it is saved and loaded. Subclasses search it."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self._vectors: np.ndarray | None = None
        # Rows added later, separate from the built rows, which may be memory-mapped and arranged for search.
        self._added: np.ndarray | None = None
        self.fingerprint = ""
        self.configuration: dict[str, Any] = {"scoring": "exact"}
        self.recall: dict[str, Any] = {}
        # Vectors of altered names, with which recall is measured. An index built of the same rows needs them again.
        self._altered: np.ndarray | None = None

    def to_disk(self, path: str | Path) -> None:
        """Save to a folder, completely or not at all.

        path (str | Path): The folder; other files in it are left alone.
        RAISES (ValueError): If the index has not been built.
        """
        if self._vectors is None:
            raise ValueError(Errors.E301)
        data = {
            "kind": self.kind,
            "rows": len(self._vectors) + (0 if self._added is None else len(self._added)),
            "fingerprint": self.fingerprint,
            "settings": self._arguments(),
            "configuration": self.configuration,
            "recall": self.recall,
        }
        with fill_folder(Path(path), last=INDEX_FILE, remove=[PARTS_FOLDER]) as folder:
            self._write(folder)
            for name, vectors in ((ADDED_FILE, self._added), (ALTERED_FILE, self._altered)):
                if vectors is not None:
                    with (folder / name).open("wb") as file:
                        save_array(file, vectors)
            write_manifest(folder / INDEX_FILE, FORMAT_VERSION, data)
        # An index that lay in the folder before may have left files that this one lacks.
        for name, vectors in ((ADDED_FILE, self._added), (ALTERED_FILE, self._altered)):
            if vectors is None:
                (Path(path) / name).unlink(missing_ok=True)

    def from_disk(self, path: str | Path, *, memory_map: bool = True) -> Self:
        """Load from a folder.

        path (str | Path): A folder that `to_disk` wrote.
        memory_map (bool): Map the vectors from disk instead of reading them.
        RETURNS (StoredIndex): The index itself.
        RAISES (OSError): If a file is missing or damaged, or the folder holds another kind of index.
        """
        path = Path(path)
        data = read_manifest(path / INDEX_FILE, FORMAT_VERSION, used=["*.npy", "*.pb*"])
        if data.get("kind") != self.kind:
            raise OSError(Errors.E305.format(path=path, found=data.get("kind"), expected=self.kind))
        self._read_vectors(path, data, memory_map)
        self.configuration, self.recall = data["configuration"], data["recall"]
        self._read(path, data, memory_map)
        return self

    def to_bytes(self) -> bytes:
        """Serialise to bytes.

        RETURNS (bytes): The packed folder.
        """
        return pack_with(self.to_disk)

    def from_bytes(self, data: bytes) -> Self:
        """Load from bytes.

        data (bytes): The bytes that `to_bytes` returned.
        RETURNS (StoredIndex): The index itself.
        """
        return unpack_with(partial(self.from_disk, memory_map=False), data)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._arguments()), (), None if self._vectors is None else self.to_bytes()

    def __setstate__(self, data: bytes) -> None:
        self.from_bytes(data)

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments, for saving and unpickling."""
        return {}

    def _write(self, folder: Path) -> None:
        assert self._vectors is not None
        with (folder / VECTORS_FILE).open("wb") as file:
            save_array(file, self._vectors)

    def _read_vectors(self, folder: Path, data: dict[str, Any], memory_map: bool) -> None:
        if VECTORS_FILE not in data["files"]:
            raise FileNotFoundError(Errors.E503.format(path=folder / VECTORS_FILE))
        load = partial(np.load, mmap_mode="c" if memory_map else None)
        self._vectors = load(folder / VECTORS_FILE)
        self._added = load(folder / ADDED_FILE) if ADDED_FILE in data["files"] else None
        self._altered = load(folder / ALTERED_FILE) if ALTERED_FILE in data["files"] else None
        self.fingerprint = data["fingerprint"]

    def _read(self, folder: Path, data: dict[str, Any], memory_map: bool) -> None:
        """Load what a subclass wrote beside the vectors."""
