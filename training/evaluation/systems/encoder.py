"""Look-up by vectors of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import Self

from spacy_sapbert.encoder.settings import Pooling
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import resolve_device

from ...encoders.bases import SMALL, EncoderChoice, load_base
from ...encoders.embeddings import Embeddings
from ...engine.nearest import search_on_device
from ..measure import LazySystem, System
from ..settings import SystemSettings

Similarity = Literal["cosine", "dot"]


class EncoderSystem(System):
    """Finds the names whose vectors are the most similar to that of the query, by exact search.

    The similarity "dot" is the inner product of vectors as they are, as SapBERT was measured.
    """

    gives = frozenset({"search", "encode"})

    def __init__(self, encoder: EncoderShim | Embeddings, *, similarity: Similarity = "cosine") -> None:
        self.embeddings = encoder if isinstance(encoder, Embeddings) else Embeddings(encoder)
        self.similarity = similarity

    @property
    def encoder(self) -> EncoderShim:
        """The encoder."""
        return self.embeddings.encoder

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint and its precision, which changes rounding."""
        return f"{self.encoder.fingerprint} {self.encoder.dtype}"

    @property
    def identity(self) -> dict[str, Any]:
        """Name encoder and similarity. See `System.identity`."""
        return {"kind": "encoder", "encoder": self.fingerprint, "similarity": self.similarity}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the most similar vectors. See `Searcher.search`."""
        self.embeddings.add([*names, *queries])
        normalised = self.similarity == "cosine"
        # Names are read in blocks: their vectors may not fit into memory.
        left, right = self.embeddings.take(queries, normalised=normalised), self.embeddings.view(names, normalised)
        return search_on_device(right, left, k, resolve_device("auto"))

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings. A string of unknown tokens only is not known. See `NameVectors.encode`."""
        row_of = {string: row for row, string in enumerate(dict.fromkeys(strings))}
        is_known = np.array([self.encoder.is_informative(ids) for ids in self.encoder.tokenize(list(row_of))], bool)
        vectors = np.zeros((len(row_of), self.encoder.width), dtype=np.float32)
        known = [string for string, row in row_of.items() if is_known[row]]
        if known:
            vectors[is_known] = self.embeddings.take(known, normalised=False)
        rows = [row_of[string] for string in strings]
        return vectors[rows], is_known[rows]


class EncoderSystemSettings(SystemSettings):
    """Settings of `EncoderSystem`.

    encoder (str): A folder, hub name or short name; empty for the small encoder.
    encoders (str | None): Several in place of one, with commas between them: NAME=FOLDER, or a folder, which is then
        the name as well.
    """

    gives: ClassVar[frozenset[str]] = EncoderSystem.gives
    trained: ClassVar[str] = "encoder"

    encoder: str = ""
    encoders: str | None = None
    similarity: Similarity = "cosine"
    pooling: Pooling | None = None
    max_length: int | None = None
    lower_case: bool | None = None
    pad_to_length: int | None = None
    attention_mask: bool | None = None

    def expand(self, name: str) -> dict[str, Self]:
        """List the systems of all encoders and seeds."""
        if self.encoders is None:
            return super().expand(name)
        systems: dict[str, Self] = {}
        for entry in self.encoders.split(","):
            label, _, folder = (part.strip() for part in entry.rpartition("="))
            label = label or folder or SMALL
            if label in systems:
                raise ValueError(f"Two of the encoders are called {label!r}: give them names, as NAME=FOLDER.")
            systems[label] = self.changed(encoder=folder, encoders=None)
        return systems

    def make(self, cache: Path | None) -> System:
        """Make the system, which loads its encoder when it is asked."""
        choice = EncoderChoice(**{name: getattr(self, name) for name in EncoderChoice.model_fields})
        path, similarity = self.encoder, self.similarity
        return LazySystem(
            lambda: EncoderSystem(Embeddings(load_base(path, choice), cache), similarity=similarity), self.gives
        )
