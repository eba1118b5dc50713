"""Vectors for tests of indexes."""

import numpy as np

WIDTH = 32


def clustered_vectors(rows=3000, seed=0):
    """Make unit vectors in 200 clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(200, WIDTH))
    vectors = centres[rng.integers(200, size=rows)] + 0.4 * rng.normal(size=(rows, WIDTH))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
