"""Weights of a transformer in 8 bits: each row of a matrix is whole numbers from -127 to 127, times a scale. Vectors
such as biases stay float32.

A scale has so few digits that the product is exact. So weights that were rounded once stay as they are, however often
they are saved and read."""

from __future__ import annotations

from collections.abc import Mapping

import torch

ROUNDED_FILE = "model_int8.safetensors"
# Behind the name of a matrix.
SCALES = ".scales"
LARGEST = 127
# The lower digits of float32 that scales don't use: 7 bits of a number and 17 of a scale are the 24 of float32.
UNUSED = 0x7F


def to_rows(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round the rows of a matrix: int8, and the scale of each row, float32."""
    largest = matrix.abs().amax(dim=1) / LARGEST
    scales = ((largest.view(torch.int32) + UNUSED) & ~UNUSED).view(torch.float32)
    rows = torch.round(matrix / torch.where(scales > 0, scales, 1.0)[:, None])
    return rows.to(torch.int8), scales


def is_rounded(tensor: torch.Tensor) -> bool:
    """Whether a weight is a matrix, whose rows are rounded."""
    return tensor.ndim == 2 and tensor.is_floating_point()


def pack_weights(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Round the matrices among weights, and name their scales."""
    packed: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        values = tensor.detach().cpu().float() if tensor.is_floating_point() else tensor.detach().cpu()
        if is_rounded(values):
            packed[name], packed[name + SCALES] = to_rows(values)
        else:
            packed[name] = values.clone()
    return packed


def unpack_weights(packed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Give the weights that `pack_weights` has packed. Its ValueErrors are reasons, not whole messages."""
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in packed.items():
        if name.endswith(SCALES):
            if name.removesuffix(SCALES) not in packed:
                raise ValueError(f"{name} are scales of a matrix that is not there")
        elif tensor.dtype == torch.int8:
            weights[name] = _unpack_matrix(name, tensor, packed.get(name + SCALES))
        elif name + SCALES in packed or is_rounded(tensor):
            raise ValueError(f"{name} is a matrix of {tensor.dtype}, not of {torch.int8}")
        elif tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{name} is not finite")
        else:
            weights[name] = tensor
    return weights


def _unpack_matrix(name: str, rows: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
    if scales is None or scales.dtype != torch.float32 or scales.shape != rows.shape[:1] or rows.ndim != 2:
        shape = "no scales" if scales is None else f"scales {scales.dtype} {tuple(scales.shape)}"
        raise ValueError(f"{name} has rows {tuple(rows.shape)} and {shape}, not a float32 scale for each row")
    matrix = rows.float() * scales[:, None]
    again, scales_again = to_rows(matrix)
    # Rows and scales that no rounding gives: infinite or negative scales, -128, a row without its largest number.
    if not (torch.equal(rows, again) and torch.equal(scales, scales_again)):
        raise ValueError(f"{name} has rows or scales that don't come from rounding")
    return matrix


def round_weights(transformer: torch.nn.Module) -> torch.nn.Module:
    """Round the matrices of a transformer in place, as they will be stored."""
    weights = transformer.state_dict()
    transformer.load_state_dict(unpack_weights(pack_weights(weights)))
    return transformer
