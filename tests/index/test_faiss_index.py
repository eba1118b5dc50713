"""FAISS: each row in two leaves, and files of other indexes."""

import copy

import numpy as np
import pytest
from index_vectors import build, clustered_vectors, unit_vectors

from spacy_sapbert.index import FaissIndex, exact_search, read_index
from spacy_sapbert.index.faiss import NEAREST, LeafFinder
from spacy_sapbert.index.leaves import SOAR_LAMBDA

pytestmark = pytest.mark.usefixtures("low_thresholds")
faiss = pytest.importorskip("faiss")


def find_naively(row, centres):
    """The nearest leaf, and of the next ones that with the least loss of SOAR."""
    nearest = np.argsort(-(centres @ row), kind="stable")[:NEAREST]
    residual = row - centres[nearest[0]]
    direction = residual / np.linalg.norm(residual)
    losses = []
    for leaf in nearest[1:]:
        other = row - centres[leaf]
        losses.append(other @ other + SOAR_LAMBDA * (other @ direction) ** 2)
    return int(nearest[0]), int(nearest[1 + int(np.argmin(losses))])


def test_the_leaves_of_rows_are_what_a_loop_finds():
    centres, rows = clustered_vectors(60, seed=1), clustered_vectors(300, seed=2)
    found = LeafFinder(faiss, centres).find(rows)
    assert [*zip(*found.tolist(), strict=True)] == [find_naively(row, centres) for row in rows]


def test_each_row_is_in_its_two_leaves(faiss_index):
    lists = faiss_index._structure.invlists
    leaves = faiss_index.configuration["leaves"]
    assert sum(lists.list_size(leaf) for leaf in range(leaves)) == 2 * len(faiss_index)
    centres = faiss.downcast_index(faiss_index._structure.quantizer).reconstruct_n(0, leaves)
    expected = LeafFinder(faiss, centres).find(clustered_vectors())
    for leaf in range(leaves):
        numbers = faiss.rev_swig_ptr(lists.get_ids(leaf), lists.list_size(leaf))
        assert sorted(numbers.tolist()) == np.flatnonzero((expected == leaf).any(axis=0)).tolist()


@pytest.mark.parametrize("width", [2, 6, 7, 10])
def test_vectors_of_any_width_are_found(width):
    vectors, index = unit_vectors(2500, width), FaissIndex(recall_target=0.9)
    index.build(vectors)
    queries = unit_vectors(300, width, seed=1)
    _, expected = exact_search(vectors, queries, 1)
    assert (index.search(queries, 1)[1] >= expected - 1e-5).mean() >= 0.9


def test_equal_vectors_are_found():
    vectors, index = np.tile(unit_vectors(1, 32), (2500, 1)), FaissIndex()
    index.build(vectors)
    rows, scores = index.search(vectors[:3], 40)
    assert all(len(set(of_query)) == 40 for of_query in rows.tolist()) and np.allclose(scores, 1)


@pytest.mark.parametrize("other", ["rows", "kind", "ids"])
def test_files_of_other_indexes_are_refused(faiss_index, tmp_path, other):
    mixed = copy.deepcopy(faiss_index)
    if other == "rows":
        mixed._structure = build(FaissIndex, 2500)._structure
    elif other == "ids":
        # A structure of more rows, of which some have been removed.
        mixed._structure = build(FaissIndex, 3500)._structure
        mixed._structure.remove_ids(np.arange(500))
    else:
        mixed._structure = faiss.IndexFlatIP(faiss_index.width)
        mixed._structure.add(np.concatenate([clustered_vectors()] * 2))
    mixed.to_disk(tmp_path)
    with pytest.raises(OSError, match=r"Can't read.*leaves\.faiss"):
        read_index(tmp_path)
