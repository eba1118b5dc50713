"""Exact search against a sort in NumPy, and the storage that all indexes share."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_vectors import unit_vectors

from spacy_sapbert.files import write_manifest
from spacy_sapbert.index import Index, Subset, read_index

RELAXED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
NEAREST = "spacy_sapbert.index.base"


def assert_best(vectors, queries, rows, scores):
    """Compare with a sort of all products. Which of the rows that tie at the cut are taken is left open."""
    products = queries @ vectors.T
    assert (scores == -np.sort(-products, axis=1)[:, : rows.shape[1]]).all()
    assert (scores == np.take_along_axis(products, rows, axis=1)).all()
    for pairs in np.stack([-scores, rows], axis=-1).tolist():
        # Each row once, and equal scores by row.
        assert pairs == sorted(map(list, {*map(tuple, pairs)}))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(f"{NEAREST}.QUERY_BLOCK", 3)
    monkeypatch.setattr(f"{NEAREST}.ROW_BLOCK", 9)
    monkeypatch.setattr(f"{NEAREST}.GROUP", 2)


def make_index(rows=20, **kwargs):
    index = Index()
    index.build(unit_vectors(rows, **kwargs), fingerprint="f")
    return index


@RELAXED
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 8), st.integers(1, 45), st.integers(0, 2**32 - 1))
def test_search_equals_a_full_sort_padded_with_minus_one(small_blocks, n_rows, width, n_queries, k, seed):
    rng = np.random.default_rng(seed)
    # Small integers: products are exact, and many are equal.
    vectors, queries = (rng.integers(-1, 2, size=(n, width)).astype(np.float32) for n in (n_rows, n_queries))
    index = Index()
    index.build(vectors)
    rows, scores = index.search(queries, k)
    assert rows.shape == scores.shape == (n_queries, k)
    assert rows.dtype == np.int64 and scores.dtype == np.float32
    assert (rows[:, n_rows:] == -1).all() and np.isneginf(scores[:, n_rows:]).all()
    assert_best(vectors, queries, rows[:, :n_rows], scores[:, :n_rows])


def test_bad_vectors_are_refused_and_leave_the_index_as_it_was():
    for shape in ((3, 0), (0, 0), (8,), (2, 2, 2)):
        with pytest.raises(ValueError, match="shape"):
            Index().build(np.ones(shape, dtype=np.float32))
    index = make_index()
    some = Subset(index, np.arange(3))
    for value in (np.nan, np.inf):
        bad = unit_vectors(5)
        bad[3, 2] = value
        for call in (index.build, index.extended, lambda bad: index.search(bad, 1), lambda bad: some.search(bad, 1)):
            with pytest.raises(ValueError, match="1 vectors are not finite, the first in row 3"):
                call(bad)
    for shape, message in (
        ((0, 16), "0 queries"),
        *((shape, r"not \(n, 16\)") for shape in ((2, 15), (16,), (1, 1, 16))),
    ):
        with pytest.raises(ValueError, match=message):
            index.search(np.ones(shape, dtype=np.float32), 1)
        if shape[0]:
            with pytest.raises(ValueError, match=message):
                index.extended(np.ones(shape, dtype=np.float32))
    assert len(index) == 20 and index.fingerprint == "f"


def test_index_that_was_not_built_says_so(tmp_path):
    index = Index()
    assert len(index) == 0
    for call in (
        lambda: index.search(unit_vectors(1), 1),
        lambda: index.extended(unit_vectors(1)),
        lambda: index.vectors,
        lambda: index.width,
        lambda: index.to_disk(tmp_path / "index"),
    ):
        with pytest.raises(ValueError, match="the index is empty"):
            call()
    assert list(tmp_path.iterdir()) == []
    assert len(pickle.loads(pickle.dumps(index))) == 0


def test_folder_of_unknown_kind_or_without_vectors_is_refused(tmp_path):
    make_index().to_disk(tmp_path / "a")
    data = json.loads((tmp_path / "a" / "index.json").read_text())
    del data["checksum"]
    write_manifest(tmp_path / "a" / "index.json", 1, {**data, "kind": "other"})
    with pytest.raises(OSError, match="an index of kind 'other', not one of: exact, scann, usearch"):
        read_index(tmp_path / "a")
    (tmp_path / "a" / "dataset.npy").unlink()
    write_manifest(tmp_path / "a" / "index.json", 1, {**data, "kind": "exact"})
    with pytest.raises(OSError, match=r"dataset.npy"):
        read_index(tmp_path / "a")


# Few values, so that products are exact and ties abound.
VECTORS = np.random.default_rng(0).integers(-1, 2, (60, 3)).astype(np.float32)
QUERIES = VECTORS[::7]


@pytest.mark.parametrize("copied_bytes, block", [(2**20, 100), (0, 7)])
@settings(deadline=None, max_examples=50)
@given(rows=st.sets(st.integers(0, 59), min_size=1), k=st.integers(1, 60), added=st.integers(0, 59))
def test_search_among_selected_rows_finds_the_best_of_these(copied_bytes, block, rows, k, added):
    rows, k = np.array(sorted(rows)), min(k, len(rows))
    index = Index()
    index.build(VECTORS[: 60 - added])
    if added:
        index = index.extended(VECTORS[60 - added :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spacy_sapbert.index.base.COPIED_BYTES", copied_bytes)
        patch.setattr(f"{NEAREST}.ROW_BLOCK", block)
        some = Subset(index, rows)
        assert len(some) == len(rows) and (some._copied is None) == (copied_bytes == 0)
        found, scores = some.search(QUERIES, k)
    assert np.isin(found, rows).all()
    assert_best(VECTORS[rows], QUERIES, np.searchsorted(rows, found), scores)
