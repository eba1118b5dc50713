"""Cosines and distances between the names of a batch, in single precision whatever the encoder computes in."""

from __future__ import annotations

import torch

# Below the smallest step between squared distances of unit vectors in single precision. The square root of 0 has no
# gradient.
TINY = 1e-12


def cosines_between(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Compute the cosines of all vectors of one set with all of another.

    left (torch.Tensor): Shape (n, width), of any length and floating type.
    right (torch.Tensor): Shape (m, width).
    RETURNS (torch.Tensor): Shape (n, m), float32; float64 for float64.
    """
    # Half precision is too coarse here: exp(50 (s - 0.5)) overflows it from s = 0.72 on.
    dtype = torch.promote_types(torch.promote_types(left.dtype, right.dtype), torch.float32)
    return (
        torch.nn.functional.normalize(left.to(dtype), dim=1) @ torch.nn.functional.normalize(right.to(dtype), dim=1).T
    )


def cosines(embeddings: torch.Tensor) -> torch.Tensor:
    """Compute all cosines of a batch.

    embeddings (torch.Tensor): Shape (n, width), of any length and floating type.
    RETURNS (torch.Tensor): Shape (n, n), float32.
    """
    unit = torch.nn.functional.normalize(embeddings.float(), dim=1)
    return unit @ unit.T


def distances(similarities: torch.Tensor) -> torch.Tensor:
    """Turn the cosines of unit vectors into their Euclidean distances: d² = 2 - 2 cos.

    similarities (torch.Tensor): Cosines.
    RETURNS (torch.Tensor): Distances, 0 to 2, of the same shape.
    """
    return (2.0 - 2.0 * similarities).clamp(min=TINY).sqrt()
