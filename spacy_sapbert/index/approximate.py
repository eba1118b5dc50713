"""The base of approximate indexes: a search structure beside the vectors, tuned to a target recall."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import Self

from ..compat import has_package
from ..errors import Warnings
from ..files import fill_folder, read_manifest, write_manifest
from ..progress import show_phase
from ..settings import Settings
from .exact import ExactIndex
from .recall import tune
from .storage import FORMAT_VERSION, INDEX_FILE, VECTORS_FILE

# Below this, an index is searched exactly, because encoding a mention takes much longer than comparing it with every
# row: with a small encoder (MiniLM-L6) 7 times as long at 50,000 rows, and 3 times at 100,000.
EXACT_BELOW = 50_000
# With more rows outside of the structure, comparing with them takes longer than searching the structure.
ADDED_LIMIT = 20_000


class IndexSettings(Settings):
    """The accuracy of the index."""

    recall_target: float = Field(
        default=0.995,
        gt=0,
        le=1,
        description="Share of the queries whose nearest row has to be found, both of left-out rows and of altered "
        "names.",
    )


class ApproximateIndex(ExactIndex):
    """Search with a structure that a package builds of the vectors.

    `build` measures recall against exact search and raises the effort of the search until the target is met. The chosen
    effort is in `configuration`, the measured recall in `recall`. Small indexes, and all indexes without the package,
    are searched exactly. The saved folder has the vectors, so that another kind of index can be built from it.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    package: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = IndexSettings.read(settings, f"the {self.package} index")
        self._structure: Any = None
        self.has_saved_settings = False

    @classmethod
    def is_installed(cls) -> bool:
        """Tell whether the package is installed, which is imported by the name of the kind.

        RETURNS (bool): False if such an index can only be searched exactly.
        """
        return has_package(cls.kind)

    def is_worn(self, unused: int) -> bool:
        """Tell whether the index should be rebuilt, because many rows are unused or not in the structure.

        unused (int): Rows without names.
        RETURNS (bool): Whether to call `rearranged`.
        """
        added = 0 if self._added is None else len(self._added)
        return super().is_worn(unused) or (added > ADDED_LIMIT and self.is_installed())

    def adopt(self, path: Path, data: dict[str, Any], *, memory_map: bool = True) -> Self:
        """Load a folder that another kind of index wrote.

        path (Path): The folder.
        data (dict[str, Any]): Its manifest.
        memory_map (bool): Map the vectors from disk instead of reading them.
        RETURNS (ApproximateIndex): The index itself.
        RAISES (OSError): If the vectors are missing.
        """
        self._read_vectors(path, data, memory_map)
        self._read_settings(data)
        self._find_structure(path, data["files"][VECTORS_FILE], memory_map)
        return self

    def _arguments(self) -> dict[str, Any]:
        return self.settings.to_dict()

    def _is_large(self) -> bool:
        return len(self._arranged) >= EXACT_BELOW

    def _is_approximate(self) -> bool:
        return self._is_large() and self.is_installed()

    def _arrange(self) -> None:
        self._structure = None
        self.configuration, self.recall = {"scoring": "exact"}, {}
        if not self._is_approximate():
            if self._is_large():
                warnings.warn(Warnings.W301.format(package=self.package, rows=len(self)), stacklevel=2)
            return
        self._structure = self._build_structure()
        with show_phase(f"Tuning the index of {len(self._arranged):,} rows"):
            tune(self, self._configurations(), self.settings.recall_target, self._altered)

    def _write(self, folder: Path) -> None:
        if self._structure is not None:
            self._write_structure(folder)
        # ScaNN writes the vectors itself.
        if not (folder / VECTORS_FILE).exists():
            super()._write(folder)

    def _read(self, folder: Path, data: dict[str, Any], memory_map: bool) -> None:
        self._read_settings(data)
        if self.is_installed() and self.configuration["scoring"] != "exact":
            self._structure = self._read_structure(folder, data["files"], memory_map)
        else:
            self._find_structure(folder, data["files"][VECTORS_FILE], memory_map)

    def _read_settings(self, data: dict[str, Any]) -> None:
        # Folders of version 0.1 have no settings.
        self.has_saved_settings = "settings" in data
        self.settings = IndexSettings.read(data.get("settings", self.settings.to_dict()), f"the {self.package} index")

    def _find_structure(self, folder: Path, vectors: str, memory_map: bool) -> None:
        """Open the structure that an earlier call added to a folder without one, or build and add it.

        The structure has a folder and a manifest of its own, because other files depend on the folder's manifest.
        """
        self._structure = None
        self.configuration, self.recall = {"scoring": "exact"}, {}
        kept = folder / self.kind
        if self._is_approximate():
            try:
                data = read_manifest(kept / INDEX_FILE, FORMAT_VERSION)
            except OSError:
                data = {}
            # Built again if it is damaged or of other vectors, since nothing depends on it.
            if (data.get("kind"), data.get("vectors")) == (self.kind, vectors):
                self.configuration, self.recall = data["configuration"], data["recall"]
                self._structure = self._read_structure(kept, data["files"], memory_map)
                return
        self._arrange()
        if self._structure is not None:
            self._keep_structure(folder, vectors)

    def _keep_structure(self, folder: Path, vectors: str) -> None:
        data = {
            "kind": self.kind,
            "vectors": vectors,
            "configuration": self.configuration,
            "recall": self.recall,
        }
        try:
            with fill_folder(folder) as temporary:
                kept = temporary / self.kind
                kept.mkdir()
                self._write_structure(kept)
                (kept / VECTORS_FILE).unlink(missing_ok=True)
                write_manifest(kept / INDEX_FILE, FORMAT_VERSION, data)
        except OSError:
            # The folder may not be written, or the disk is full: the structure serves this process only.
            return

    @abstractmethod
    def _build_structure(self) -> Any:
        """Build the structure from the vectors."""

    @abstractmethod
    def _configurations(self) -> Iterator[dict[str, Any]]:
        """Yield configurations of the search, cheapest first."""

    @abstractmethod
    def _write_structure(self, folder: Path) -> None:
        """Write the structure's files to a folder."""

    @abstractmethod
    def _read_structure(self, folder: Path, files: dict[str, str], memory_map: bool) -> Any:
        """Read the structure's files, which the manifest lists with their hashes, from a folder."""
