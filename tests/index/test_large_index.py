"""A large index is arranged in blocks, has vectors in half precision, and finds what one of full precision finds."""

import numpy as np
import pytest
from index_vectors import check_scores, clustered_vectors, lower_thresholds

from spacy_sapbert.index import FaissIndex, Index, ScannIndex, UsearchIndex, exact_search, read_index

ROWS = 3000


@pytest.fixture(scope="module", autouse=True)
def low_thresholds():
    with pytest.MonkeyPatch.context() as patch:
        lower_thresholds(patch)
        patch.setattr("spacy_sapbert.index.base.HALF_PRECISION_FROM", 2500)
        patch.setattr("spacy_sapbert.index.leaves.LeafIndex.block", 800)
        patch.setattr("spacy_sapbert.index.approximate.EXACT_UNTIL", 2500)
        patch.setattr("spacy_sapbert.index.approximate.SAMPLE", 400)
        yield


@pytest.fixture(scope="module", params=[ScannIndex, FaissIndex], ids=lambda cls: cls.kind)
def index(request):
    pytest.importorskip(request.param.kind)
    built = request.param(recall_target=0.97)
    built.build(clustered_vectors(ROWS), fingerprint="f")
    return built


def test_scores_are_those_of_full_precision(index):
    vectors, queries = clustered_vectors(ROWS), clustered_vectors(100, seed=1)
    rows, scores = index.search(queries, 10)
    assert index.vectors.dtype == np.float16
    check_scores(index, rows, scores, queries)
    np.testing.assert_allclose(np.einsum("qkw,qw->qk", vectors[rows], queries), scores, atol=1e-3)


def test_a_saved_index_finds_the_same(index, tmp_path):
    index.to_disk(tmp_path / "a")
    assert np.load(tmp_path / "a" / "dataset.npy").dtype == np.float16
    loaded = read_index(tmp_path / "a")
    assert loaded.vectors.dtype == np.float16 and loaded.recall == index.recall
    queries = clustered_vectors(100, seed=1)
    for left, right in zip(index.search(queries, 5), loaded.search(queries, 5), strict=True):
        assert (left == right).all()
    # A smaller index saved over it leaves no structure.
    small = type(index)()
    small.build(clustered_vectors(700))
    small.to_disk(tmp_path / "a")
    loaded = read_index(tmp_path / "a")
    assert len(loaded) == 700 and loaded.vectors.dtype == np.float32 and not (tmp_path / "a" / "structure").exists()


def test_no_query_is_compared_with_all_rows_before_most_leaves_are_searched(index, monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.leaves.STEPS", ((0.85, 4), (0.7, 8)))
    assert 8 * index.configuration["leaves_to_search"] < 0.75 * index.configuration["leaves"]
    monkeypatch.setattr("spacy_sapbert.index.approximate.exact_search", lambda *args: pytest.fail("searched exactly"))
    far = -clustered_vectors(50, seed=2)
    rows, scores = index.search(far, 1)
    assert (scores[:, 0] < 0.5).any() and (rows >= 0).all()


def test_rows_are_taken_and_added_in_half_precision(index):
    vectors = clustered_vectors(ROWS)
    more = clustered_vectors(40, seed=9)
    longer = index.extended(more)
    taken = longer.take(np.array([3000, 3, 3039, 2999]))
    assert taken.dtype == np.float16
    np.testing.assert_allclose(taken, [more[0], vectors[3], more[39], vectors[2999]], atol=1e-3)
    assert longer.search(more, 1)[0][:, 0].tolist() == list(range(3000, 3040))


@pytest.mark.parametrize("kind", [Index, UsearchIndex])
def test_other_kinds_search_half_precision(kind):
    if kind is UsearchIndex:
        pytest.importorskip("usearch")
    vectors, queries = clustered_vectors(ROWS), clustered_vectors(200, seed=1)
    index = kind()
    index.build(vectors)
    assert index.vectors.dtype == np.float16
    _, expected = exact_search(vectors, queries, 5)
    _, found = index.search(queries, 5)
    assert (found[:, 0] >= expected[:, 0] - 1e-3).mean() >= 0.97
