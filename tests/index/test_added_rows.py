"""Rows added to an index, against an index that was built with them."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_vectors import clustered_vectors

from spacy_sapbert.index import Index, ScannIndex, exact_search, read_index

WIDTH = 24


def fractions(rows, seed=0):
    """Make vectors whose products have no rounding errors, so that equal really means equal."""
    return np.random.default_rng(seed).integers(-64, 65, size=(rows, WIDTH)).astype(np.float32) / 64


def make_index(cls=Index, rows=20, added=(3, 4)):
    """Build an index and add rows to it; return it with all vectors."""
    index = cls()
    index.build(fractions(rows), fingerprint="f")
    parts = [fractions(rows)]
    for seed, n_added in enumerate(added, 1):
        parts.append(fractions(n_added, seed))
        index = index.extended(parts[-1])
    return index, np.concatenate(parts)


def assert_same_search(index, vectors, k=9):
    queries = fractions(15, seed=99)
    expected = exact_search(vectors, queries, min(k, len(vectors)))
    for found, wanted in zip(index.search(queries, k), expected, strict=True):
        assert (found[:, : wanted.shape[1]] == wanted).all()
        assert (found[:, wanted.shape[1] :] < 0).all()


@pytest.mark.parametrize("cls", [Index, ScannIndex])
@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.lists(st.integers(0, 8), max_size=3), st.integers(1, 40))
def test_added_rows_are_found_as_if_they_had_been_there(cls, rows, added, k):
    index, vectors = make_index(cls, rows, added)
    assert len(index) == len(vectors) and (index.vectors == vectors).all()
    assert (index.width, index.fingerprint) == (WIDTH, "f")
    assert_same_search(index, vectors, k)


def test_the_index_that_is_extended_stays_as_it_is():
    index, vectors = make_index(added=())
    more = index.extended(fractions(5, 1))
    other = index.extended(fractions(2, 2))
    assert (len(index), len(more), len(other)) == (20, 25, 22)
    assert_same_search(index, vectors)
    assert_same_search(other, np.concatenate([vectors, fractions(2, 2)]))
    assert more._built is index.vectors


@pytest.mark.parametrize("cls", [Index, ScannIndex])
@pytest.mark.parametrize("copied", ["mapped", "read", "pickle", "deepcopy"])
def test_added_rows_are_saved(tmp_path, cls, copied):
    index, vectors = make_index(cls)
    for _ in range(2):  # also over the folder that it was loaded from
        if copied in ("mapped", "read"):
            index.to_disk(tmp_path)
            index = read_index(tmp_path, memory_map=copied == "mapped")
        else:
            index = pickle.loads(pickle.dumps(index)) if copied == "pickle" else copy.deepcopy(index)
        assert (index.vectors == vectors).all()
        assert_same_search(index, vectors)
    assert_same_search(index.extended(fractions(3, 5)), np.concatenate([vectors, fractions(3, 5)]))


@pytest.mark.parametrize("cls", [Index, ScannIndex])
@pytest.mark.parametrize("kept", [[0], [26], [1, 19, 20, 25], list(range(27))])
def test_rows_that_are_kept_are_arranged_anew(cls, kept):
    index, vectors = make_index(cls)
    arranged = index.rearranged(np.array(kept))
    assert type(arranged) is cls and arranged._added is None and arranged.fingerprint == "f"
    assert (arranged.vectors == vectors[kept]).all()
    assert_same_search(arranged, vectors[kept])
    assert_same_search(index, vectors)


def test_an_index_is_worn_by_unused_rows_and_by_many_beside_the_structure(monkeypatch):
    pytest.importorskip("scann")
    monkeypatch.setattr("spacy_sapbert.index.approximate.ADDED_LIMIT", 7)
    for cls in (Index, ScannIndex):
        index, _ = make_index(cls)
        assert [index.is_worn(unused) for unused in (0, 6, 7)] == [False, False, True]
    more = fractions(1, 5)
    assert not make_index(Index)[0].extended(more).is_worn(0)
    assert make_index(ScannIndex)[0].extended(more).is_worn(0)
    monkeypatch.setattr("spacy_sapbert.index.approximate.find_spec", lambda name: None)
    assert not make_index(ScannIndex)[0].extended(more).is_worn(0)


@pytest.mark.parametrize("kind", ["scann", "usearch"])
def test_rows_beside_a_structure_are_found_exactly_and_saved(request, kind, tmp_path):
    built = request.getfixturevalue(f"{kind}_index")
    added, queries = clustered_vectors(50, seed=7), clustered_vectors(40, seed=2)
    index = built.extended(added)
    for twin in (index, pickle.loads(pickle.dumps(index))):
        rows, scores = twin.search(queries, 10)
        expected = exact_search(added, queries, 10)
        built_rows, built_scores = built.search(queries, 10)
        for i in range(len(queries)):
            pairs = [*zip(built_scores[i], built_rows[i], strict=True)]
            pairs += zip(expected[1][i], expected[0][i] + len(built), strict=True)
            best = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:10]
            assert [*zip(scores[i], rows[i], strict=True)] == best
    index.to_disk(tmp_path)
    loaded = read_index(tmp_path)
    assert (loaded.search(queries, 10)[0] == index.search(queries, 10)[0]).all()
    loaded.to_disk(tmp_path)
    assert (read_index(tmp_path).search(queries, 10)[0] == index.search(queries, 10)[0]).all()
