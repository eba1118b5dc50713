"""From hidden states to one vector a string. Training and prediction share these functions."""

from __future__ import annotations

import torch

from ..types import Pooling


def pool(
    hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling, pooler_output: torch.Tensor | None = None
) -> torch.Tensor:
    """Reduce the hidden states of each string to one vector, in float32.

    hidden (Tensor): Last hidden states, shape (batch, length, width).
    mask (Tensor): 1 for real tokens, 0 for padding, shape (batch, length).
    pooling (str): See `EncoderSettings.pooling`.
    pooler_output (Optional[Tensor]): Shape (batch, width); needed for "pooler" only.
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
