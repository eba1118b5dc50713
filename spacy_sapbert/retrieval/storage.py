"""Save a retriever's index and row table. The terminology is saved on its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from ..errors import Errors
from ..files import fill_folder, hash_file, pack_with, read_manifest, save_array, unpack_with, write_manifest
from ..index import INDEX_FILE, read_index
from ..terminology.table import Terminology
from .name_table import NameTable
from .retriever import Retriever

RETRIEVER_FILE = "retriever.json"
ARRAYS = ("offsets", "name_rows", "keys")
TABLE_ARRAYS = tuple(f"writing_{name}" for name in NameTable._fields)
FORMAT_VERSION = 2


def write_retriever(retriever: Retriever, path: str | Path) -> None:
    """Save index and row table to a folder."""
    with fill_folder(Path(path), last=RETRIEVER_FILE) as folder:
        arrays = {name: getattr(retriever, name) for name in ARRAYS}
        for name, array in {**arrays, **dict(zip(TABLE_ARRAYS, retriever.table, strict=True))}.items():
            with (folder / f"{name}.npy").open("wb") as file:
                save_array(file, array)
        retriever.index.to_disk(folder / "index")
        data = {
            "terminology": retriever.terminology.fingerprint,
            "encoder": retriever.index.fingerprint,
            "index": hash_file(folder / "index" / INDEX_FILE),
        }
        write_manifest(folder / RETRIEVER_FILE, FORMAT_VERSION, data, below=False)


def read_retriever(path: str | Path, terminology: Terminology, *, memory_map: bool = True) -> Retriever:
    """Load the retriever that `write_retriever` saved."""
    path = Path(path)
    used = [f"{name}.npy" for name in (*ARRAYS, *TABLE_ARRAYS)]
    data = read_manifest(path / RETRIEVER_FILE, FORMAT_VERSION, used=used)
    if data["terminology"] != terminology.fingerprint:
        raise ValueError(Errors.E412.format(path=path, saved_with="the terminology beside it"))
    arrays = [
        np.asarray(np.load(path / f"{name}.npy", mmap_mode="r" if memory_map else None))
        for name in (*ARRAYS, *TABLE_ARRAYS)
    ]
    index = read_index(path / "index", memory_map=memory_map)
    # The index has its own manifest, so an undamaged index copied from another pipeline passes that check.
    if hash_file(path / "index" / INDEX_FILE) != data["index"]:
        raise ValueError(Errors.E412.format(path=path / "index", saved_with="this pipeline"))
    offsets, name_rows, keys, *table = arrays
    return Retriever(terminology, index, offsets, name_rows, keys, NameTable(*table))


def pack_retriever(retriever: Retriever) -> bytes:
    """Serialise index and row table to bytes."""
    return pack_with(partial(write_retriever, retriever))


def unpack_retriever(data: bytes, terminology: Terminology) -> Retriever:
    """Load the retriever that `pack_retriever` serialised."""
    return unpack_with(partial(read_retriever, terminology=terminology, memory_map=False), data)
