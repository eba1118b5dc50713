"""What holds for ScaNN, usearch and FAISS alike: bad input, batches, saved folders, copies and damage."""

import errno
import multiprocessing
import os
import shutil
import sys

import numpy as np
import pytest
from index_vectors import check_scores, clustered_vectors
from injection import check_damage, limited_files

from spacy_sapbert.files import fill_folder, list_files
from spacy_sapbert.index import FaissIndex, ScannIndex, UsearchIndex, exact_search, read_index
from spacy_sapbert.index.approximate import SAMPLE

pytestmark = pytest.mark.usefixtures("low_thresholds")
# ScaNN adds up in another order if its rows lie elsewhere in memory.
TOLERANCE = {"scann": 1e-6, "usearch": 0, "faiss": 0}


@pytest.fixture(params=["scann", "usearch", "faiss"])
def index(request):
    return request.getfixturevalue(f"{request.param}_index")


def assert_same(index, other):
    assert type(other) is type(index) and len(other) == len(index)
    assert (other.configuration, other.recall, other.fingerprint) == (index.configuration, index.recall, "f")
    assert other.settings == index.settings and (other.vectors == index.vectors).all()
    queries = clustered_vectors(40, seed=4)
    (rows, scores), (other_rows, other_scores) = index.search(queries, 9), other.search(queries, 9)
    assert (rows == other_rows).all()
    np.testing.assert_allclose(scores, other_scores, rtol=0, atol=TOLERANCE[index.kind])


def test_what_a_query_finds_does_not_depend_on_the_others(index):
    queries = clustered_vectors(260, seed=1)
    rows, scores = index.search(queries, 5)
    # Around the numbers of queries for which ScaNN changes its ways.
    for size in (1, 7, 12, 13, 260):
        n = min(20 * size, len(queries))
        parts = [index.search(queries[i : min(i + size, n)], 5) for i in range(0, n, size)]
        assert (np.concatenate([part[0] for part in parts]) == rows[:n]).all()
        np.testing.assert_allclose(np.concatenate([part[1] for part in parts]), scores[:n], atol=1e-6)


def test_small_index_is_searched_exactly(index):
    vectors = clustered_vectors(1999)
    small = type(index)()
    small.build(vectors)
    assert small.configuration == {"scoring": "exact"} and small.recall == {}
    queries = clustered_vectors(30, seed=3)
    assert (small.search(queries, 5)[0] == exact_search(vectors, queries, 5)[0]).all()
    rows, scores = small.search(queries[:1], 2005)
    assert (rows[:, 1999:] == -1).all() and np.isneginf(scores[:, 1999:]).all()


@pytest.mark.parametrize("cls", [ScannIndex, UsearchIndex, FaissIndex])
def test_recall_targets_that_are_no_shares_are_refused_and_those_out_of_reach_warned_of(cls, monkeypatch):
    pytest.importorskip(cls.kind)
    for target in (0.0, 1.01, float("nan")):
        with pytest.raises(ValueError, match=r"recall_target"):
            cls(recall_target=target)
    monkeypatch.setattr("spacy_sapbert.index.leaves.BUDGETS", ((1, 2), (2, 3)))
    monkeypatch.setattr("spacy_sapbert.index.usearch.EXPANSIONS", (1, 2))
    measure = "spacy_sapbert.index.approximate.RecallTest.measure"
    monkeypatch.setattr(measure, lambda self, index: {"at_1": 0.5, "standard_error": 0})
    index = cls()
    with pytest.warns(UserWarning, match=r"recall_target = 0.99"):
        index.build(clustered_vectors(2200))
    assert index.configuration["expansion" if cls is UsearchIndex else "reorder"] == (2 if cls is UsearchIndex else 3)


@pytest.mark.parametrize("cls", [ScannIndex, UsearchIndex, FaissIndex])
def test_a_package_that_cannot_be_imported_is_explained(cls, monkeypatch, install):
    monkeypatch.setitem(sys.modules, cls.module, None)
    install(cls.kind)
    with pytest.raises(ImportError, match=rf"{cls.kind} can't be imported.*\n.*pip install '[^']*{cls.kind}"):
        cls().build(clustered_vectors(2100))


def test_recall_target_is_met_and_recorded(index):
    recorded = index.recall
    assert recorded["at_1"] - recorded["standard_error"] >= 0.97 and recorded["queries"] == SAMPLE
    # All rows are left out in turn, in plain NumPy, and searched for as deep as those of the sample.
    vectors = clustered_vectors()
    products = vectors @ vectors.T
    np.fill_diagonal(products, -np.inf)
    found, _ = index._search(vectors, 2, ignored=1)
    assert (np.take_along_axis(products, found, axis=1).max(axis=1) >= products.max(axis=1) - 1e-5).mean() >= 0.96


def test_scores_are_true_cosines_and_rows_distinct(index):
    queries = clustered_vectors(200, seed=1)
    check_scores(index, *index.search(queries, 20), queries)


@pytest.mark.parametrize("memory_map", [True, False])
def test_moved_folder_loads_and_finds_the_same(index, tmp_path, memory_map):
    index.to_disk(tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert_same(index, read_index(tmp_path / "b", memory_map=memory_map))
    for name in list_files(tmp_path / "b"):
        assert str(tmp_path).encode() not in (tmp_path / "b" / name).read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_any_file_that_does_not_fit_on_the_disk_is_noticed(index, tmp_path):
    index.to_disk(tmp_path / "whole")
    sizes = {path.stat().st_size for path in (tmp_path / "whole" / "structure").rglob("*") if path.is_file()}
    for size in sorted(sizes - {0}):
        folder = tmp_path / f"{size}"
        folder.mkdir()
        with limited_files(size - 1), pytest.raises(OSError, match=str(folder)) as caught:
            # Not `to_disk`, because the vectors are the largest file.
            with fill_folder(folder) as temporary:
                index._write_structure(temporary)
        assert caught.value.errno in (errno.EFBIG, errno.EIO) and list_files(folder) == []


def test_damage_in_any_file_is_noticed(index, tmp_path):
    index.to_disk(tmp_path / "a")
    assert len(list_files(tmp_path / "a")) >= {"scann": 5, "usearch": 3, "faiss": 3}[index.kind]
    check_damage(tmp_path / "a", read_index)
    assert_same(index, read_index(tmp_path / "a"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_forked_process_searches_after_its_parent_has_used_the_index(index):
    queries = clustered_vectors(200, seed=1)
    rows, _ = index.search(queries, 3)

    def compare():
        found, _ = index.search(queries, 3)
        os._exit(0 if np.array_equal(found, rows) else 1)

    child = multiprocessing.get_context("fork").Process(target=compare)
    child.start()
    # On failure, the child waits for threads that it does not have.
    child.join(60)
    child.kill()
    child.join()
    assert child.exitcode == 0
