"""The kinds of indexes: load a saved one of any kind, choose the best for this platform."""

from __future__ import annotations

from pathlib import Path

from ..errors import Errors
from ..files import read_manifest
from .approximate import ApproximateIndex
from .exact import ExactIndex
from .scann import ScannIndex
from .storage import FORMAT_VERSION, INDEX_FILE
from .usearch import UsearchIndex

# The better one first: ScaNN answers faster, usearch runs everywhere.
APPROXIMATE: tuple[type[ApproximateIndex], ...] = (ScannIndex, UsearchIndex)
_KINDS: dict[str, type[ExactIndex]] = {ExactIndex.kind: ExactIndex, **{cls.kind: cls for cls in APPROXIMATE}}


def choose_kind(wanted: type[ApproximateIndex] = ScannIndex) -> type[ApproximateIndex]:
    """Choose an approximate index whose package is installed.

    wanted (type[ApproximateIndex]): The preferred one.
    RETURNS (type[ApproximateIndex]): The preferred one if its package is installed, or if no other one is: it then
        searches exactly. Otherwise another one.
    """
    return next((cls for cls in (wanted, *APPROXIMATE) if cls.is_installed()), wanted)


def read_index(path: str | Path, *, memory_map: bool = True) -> ExactIndex:
    """Load the index in a folder.

    If the package that it was built with is not installed, but another one is, that one builds an index from the saved
    vectors and adds it to the folder, so that this happens once. A folder that may not be written stays as it is.

    path (str | Path): A folder that an index's `to_disk` wrote.
    memory_map (bool): Map the vectors from disk instead of reading them.
    RETURNS (ExactIndex): The index, of the kind that was saved if possible.
    RAISES (OSError): If a file is missing or damaged, or the kind is unknown.
    """
    path = Path(path)
    kind = read_manifest(path / INDEX_FILE, FORMAT_VERSION, check_files=False).get("kind")
    if kind not in _KINDS:
        raise OSError(Errors.E305.format(path=path, found=kind, expected=" or ".join(_KINDS)))
    saved = _KINDS[kind]
    if issubclass(saved, ApproximateIndex):
        possible = choose_kind(saved)
        if possible is not saved:
            return possible().adopt(path, read_manifest(path / INDEX_FILE, FORMAT_VERSION), memory_map=memory_map)
    return saved().from_disk(path, memory_map=memory_map)


def is_as_configured(index: ExactIndex, configured: ExactIndex) -> bool:
    """Tell whether a loaded index is the one that a config asks for.

    index (ExactIndex): The loaded index.
    configured (ExactIndex): What the config made. One that was chosen for this platform takes any saved kind.
    RETURNS (bool): False if it has to be built again. Folders of version 0.1 do not say what was asked for then.
    """
    if not isinstance(index, ApproximateIndex) or not isinstance(configured, ApproximateIndex):
        return configured.is_auto or type(index) is type(configured)
    is_kind = configured.is_auto or choose_kind(type(configured)) is type(index)
    return is_kind and (not index.has_saved_settings or index.settings == configured.settings)
