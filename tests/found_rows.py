"""What searches are compared by: ancestors, vectors without rounding errors, and the rows of a table of candidates."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import Terminology


def list_above(terminology: Terminology, concept_id: str) -> set[str]:
    """A concept and all its ancestors. There may be circles, and parents that the terminology lacks."""
    seen: set[str] = set()
    pending = [concept_id]
    while pending:
        current = pending.pop()
        if current not in seen and current in terminology:
            seen.add(current)
            pending += terminology[current].parents
    return seen


class ExactEncoder(EncoderShim):
    """Gives each token sequence a vector of small fractions, whose products have no rounding errors."""

    encoded = 0

    def encode_tokens(self, tokens, *, batch_size=256):
        self.encoded += len(tokens)
        vectors = np.empty((len(tokens), self.width), dtype=np.float32)
        for row, ids in enumerate(tokens):
            seed = [int(token) for token in ids]
            vectors[row] = np.random.default_rng(seed).integers(-256, 257, size=self.width) / 256
        return vectors


class Hit(NamedTuple):
    """A concept that was found, by a name, with a score."""

    concept: int
    name: int
    score: float


def list_hits(found):
    """List what was found for each mention."""
    rows = [*map(Hit, found.concept.tolist(), found.name.tolist(), found.score.tolist())]
    return [rows[start:end] for start, end in pairwise(found.offsets.tolist())]
