"""Search in blocks, and sparse products: against sorts and spelled-out vectors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.methods.biosyn.scorer import SparseEncoder, score_sparse, search_blocks

TEXTS = st.lists(st.text("abc ", min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=9)


@pytest.mark.parametrize("above", [-np.inf, 0.0])
@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=7, max_size=7), max_size=5),
    st.integers(1, 7),
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_blocks_find_what_a_sort_finds(above, products, k, query_block, name_block):
    scores = np.array(products, dtype=np.float32).reshape(-1, 7)
    sizes = {"query_block": query_block, "name_block": name_block}
    rows, found = search_blocks(lambda q: lambda n: scores[q, n], len(scores), 7, k, above=above, **sizes)
    for query, row in enumerate(scores.tolist()):
        wanted = sorted((i for i in range(7) if row[i] > above), key=lambda i: (-row[i], i))[:k]
        assert rows[query].tolist() == wanted + [-1] * (k - len(wanted))
        assert found[query].tolist() == [row[i] for i in wanted] + [-math.inf] * (k - len(wanted))


@settings(deadline=None, max_examples=30)
@given(names=TEXTS, queries=TEXTS)
def test_sparse_products_are_those_of_spelled_out_vectors(names, queries):
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), dtype=np.float32).fit(names)
    expected = vectorizer.transform(queries).toarray() @ vectorizer.transform(names).toarray().T
    fitted = SparseEncoder.fit(names)
    # What is saved gives the same vectors.
    loaded = SparseEncoder(**json.loads(json.dumps(fitted.to_dict())))
    for encoder in (fitted, loaded):
        found = score_sparse(encoder.encode(queries), encoder.encode(names))(slice(0, 5))(slice(2, 9))
        np.testing.assert_allclose(found, expected[:5, 2:9], atol=1e-6)
    assert (loaded.encode(names) != fitted.encode(names)).nnz == 0
