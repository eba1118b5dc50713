"""Look-up by vectors and by shared characters at once: BioSyn (Sung et al., ACL 2020)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import hash_file

from ...encoders.embeddings import Embeddings
from ..measure import System
from .blocks import search_blocks
from .sparse import SparseEncoder, score_sparse

ENCODER_FOLDER = "encoder"
BIOSYN_FILE = "biosyn.json"
FORMAT_VERSION = 1


class BioSynSystem(System):
    """Finds the names with the highest sum of the inner product of vectors and the weighted product of sparse ones
    (section 3.1). The whole dictionary is searched, not only candidates.

    encoder (EncoderShim | Embeddings): The encoder, whose vectors are taken as they are, or its vectors.
    sparse (SparseEncoder): The sparse encoder.
    weight (float): Weight of sparse products.
    """

    def __init__(self, encoder: EncoderShim | Embeddings, sparse: SparseEncoder, weight: float) -> None:
        self.embeddings = encoder if isinstance(encoder, Embeddings) else Embeddings(encoder)
        self.sparse = sparse
        self.weight = weight

    @property
    def encoder(self) -> EncoderShim:
        """The encoder."""
        return self.embeddings.encoder

    @classmethod
    def from_disk(cls, folder: str | Path, *, cache: str | Path | None = None) -> BioSynSystem:
        """Load what training has written."""
        data = _read(Path(folder) / BIOSYN_FILE)
        encoder = EncoderShim({}, "auto")
        encoder.load(Path(folder) / ENCODER_FOLDER)
        if encoder.fingerprint != data["encoder"]:
            raise ValueError(
                f"The encoder in {folder} is not the one that its weight of shared characters was learned with: "
                f"its fingerprint is {encoder.fingerprint}, not {data['encoder']}. One of the two was replaced. "
                "Train again, or put the right encoder there."
            )
        sparse = SparseEncoder(data["sparse"]["vocabulary"], data["sparse"]["idf"])
        return cls(Embeddings(encoder, cache), sparse, float(data["weight"]))

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest scores. See `Searcher.search`."""
        left, right = (self.embeddings.take(strings, normalised=False) for strings in (queries, names))
        sparse = score_sparse(self.sparse.encode(queries), self.sparse.encode(names))

        def take_queries(block: slice) -> Callable[[slice], np.ndarray]:
            shared, dense = sparse(block), left[block]

            def take_names(rows: slice) -> np.ndarray:
                products = shared(rows)
                products *= self.weight
                products += dense @ right[rows].T
                return products

            return take_names

        return search_blocks(take_queries, len(queries), len(names), k)


class TrainedBioSyn(System):
    """A model of BioSyn, which is loaded when it is asked.

    model (str): The output folder of the training.
    cache (str | Path | None): A folder for vectors of strings; None keeps them in memory.
    """

    def __init__(self, model: str, cache: str | Path | None = None) -> None:
        self.model = model
        self.cache = cache
        self._loaded: BioSynSystem | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name the model by the hash of its file. See `System.identity`."""
        return {"kind": "biosyn", "model": hash_file(Path(self.model) / BIOSYN_FILE)}

    def bind(self, task: Any) -> System:
        """Check that the model is there. See `System.bind`."""
        if not (Path(self.model) / BIOSYN_FILE).is_file():
            raise FileNotFoundError(
                f"The system {'BioSyn'} needs {self.model}, which is not there. Train it first, correct the path, "
                "or take the system out of the config."
            )
        return self

    def release(self) -> None:
        """Forget the model. See `System.release`."""
        self._loaded = None

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Search with the model. See `Searcher.search`."""
        self._loaded = self._loaded or BioSynSystem.from_disk(self.model, cache=self.cache)
        return self._loaded.search(names, queries, k)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(
            f"Can't find the file {path}. Check the path: a relative one starts from the folder you run in "
            f"({Path.cwd()})."
        )
    try:
        data = json.loads(path.read_text(encoding="utf8"))
        sparse = data["sparse"]
        is_whole = data["format"] == FORMAT_VERSION and {"encoder", "weight"} <= set(data)
        is_whole = is_whole and len(sparse["vocabulary"]) == len(sparse["idf"]) > 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not what training of BioSyn writes: {repr(error)}. Give the output folder of a run "
            "with the method biosyn, or train again."
        ) from error
    if not is_whole:
        raise ValueError(
            f"{path} is not what training of BioSyn writes: "
            f"{'its parts do not fit together, or it is of another version'}. Give the output folder of a "
            "run with the method biosyn, or train again."
        )
    return data
