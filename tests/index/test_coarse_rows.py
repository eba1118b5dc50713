"""Vectors of 8-bit numbers rank rows nearly as those of full precision do."""

import numpy as np
import pytest
from index_vectors import clustered_vectors, lower_thresholds
from test_scann_files import sign

from spacy_sapbert.index import CoarseRows, FaissIndex, Index, ScannIndex, exact_search, make_room, read_index

# The error of a cosine, at most.
OFF = 0.01


def make_coarse(vectors):
    rows = CoarseRows.empty(*vectors.shape)
    rows[np.arange(len(vectors))] = vectors
    return rows


def test_room_is_made_for_fewer_bits_the_more_rows_there_are(monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.base.HALF_PRECISION_FROM", 50)
    kinds = {(n, again): make_room(n, 4, is_encoded_again=again) for n in (49, 50) for again in (False, True)}
    assert kinds[49, True].dtype == kinds[49, False].dtype == np.float32 and kinds[50, False].dtype == np.float16
    assert isinstance(kinds[50, True], CoarseRows) and kinds[50, True].nbytes == 50 * (4 + 4)


def test_rows_are_read_as_they_were_written_but_for_rounding():
    vectors = clustered_vectors(300)
    vectors[7] = 0
    rows = make_coarse(vectors[:200]).joined(vectors[200:])
    assert rows.shape == vectors.shape and not rows[np.array([7])].any()
    for part in (slice(3, 9), np.array([299, 0, 250])):
        np.testing.assert_allclose(rows[part], vectors[part], atol=1 / 250)
        assert rows[part].dtype == np.float32
    np.testing.assert_array_equal(rows.take(np.array([5, 250]))[:], rows[np.array([5, 250])])
    # Written again, they stay the same.
    np.testing.assert_array_equal(make_coarse(rows[:]).codes, rows.codes)


@pytest.mark.parametrize("kind", [Index, ScannIndex, FaissIndex], ids=lambda cls: cls.kind)
def test_an_index_finds_and_keeps_coarse_rows(kind, tmp_path, monkeypatch):
    if kind is not Index:
        pytest.importorskip(kind.kind)
    lower_thresholds(monkeypatch)
    vectors, queries, more = clustered_vectors(3000), clustered_vectors(200, seed=1), clustered_vectors(30, seed=9)
    index = kind()
    index.build(make_coarse(vectors), fingerprint="f")
    assert index.is_coarse and index.kind == kind.kind
    rows, scores = index.search(queries, 5)
    np.testing.assert_allclose(np.einsum("qkw,qw->qk", vectors[rows], queries), scores, atol=OFF)
    assert (scores[:, 0] >= exact_search(vectors, queries, 1)[1][:, 0] - OFF).mean() > 0.97
    longer = index.extended(more)
    longer.to_disk(tmp_path)
    loaded = read_index(tmp_path)
    assert loaded.is_coarse and len(loaded) == len(loaded.vectors) == 3030
    for left, right in zip(longer.search(queries, 5), loaded.search(queries, 5), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_allclose(loaded.take(np.array([3029, 3])), [more[29], vectors[3]], atol=OFF)
    fewer = loaded.rearranged(np.arange(1000, 3030))
    assert fewer.is_coarse and fewer.search(more, 1)[0][:, 0].tolist() == list(range(2000, 2030))


def test_half_precision_is_saved_with_added_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.base.HALF_PRECISION_FROM", 50)
    index = Index()
    index.build(clustered_vectors(60))
    index.extended(clustered_vectors(5, seed=1)).to_disk(tmp_path)
    assert len(read_index(tmp_path)) == 65


@pytest.mark.parametrize("scales", [np.ones(59), np.full(60, np.nan), np.full(60, -0.1), np.full(60, 2.0), None])
def test_scales_that_no_rows_have_are_refused(tmp_path, scales):
    index = Index()
    index.build(make_coarse(clustered_vectors(60)))
    index.to_disk(tmp_path)
    if scales is None:
        (tmp_path / "scales.npy").unlink()
    else:
        np.save(tmp_path / "scales.npy", scales.astype(np.float32))
    sign(tmp_path)
    with pytest.raises(OSError, match="scales"):
        read_index(tmp_path)
