"""The loop that encoders are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder.transformer import normalise, pool


def make_plain_encoder(source: Any, batch_size: int) -> Callable[[Sequence[str]], np.ndarray]:
    """Make the loop that SapBERT's scripts are: a transformer in float32, each text padded to the full length. Vectors
    have unit length and the encoder's own pooling, so that they have to agree with ours."""
    settings, transformer = source.settings, source.transformer.float().eval()

    def encode_batches(texts: Sequence[str]) -> Iterator[np.ndarray]:
        for start in range(0, len(texts), batch_size):
            batch = [text.lower() if settings.lower_case else text for text in texts[start : start + batch_size]]
            options = {"padding": "max_length", "max_length": settings.max_length, "truncation": True}
            inputs = source.tokenizer(batch, **options, return_tensors="pt")
            mask = inputs["attention_mask"]
            if not settings.attention_mask:
                inputs["attention_mask"] = torch.ones_like(mask)
            with torch.inference_mode():
                output = transformer(**inputs)
                yield normalise(pool(output[0], mask, settings.pooling, getattr(output, "pooler_output", None))).numpy()

    return lambda texts: np.concatenate(list(encode_batches(texts)))
