"""The base of the reranker: what it has learned, and how that is saved and loaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spacy import util
from spacy.pipeline import TrainablePipe
from typing_extensions import Self

from ..errors import Errors
from ..files import pack_with, unpack_with
from .context import Context
from .learned import Learned, load_learned, save_learned
from .network import NetworkModel


class LearnedPipe(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled, without types
    """A component with a network and what else it has learned. Subclasses say what it does with them."""

    model: NetworkModel
    # What it has learned, and what it works with for the linkers of the last documents. Both are replaced as a whole.
    _learned: Learned | None = None
    _context: Context | None = None

    @property
    def is_ready(self) -> bool:
        """Tell whether the reranker has been initialized or loaded.

        RETURNS (bool): False before.
        """
        return self._learned is not None

    @property
    def learned(self) -> Learned:
        """Return what the reranker has learned apart from the network's weights.

        RETURNS (Learned): Annotated mentions, calibration, fingerprints.
        RAISES (ValueError): If it has not been initialized.
        """
        if self._learned is None:
            raise ValueError(Errors.E450.format(name=self.name, reason="it has not been initialized"))
        return self._learned

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save network, annotated mentions and calibration to a folder, completely or not at all.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used: a reranker has no parts that could be left out.
        """
        save_learned(Path(path), self.model, self._learned)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from a folder.

        path (str | Path): What `to_disk` has written.
        exclude (Iterable[str]): Not used.
        RETURNS (LearnedPipe): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If it was trained by a version with other features.
        """
        self._replace(load_learned(Path(path), self.model, self.name))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise network, annotated mentions and calibration.

        exclude (Iterable[str]): Not used.
        RETURNS (bytes): The serialised reranker.
        """
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Not used.
        RETURNS (LearnedPipe): The component itself.
        RAISES (ValueError): If the bytes are damaged.
        """
        return unpack_with(self.from_disk, bytes_data)

    def _replace(self, learned: Learned | None) -> None:
        # The context notices if linkers or annotations are not those that it was made for.
        self._learned = learned

    def __getstate__(self) -> dict[str, Any]:
        # The context has the linkers, which a copy of the reranker finds by its documents.
        return {**self.__dict__, "_context": None}
