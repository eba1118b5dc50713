"""Look-up by vectors and by shared characters at once: BioSyn (Sung et al., ACL 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import hash_file

from ...methods.biosyn.scorer import BIOSYN_FILE, BioSynScorer
from ..measure import System


class TrainedBioSyn(System):
    """A model of BioSyn, the output folder of its training, which is loaded when it is asked."""

    def __init__(self, model: str, cache: str | Path | None = None) -> None:
        self.model = model
        self.cache = cache
        self._loaded: BioSynScorer | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name the model by the hash of its file. See `System.identity`."""
        return {"kind": "biosyn", "model": hash_file(Path(self.model) / BIOSYN_FILE)}

    def bind(self, task: Any) -> System:
        """Check that the model is there. See `System.bind`."""
        if not (Path(self.model) / BIOSYN_FILE).is_file():
            raise FileNotFoundError(
                f"There is no model of BioSyn in {self.model} (seen from {Path.cwd()}). Train it first, correct the "
                "path, or take the system out of the config."
            )
        return self

    def release(self) -> None:
        """Forget the model. See `System.release`."""
        self._loaded = None

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Search with the model. See `Searcher.search`."""
        self._loaded = self._loaded or BioSynScorer.from_disk(self.model, cache=self.cache)
        return self._loaded.search(names, queries, k)
