"""Vectors and fixtures for tests of indexes."""

import numpy as np
import pytest

from spacy_sapbert.index import ScannIndex, UsearchIndex

WIDTH = 32


def clustered_vectors(rows=3000, seed=0):
    """Make unit vectors in 200 clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(200, WIDTH))
    vectors = centres[rng.integers(200, size=rows)] + 0.4 * rng.normal(size=(rows, WIDTH))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def measure_recall(index, vectors):
    """Leave one out, over all rows, in plain NumPy."""
    products = vectors.astype(np.float64) @ vectors.T
    np.fill_diagonal(products, -np.inf)
    rows, _ = index.search(vectors, 2)
    found = [
        max((products[i, row] for row in candidates if row not in (i, -1)), default=-np.inf)
        for i, candidates in enumerate(rows.tolist())
    ]
    return (np.array(found) >= products.max(axis=1) - 1e-5).mean()


def lower_thresholds(patch):
    """Let a small index be searched approximately, with few candidates."""
    patch.setattr("spacy_sapbert.index.approximate.EXACT_BELOW", 2000)
    patch.setattr("spacy_sapbert.index.usearch.ROWS_PER_CANDIDATE", 2)
    patch.setattr("spacy_sapbert.index.usearch.EXPANSIONS", (4, 8, 16, 32, 64, 128))


def build(cls):
    pytest.importorskip(cls.kind)
    with pytest.MonkeyPatch.context() as patch:
        lower_thresholds(patch)
        index = cls(recall_target=0.97)
        index.build(clustered_vectors(), fingerprint="f")
    return index


@pytest.fixture
def low_thresholds(monkeypatch):
    lower_thresholds(monkeypatch)


@pytest.fixture(scope="session")
def scann_index():
    return build(ScannIndex)


@pytest.fixture(scope="session")
def usearch_index():
    return build(UsearchIndex)


@pytest.fixture
def install(monkeypatch):
    """Make it look as if only some of the packages were installed."""

    def install(*names):
        monkeypatch.setattr("spacy_sapbert.index.approximate.find_spec", lambda name: name if name in names else None)

    return install
