"""The floating-point precision of the encoder."""

from __future__ import annotations

from typing import get_args

import torch

from ..errors import Errors
from ..types import Precision


def resolve_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """Choose the data type of the forward pass.

    precision (str): "fp32", "bf16", or "auto": bf16 where the processor has instructions for it, else fp32. Emulated
        bf16 would be slower than fp32.
    device (torch.device): Where the forward pass runs.
    RETURNS (torch.dtype): float32 or bfloat16.
    RAISES (ValueError): If the precision is none of the three.
    """
    if precision not in get_args(Precision):
        allowed = f"one of {', '.join(get_args(Precision))}"
        raise ValueError(
            Errors.E404.format(name="precision", where=" of the encoder", value=precision, allowed=allowed)
        )
    if precision == "auto":
        return torch.bfloat16 if _has_bf16(device) else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False
