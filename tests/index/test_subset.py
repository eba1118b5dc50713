"""Search among some rows against a comparison with each of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.index import ExactIndex, Subset, subset

# Few values, so that products are exact and ties abound.
VECTORS = np.random.default_rng(0).integers(-1, 2, (60, 3)).astype(np.float32)
QUERIES = VECTORS[::7]


def naive_search(rows, k):
    """Rows with the highest products, equal ones in their order."""
    return [sorted(rows, key=lambda row: (-float(VECTORS[row] @ query), row))[:k] for query in QUERIES]


@pytest.mark.parametrize("copied_bytes, block", [(2**20, 100), (0, 100), (0, 7)])
@given(rows=st.sets(st.integers(0, 59), min_size=1), k=st.integers(1, 60), added=st.integers(0, 59))
def test_search_among_rows_has_the_best_products_of_these_rows(copied_bytes, block, rows, k, added):
    rows, k = sorted(rows), min(k, len(rows))
    expected = [
        [float(VECTORS[row] @ query) for row in found]
        for query, found in zip(QUERIES, naive_search(rows, k), strict=True)
    ]
    index = ExactIndex()
    index.build(VECTORS[: 60 - added])
    if added:
        index = index.extended(VECTORS[60 - added :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subset, "COPIED_BYTES", copied_bytes)
        patch.setattr(subset, "ROW_BLOCK", block)
        some = Subset(index, np.array(rows))
        assert len(some) == len(rows)
        found, scores = some.search(QUERIES, k)
    assert scores.tolist() == expected
    for query, found_rows, found_scores in zip(QUERIES, found.tolist(), scores.tolist(), strict=True):
        assert set(found_rows) <= set(rows) and len(set(found_rows)) == k
        assert [float(VECTORS[row] @ query) for row in found_rows] == found_scores


def test_vectors_are_copied_only_up_to_a_size(monkeypatch):
    index = ExactIndex()
    index.build(VECTORS)
    rows = np.arange(0, 60, 2)
    expected = Subset(index, rows).search(QUERIES, 5)
    monkeypatch.setattr("spacy_sapbert.index.subset.COPIED_BYTES", rows.size * 3 * 4 - 1)
    gathered = Subset(index, rows)
    assert gathered._copied is None
    for found, other in zip(gathered.search(QUERIES, 5), expected, strict=True):
        assert (found == other).all()


def test_queries_that_are_not_finite_are_refused():
    index = ExactIndex()
    index.build(VECTORS)
    with pytest.raises(ValueError, match=r"^\[E306\]"):
        Subset(index, np.arange(3)).search(np.full((1, 3), np.inf), 1)
