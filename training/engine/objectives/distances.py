"""Cosines and distances between the names of a batch, always in single precision."""

from __future__ import annotations

import torch

# Smaller than the resolution of squared distances of unit vectors in single precision. It keeps the square root away
# from 0, where it has no gradient.
TINY = 1e-12


def cosines_between(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Compute all cosines between two sets of vectors.

    left (torch.Tensor): Shape (n, width), of any length and floating type.
    right (torch.Tensor): Shape (m, width).
    RETURNS (torch.Tensor): Shape (n, m), float32; float64 for float64.
    """
    # Half precision overflows: exp(50 (s - 0.5)) exceeds it from s = 0.72 on.
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
    """Convert cosines to Euclidean distances of unit vectors: d² = 2 - 2 cos.

    similarities (torch.Tensor): Cosines.
    RETURNS (torch.Tensor): Distances, 0 to 2, of the same shape.
    """
    return (2.0 - 2.0 * similarities).clamp(min=TINY).sqrt()
