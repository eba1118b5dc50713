"""The loop that SapBERT's evaluation is: all names in one matrix, all products, all of them sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from spacy_sapbert.encoder.transformer import EncoderSource

NAMES_AT_ONCE = 2048
LENGTH = 25
NEIGHBOURS = 10


class PlainLoop:
    """Encode in float32 with padding to the full length, and sort all names for every mention.

    Products are cosines and not those of vectors as they are, so that other systems have to agree.

    source (EncoderSource): Weights, tokenizer and pooling.
    """

    def __init__(self, source: EncoderSource) -> None:
        self._source = source
        self._transformer = source.transformer.float().eval()
        self._names = np.empty((0, 0), dtype=np.float32)

    def build(self, names: Sequence[str]) -> None:
        """Encode the dictionary.

        names (Sequence[str]): The names.
        """
        batches = (names[start : start + NAMES_AT_ONCE] for start in range(0, len(names), NAMES_AT_ONCE))
        self._names = np.concatenate([self._encode(batch) for batch in batches])

    def search(self, queries: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find the most similar names of some mentions at once.

        queries (Sequence[str]): The mentions.
        RETURNS (tuple[ndarray, ndarray]): Rows, shape (queries, 10), best first, and their cosines.
        """
        products = self._encode(queries) @ self._names.T
        rows = np.argsort(-products, axis=1)[:, :NEIGHBOURS]
        return rows, np.take_along_axis(products, rows, axis=1)

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        from spacy_sapbert.encoder.transformer import normalise, pool

        settings = self._source.settings
        if settings.lower_case:
            texts = [text.lower() for text in texts]
        inputs = self._source.tokenizer(
            list(texts), padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt"
        )
        mask = inputs["attention_mask"]
        if not settings.attention_mask:
            inputs["attention_mask"] = torch.ones_like(mask)
        with torch.inference_mode():
            output = self._transformer(**inputs)
            pooled = pool(output[0], mask, settings.pooling, getattr(output, "pooler_output", None))
            return normalise(pooled).numpy()
