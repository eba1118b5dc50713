"""The kinds of indexes: make one for a config, load a saved one, and the memory that a build needs."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, Warnings
from ..files import read_manifest
from ..settings import with_settings
from .approximate import ApproximateIndex, IndexSettings
from .base import FORMAT_VERSION, INDEX_FILE, Index, choose_dtype
from .scann import PART_ROWS, ScannIndex
from .usearch import UsearchIndex

# The better one first: ScaNN answers faster, usearch runs everywhere.
APPROXIMATE: tuple[type[ApproximateIndex], ...] = (ScannIndex, UsearchIndex)
_KINDS: dict[str, type[Index]] = {Index.kind: Index, **{cls.kind: cls for cls in APPROXIMATE}}
MEMINFO = Path("/proc/meminfo")
GB = 1e9


@with_settings(IndexSettings)
def make_auto_index(**settings: Any) -> ApproximateIndex:
    """Make an empty index for ScaNN where it is installed, for usearch elsewhere."""
    index = choose_kind()(**settings)
    index.is_auto = True
    return index


def choose_kind(wanted: type[ApproximateIndex] = ScannIndex) -> type[ApproximateIndex]:
    """Choose an approximate index whose package is installed: the wanted one, or else another one.

    If none is, the wanted one searches exactly.
    """
    return next((cls for cls in (wanted, *APPROXIMATE) if cls.is_installed()), wanted)


def read_index(path: str | Path, *, memory_map: bool = True) -> Index:
    """Load the index in a folder that `to_disk` wrote, of the kind that was saved if possible.

    If the package that it was built with is not installed, but another one is, that one builds an index from the saved
    vectors.
    """
    path = Path(path)
    kind = read_manifest(path / INDEX_FILE, FORMAT_VERSION, check_files=False).get("kind")
    if kind not in _KINDS:
        raise OSError(Errors.E305.format(path=path, found=kind, expected=" or ".join(_KINDS)))
    saved = _KINDS[kind]
    if issubclass(saved, ApproximateIndex) and (possible := choose_kind(saved)) is not saved:
        index = possible()
        index.read(path, read_manifest(path / INDEX_FILE, FORMAT_VERSION, used=["*.npy"]), memory_map)
        return index
    return saved().from_disk(path, memory_map=memory_map)


def is_as_configured(index: Index, configured: Index) -> bool:
    """Tell whether a loaded index is what a config asks for, so that it need not be built again.

    A config that leaves the choice to the platform takes any saved kind.
    """
    if not isinstance(index, ApproximateIndex) or not isinstance(configured, ApproximateIndex):
        return configured.is_auto or type(index) is type(configured)
    is_kind = configured.is_auto or choose_kind(type(configured)) is type(index)
    return is_kind and index.settings == configured.settings


def estimate_build(rows: int, width: int) -> int:
    """Estimate the bytes that building an index takes: the vectors, and the largest part's in float32 for ScaNN."""
    part = min(rows, PART_ROWS) * width * np.dtype(np.float32).itemsize
    dtype = choose_dtype(rows)
    # The vectors of a single part in float32 are the index's own.
    return rows * width * dtype.itemsize + (part if dtype == np.float32 else 2 * part)


def find_available() -> int | None:
    """Find how many bytes of memory the system can still give to processes; None where it does not say."""
    found = re.search(r"MemAvailable: +(\d+) kB", MEMINFO.read_text(encoding="ascii")) if MEMINFO.exists() else None
    return int(found[1]) * 1024 if found else None


def warn_of_memory(rows: int, width: int) -> None:
    """Warn of a build that needs more memory than there is."""
    needed, available = estimate_build(rows, width), find_available()
    if available is not None and needed > available:
        message = Warnings.W303.format(rows=rows, needed=needed / GB, available=available / GB)
        warnings.warn(message, stacklevel=3)
