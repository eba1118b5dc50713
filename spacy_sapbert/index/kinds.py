"""Load a saved index of any kind."""

from __future__ import annotations

from pathlib import Path

from ..errors import Errors
from ..files import read_manifest
from .exact import ExactIndex
from .scann import ScannIndex
from .storage import FORMAT_VERSION, INDEX_FILE

_KINDS: dict[str, type[ExactIndex]] = {cls.kind: cls for cls in (ExactIndex, ScannIndex)}


def read_index(path: str | Path, *, memory_map: bool = True) -> ExactIndex:
    """Load the index in a folder.

    path (str | Path): A folder that an index's `to_disk` wrote.
    memory_map (bool): Map the vectors from disk instead of reading them.
    RETURNS (ExactIndex): The index, of the kind that was saved.
    RAISES (OSError): If a file is missing or damaged, or the kind is unknown.
    """
    kind = read_manifest(Path(path) / INDEX_FILE, FORMAT_VERSION, check_files=False).get("kind")
    if kind not in _KINDS:
        raise OSError(Errors.E305.format(path=path, found=kind, expected=" or ".join(_KINDS)))
    return _KINDS[kind]().from_disk(path, memory_map=memory_map)
