"""One forward pass, from token ids to one vector a string. Training and prediction share these functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch

from ..types import Pooling
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


def pool(
    hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling, pooler_output: torch.Tensor | None = None
) -> torch.Tensor:
    """Reduce the hidden states of each string to one vector, in float32.

    hidden (Tensor): Last hidden states, shape (batch, length, width).
    mask (Tensor): 1 for real tokens, 0 for padding, shape (batch, length).
    pooling (str): See `EncoderSettings.pooling`.
    pooler_output (Tensor | None): Shape (batch, width); needed for "pooler" only.
    RETURNS (Tensor): Shape (batch, width), not normalised.
    """
    if pooling == "pooler":
        assert pooler_output is not None  # the folder reader refuses such an encoder without a pooler
        return pooler_output.float()
    if pooling == "cls":
        return hidden[:, 0].float()
    if pooling == "mean_all_tok":
        return hidden.float().mean(dim=1)
    weights = mask.unsqueeze(-1).float()
    return (hidden.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def normalise(vectors: torch.Tensor) -> torch.Tensor:
    """Scale vectors to unit length, so that inner products are cosines.

    vectors (Tensor): Shape (batch, width).
    RETURNS (Tensor): Same shape, L2-normalised.
    """
    return torch.nn.functional.normalize(vectors, dim=-1)
