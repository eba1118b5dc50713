"""Vectors and fixtures for tests of indexes."""

import numpy as np
import pytest

from spacy_sapbert.index import FaissIndex, ScannIndex, UsearchIndex

WIDTH = 32


def unit_vectors(rows, width=16, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def clustered_vectors(rows=3000, seed=0):
    """Make unit vectors in 200 clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(200, WIDTH))
    vectors = centres[rng.integers(200, size=rows)] + 0.4 * rng.normal(size=(rows, WIDTH))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def lower_thresholds(patch):
    """Let a small index be searched approximately, with few candidates, and usearch always build the same graph."""
    patch.setenv("OMP_NUM_THREADS", "1")
    patch.setattr("spacy_sapbert.index.approximate.EXACT_BELOW", 2000)
    patch.setattr("spacy_sapbert.index.usearch.ROWS_PER_CANDIDATE", 2)
    patch.setattr("spacy_sapbert.index.usearch.EXPANSIONS", (4, 8, 16, 32, 64, 128))


def build(cls, rows=3000, recall_target=0.97):
    """Build an approximate index of `clustered_vectors`."""
    pytest.importorskip(cls.kind)
    with pytest.MonkeyPatch.context() as patch:
        lower_thresholds(patch)
        index = cls(recall_target=recall_target)
        index.build(clustered_vectors(rows), fingerprint="f")
    return index


def check_scores(index, rows, scores, queries):
    """Check that rows are distinct, and scores are their cosines, highest first."""
    assert rows.dtype == np.int64 and scores.dtype == np.float32 and rows.min() >= 0
    for query, found, values in zip(queries, rows, scores, strict=True):
        assert len(set(found.tolist())) == len(found)
        np.testing.assert_allclose(index.vectors[found].astype(np.float32) @ query, values, atol=1e-5)
        assert (np.diff(values) <= 0).all()


@pytest.fixture
def low_thresholds(monkeypatch):
    lower_thresholds(monkeypatch)


@pytest.fixture(scope="session")
def scann_index():
    return build(ScannIndex)


@pytest.fixture(scope="session")
def usearch_index():
    return build(UsearchIndex)


@pytest.fixture(scope="session")
def faiss_index():
    return build(FaissIndex)


@pytest.fixture
def install(monkeypatch):
    """Make it look as if only some of the packages were installed."""

    def install(*names):
        monkeypatch.setattr("spacy_sapbert.index.approximate.find_spec", lambda name: name if name in names else None)

    return install
