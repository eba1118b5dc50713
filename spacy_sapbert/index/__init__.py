"""Nearest-neighbour search among vectors, independent of strings and concepts. Here: which kind of index to take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import warn
from ..files import read_manifest
from ..settings import with_settings
from .approximate import ApproximateIndex, IndexSettings
from .base import FORMAT_VERSION, PARTS
from .base import INDEX_FILE as INDEX_FILE
from .base import Index as Index
from .base import IndexManifest as IndexManifest
from .base import Subset as Subset
from .base import exact_search as exact_search
from .base import make_room as make_room
from .base import take_best as take_best
from .coarse import CoarseRows as CoarseRows
from .coarse import Vectors as Vectors
from .faiss import FaissIndex as FaissIndex
from .leaves import BLOCK
from .scann import ScannIndex as ScannIndex
from .usearch import UsearchIndex as UsearchIndex

# The better one first: ScaNN and usearch come with the package, on Linux and elsewhere.
APPROXIMATE: tuple[type[ApproximateIndex], ...] = (ScannIndex, UsearchIndex, FaissIndex)
# With more rows, FAISS is read in a quarter to a tenth of the time that ScaNN takes, which is then seconds.
FAISS_FROM = 2_000_000
KINDS: dict[str, type[Index]] = {Index.kind: Index, **{cls.kind: cls for cls in APPROXIMATE}}
MEMINFO = Path("/proc/meminfo")
GB = 1e9


@with_settings(IndexSettings)
def make_auto_index(**settings: Any) -> ApproximateIndex:
    """Make an empty index for ScaNN where it is installed, for usearch elsewhere."""
    return _make_auto(choose_kind(), settings)


def fit_kind(index: Index, rows: int) -> Index:
    """Make an empty index with the settings of another one, for a number of rows. These decide on its kind where the
    config left the choice to the platform."""
    if not index.is_auto or not isinstance(index, ApproximateIndex):
        return index.empty()
    return _make_auto(choose_kind(FaissIndex if rows > FAISS_FROM else ScannIndex), index.settings.to_dict())


def _make_auto(kind: type[ApproximateIndex], settings: dict[str, Any]) -> ApproximateIndex:
    index = kind(**settings)
    index.is_auto = True
    return index


def choose_kind(wanted: type[ApproximateIndex] = ScannIndex) -> type[ApproximateIndex]:
    """Choose an approximate index whose package is installed: the wanted one, or else another one. If none is, the
    wanted one searches exactly."""
    return next((cls for cls in (wanted, *APPROXIMATE) if cls.is_installed()), wanted)


def read_index(path: str | Path, *, memory_map: bool = True) -> Index:
    """Load the index in a folder that `to_disk` wrote, of the kind that was saved if possible. If the package that it
    was built with is not installed, but another one is, that one builds an index from the saved vectors."""
    manifest = Path(path) / INDEX_FILE
    kind = read_manifest(manifest, FORMAT_VERSION, IndexManifest, parts=PARTS, check_files=False)["kind"]
    if kind not in KINDS:
        raise OSError(f"'{path}' holds an index of kind {kind!r}, not one of: {', '.join(KINDS)}")
    cls = KINDS[kind]
    index = choose_kind(cls)() if issubclass(cls, ApproximateIndex) else cls()
    index.read(Path(path), memory_map)
    return index


def is_as_configured(index: Index, configured: Index) -> bool:
    """Return whether a loaded index is what a config asks for, so that it need not be built again. A config that leaves
    the choice to the platform takes any saved kind."""
    if not isinstance(index, ApproximateIndex) or not isinstance(configured, ApproximateIndex):
        return configured.is_auto or type(index) is type(configured)
    is_kind = configured.is_auto or choose_kind(type(configured)) is type(index)
    return is_kind and index.settings == configured.settings


def find_available() -> int | None:
    """Find how many bytes of memory the system can still give to processes; None where it does not say."""
    match = re.search(r"MemAvailable: +(\d+) kB", MEMINFO.read_text(encoding="ascii")) if MEMINFO.exists() else None
    return int(match[1]) * 1024 if match else None


def warn_of_memory(vectors: Vectors) -> None:
    """Warn of a build that needs more memory than there is, for the vectors and two copies of a block in float32."""
    rows, width = vectors.shape
    needed = vectors.nbytes + min(rows, BLOCK) * width * 4 * 2
    available = find_available()
    if available is not None and needed > available:
        warn(
            f"an index of {rows:,} rows needs about {needed / GB:.1f} GB of memory while it is built, and "
            f"{available / GB:.1f} GB are available. The system may end the process. Use a machine with more "
            "memory, fewer names, or an encoder of narrower vectors; `vectors_path` keeps what has been encoded",
        )
