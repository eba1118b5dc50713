"""One forward pass over strings that are tokenised already. Training and prediction share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch

from .pooling import pool
from .settings import EncoderSettings

TokenIds = Sequence[int] | np.ndarray


def forward(
    transformer: torch.nn.Module,
    batch: Sequence[TokenIds],
    settings: EncoderSettings,
    *,
    pad_id: int,
    device: torch.device,
) -> torch.Tensor:
    """Pad a batch as its settings say, run the transformer and pool.

    transformer (Module): A Hugging Face transformer on the device.
    batch (Sequence[Sequence[int]]): Token ids of each string, special tokens included.
    settings (EncoderSettings): Pooling, padding, mask.
    pad_id (int): The token for padding.
    device (device): Where to compute.
    RETURNS (Tensor): Shape (batch, width), float32, not normalised.
    """
    longest = settings.pad_to_length or max(len(ids) for ids in batch)
    lengths = np.fromiter((len(ids) for ids in batch), dtype=np.int64, count=len(batch))
    real = np.arange(longest) < lengths[:, None]
    padded_ids = np.full(real.shape, pad_id, dtype=np.int64)
    padded_ids[real] = np.fromiter(chain.from_iterable(batch), dtype=np.int64, count=int(lengths.sum()))
    ids = torch.from_numpy(padded_ids).to(device)
    mask = torch.from_numpy(real.astype(np.int64)).to(device)
    seen = mask if settings.attention_mask else torch.ones_like(mask)
    output = transformer(input_ids=ids, attention_mask=seen)
    return pool(output[0], mask, settings.pooling, getattr(output, "pooler_output", None))
