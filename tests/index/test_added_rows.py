"""Rows beside the structure of an index. What any edits find is compared in tests/retrieval/test_editing.py."""

import pickle

import pytest
from index_vectors import clustered_vectors, unit_vectors

from spacy_sapbert.index import Index, ScannIndex, exact_search, read_index


def test_an_index_is_worn_by_unused_rows_and_by_many_beside_the_structure(monkeypatch):
    pytest.importorskip("scann")
    monkeypatch.setattr("spacy_sapbert.index.approximate.ADDED_LIMIT", 7)
    exact, approximate = Index(), ScannIndex()
    for index in (exact, approximate):
        index.build(unit_vectors(20))
        assert [index.extended(unit_vectors(7)).is_worn(unused) for unused in (0, 6, 7)] == [False, False, True]
    assert not exact.extended(unit_vectors(8)).is_worn(0) and approximate.extended(unit_vectors(8)).is_worn(0)
    monkeypatch.setattr("spacy_sapbert.index.approximate.find_spec", lambda name: None)
    assert not approximate.extended(unit_vectors(8)).is_worn(0)


@pytest.mark.parametrize("kind", ["scann", "usearch", "faiss"])
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
