"""The loop that the encoder is compared with: transformers as its documentation shows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from spacy_sapbert.encoder.settings import EncoderSettings
from spacy_sapbert.encoder.transformer import normalise, pool
from spacy_sapbert.encoder.transformer_folder import read_metadata

BATCH_SIZE = 128


class PlainEncoder:
    """Encode strings in the order given, in float32, all padded to the same length, as SapBERT's scripts do.

    name (str): Encoder folder or hub name.
    settings (EncoderSettings): Length and pooling, so that the vectors have to agree.
    """

    def __init__(self, name: str, settings: EncoderSettings) -> None:
        subfolder, _ = read_metadata(name)
        self.settings = settings
        self.tokenizer = AutoTokenizer.from_pretrained(name, subfolder=subfolder, trust_remote_code=False)
        self.transformer = AutoModel.from_pretrained(
            name, subfolder=subfolder, torch_dtype=torch.float32, trust_remote_code=False, use_safetensors=True
        ).eval()

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encode strings.

        texts (Sequence[str]): The strings.
        RETURNS (ndarray): Shape (n, width), float32, L2-normalised.
        """
        batches = (texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE))
        return np.concatenate([self._encode_batch(list(batch)) for batch in batches])

    def _encode_batch(self, texts: list[str]) -> np.ndarray:
        settings = self.settings
        if settings.lower_case:
            texts = [text.lower() for text in texts]
        length = settings.max_length
        inputs = self.tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
        mask = inputs["attention_mask"]
        if not settings.attention_mask:
            inputs["attention_mask"] = torch.ones_like(mask)
        with torch.inference_mode():
            output = self.transformer(**inputs)
            pooled = pool(output[0], mask, settings.pooling, getattr(output, "pooler_output", None))
            return normalise(pooled).numpy()
