"""Look-up by vectors and by shared characters at once: BioSyn (Sung et al., ACL 2020)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.encoder import EncoderShim

from ...errors import Errors
from .blocks import search_blocks
from .sparse import SparseEncoder, score_sparse

ENCODER_FOLDER = "encoder"
BIOSYN_FILE = "biosyn.json"
FORMAT_VERSION = 1


class BioSynSystem:
    """Names with the highest sum of the inner product of vectors and the weighted product of sparse ones (section 3.1).

    The whole dictionary is searched, not only candidates.

    encoder (EncoderShim): The encoder, whose vectors are taken as they are.
    sparse (SparseEncoder): The sparse encoder.
    weight (float): That of sparse products.
    batch_size (int): Strings in one forward pass.
    vectors (Optional[Callable]): What gives the vectors of strings, shape (n, width), float32, in place of the encoder:
        a store that has them already, for example.
    """

    def __init__(
        self,
        encoder: EncoderShim,
        sparse: SparseEncoder,
        weight: float,
        *,
        batch_size: int = 256,
        vectors: Callable[[Sequence[str]], np.ndarray] | None = None,
    ) -> None:
        self.encoder = encoder
        self.sparse = sparse
        self.weight = weight
        self.batch_size = batch_size
        self.vectors = vectors or self._encode

    @classmethod
    def from_disk(
        cls,
        folder: str | Path,
        *,
        batch_size: int = 256,
        vectors: Callable[[Sequence[str]], np.ndarray] | None = None,
    ) -> BioSynSystem:
        """Load what training has written.

        folder (str | Path): The output folder of the training.
        batch_size (int): Strings in one forward pass.
        vectors (Optional[Callable]): What gives the vectors of strings in place of the encoder.
        RETURNS (BioSynSystem): The system.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If the folder holds something else, or another encoder than that of the weight.
        """
        data = _read(Path(folder) / BIOSYN_FILE)
        encoder = EncoderShim({}, "auto")
        encoder.load(Path(folder) / ENCODER_FOLDER)
        if encoder.fingerprint != data["encoder"]:
            raise ValueError(Errors.E766.format(path=folder, found=encoder.fingerprint, wanted=data["encoder"]))
        sparse = SparseEncoder(data["sparse"]["vocabulary"], data["sparse"]["idf"])
        return cls(encoder, sparse, float(data["weight"]), batch_size=batch_size, vectors=vectors)

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest scores. See `System.search`."""
        left, right = self.vectors(queries), self.vectors(names)
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

    def _encode(self, strings: Sequence[str]) -> np.ndarray:
        place = {string: row for row, string in enumerate(dict.fromkeys(strings))}
        vectors = self.encoder.encode_unscaled(list(place), batch_size=self.batch_size)
        return vectors if len(place) == len(strings) else vectors[[place[string] for string in strings]]


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        data = json.loads(path.read_text(encoding="utf8"))
        sparse = data["sparse"]
        is_whole = data["format"] == FORMAT_VERSION and {"encoder", "weight"} <= set(data)
        is_whole = is_whole and len(sparse["vocabulary"]) == len(sparse["idf"]) > 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(Errors.E765.format(path=path, reason=repr(error))) from error
    if not is_whole:
        raise ValueError(
            Errors.E765.format(path=path, reason="its parts do not fit together, or it is of another version")
        )
    return data
