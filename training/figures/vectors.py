"""Vectors by the name under which a figure shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import Errors

Vectors = Callable[[Sequence[str]], np.ndarray]
# Rounding of half precision changes the length of a unit vector by less.
TOLERANCE = 0.01


def compute_vectors(label: str, vectors: Vectors, strings: Sequence[str]) -> np.ndarray:
    """Compute vectors, and refuse those that cannot be compared.

    label (str): What the figure calls them.
    vectors (Callable): The function.
    strings (Sequence[str]): The strings.
    RETURNS (ndarray): Shape (n, width), float32, L2-normalised.
    RAISES (ValueError): If they are of another shape or length.
    """
    found = np.asarray(vectors(strings), dtype=np.float32)
    if found.ndim != 2 or len(found) != len(strings):
        raise ValueError(Errors.E790.format(label=label, n=len(strings), reason=f"their shape is {found.shape}"))
    lengths = np.linalg.norm(found, axis=1)
    # Not `> TOLERANCE`, which is false of a NaN.
    is_wrong = ~(np.abs(lengths - 1.0) <= TOLERANCE)
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        reason = f"that of {strings[row]!r:.80} has the length {lengths[row]:.3g}"
        raise ValueError(Errors.E790.format(label=label, n=len(strings), reason=reason))
    return found
