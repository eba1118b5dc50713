"""usearch meets its recall target with the vectors stored once, and answers many threads at once."""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from index_vectors import WIDTH, build, clustered_vectors

from spacy_sapbert.files import list_files
from spacy_sapbert.index import UsearchIndex, exact_search, read_index, usearch

pytestmark = pytest.mark.usefixtures("low_thresholds")
pytest.importorskip("usearch")
ROWS = 3000


def test_whoever_wants_many_rows_gets_them_exactly(usearch_index):
    queries = clustered_vectors(20, seed=1)
    for k in (ROWS // 3, ROWS, ROWS + 10):
        rows, scores = usearch_index.search(queries, k)
        expected = exact_search(clustered_vectors(), queries, min(k, ROWS))
        assert (rows[:, :ROWS] == expected[0]).all() and (scores[:, :ROWS] == expected[1]).all()
        assert (rows[:, ROWS:] == -1).all() and np.isneginf(scores[:, ROWS:]).all()


def test_rows_out_of_the_graph_s_reach_are_found_exactly(usearch_index, monkeypatch):
    find = UsearchIndex._find_candidates

    def find_badly(index, queries, k, effort):
        rows = find(index, queries, k, effort)
        rows[::2, 3:] = -1
        return rows

    queries = clustered_vectors(20, seed=1)
    _, expected = exact_search(clustered_vectors(), queries, 5)
    monkeypatch.setattr(UsearchIndex, "_find_candidates", find_badly)
    rows, scores = usearch_index.search(queries, 5)
    assert (rows >= 0).all()
    np.testing.assert_allclose(scores[::2], expected[::2], atol=1e-6)


def test_threads_search_at_once_and_find_what_each_finds_alone(usearch_index):
    queries = [clustered_vectors(150, seed=seed) for seed in range(8)]
    depths = [6 + seed % 4 for seed in range(8)]
    alone = [usearch_index.search(part, k)[0] for part, k in zip(queries, depths, strict=True)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = pool.map(lambda part, k: usearch_index.search(part, k)[0], queries, depths)
            for rows, expected in zip(found, alone, strict=True):
                assert (rows == expected).all()


def test_threads_are_those_of_the_environment_or_the_cores_of_the_process(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usearch.count_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= usearch.count_threads() <= os.cpu_count()
    monkeypatch.setattr(usearch, "is_forked", lambda: True)
    assert usearch.count_threads() == 1


@pytest.mark.parametrize("memory_map", [True, False])
def test_the_graph_is_mapped_as_the_vectors_are_and_is_small(usearch_index, tmp_path, memory_map):
    usearch_index.to_disk(tmp_path)
    loaded = read_index(tmp_path, memory_map=memory_map)
    assert isinstance(loaded._structure.data, np.memmap) == isinstance(loaded.vectors.base, np.memmap) == memory_map
    assert list_files(tmp_path) == ["dataset.npy", "index.json", "structure/graph.usearch"]
    # One byte for each number of a vector, and the links.
    assert (tmp_path / "structure" / "graph.usearch").stat().st_size < ROWS * (WIDTH + 200)


def test_graph_of_other_vectors_is_refused(usearch_index, tmp_path):
    mixed = copy.deepcopy(usearch_index)
    mixed._structure = build(UsearchIndex, 2500)._structure
    mixed.to_disk(tmp_path)
    with pytest.raises(OSError, match=r"Can't read.*graph"):
        read_index(tmp_path)
