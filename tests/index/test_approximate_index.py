"""What holds for ScaNN and usearch alike: bad input, batches, saved folders, copies and damage."""

import copy
import pickle
import random
import shutil

import numpy as np
import pytest
from index_vectors import WIDTH, clustered_vectors

from spacy_sapbert.files import list_files
from spacy_sapbert.index import ExactIndex, ScannIndex, UsearchIndex, exact_search, read_index

INDEX = "spacy_sapbert.index"
# ScaNN adds up in another order if its rows lie elsewhere in memory.
TOLERANCE = {"scann": 1e-6, "usearch": 0}


def lower_thresholds(monkeypatch):
    """Let a small index be searched approximately, with few candidates."""
    monkeypatch.setattr(f"{INDEX}.approximate.EXACT_BELOW", 2000)
    monkeypatch.setattr(f"{INDEX}.usearch.ROWS_PER_CANDIDATE", 2)
    monkeypatch.setattr(f"{INDEX}.usearch.EXPANSIONS", (4, 8, 16, 32, 64, 128))


@pytest.fixture(autouse=True)
def low_thresholds(monkeypatch):
    lower_thresholds(monkeypatch)


@pytest.fixture(scope="module", params=[ScannIndex, UsearchIndex], ids=lambda cls: cls.kind)
def index(request):
    pytest.importorskip(request.param.kind)
    with pytest.MonkeyPatch.context() as patch:
        lower_thresholds(patch)
        built = request.param(recall_target=0.97)
        built.build(clustered_vectors(), fingerprint="f")
    return built


def assert_same(index, other):
    assert type(other) is type(index) and len(other) == len(index)
    assert (other.configuration, other.recall, other.fingerprint) == (index.configuration, index.recall, "f")
    assert other.settings == index.settings and (other.vectors == index.vectors).all()
    queries = clustered_vectors(40, seed=4)
    (rows, scores), (other_rows, other_scores) = index.search(queries, 9), other.search(queries, 9)
    assert (rows == other_rows).all()
    np.testing.assert_allclose(scores, other_scores, rtol=0, atol=TOLERANCE[index.kind])


# Around the numbers of queries for which ScaNN changes its ways.
@pytest.mark.parametrize("size", [1, 2, 7, 11, 12, 13, 100, 260])
def test_what_a_query_finds_does_not_depend_on_the_others(index, size):
    queries = clustered_vectors(520, seed=1)
    rows, scores = index.search(queries, 5)
    parts = [index.search(queries[i : i + size], 5) for i in range(0, len(queries), size)]
    assert (np.concatenate([part[0] for part in parts]) == rows).all()
    np.testing.assert_allclose(np.concatenate([part[1] for part in parts]), scores, atol=1e-6)


def test_small_index_is_searched_exactly(index):
    vectors = clustered_vectors(1999)
    small = type(index)()
    small.build(vectors)
    assert small.configuration == {"scoring": "exact"} and small.recall == {}
    queries = clustered_vectors(30, seed=3)
    assert (small.search(queries, 5)[0] == exact_search(vectors, queries, 5)[0]).all()
    rows, scores = small.search(queries[:1], 2005)
    assert (rows[:, 1999:] == -1).all() and np.isneginf(scores[:, 1999:]).all()


@pytest.mark.parametrize("cls", [ScannIndex, UsearchIndex])
@pytest.mark.parametrize("target", [0.0, -0.1, 1.01, 1.5, float("nan")])
def test_recall_target_that_is_no_share_is_refused(cls, target):
    with pytest.raises(ValueError, match=r"^\[E404\].*recall_target"):
        cls(recall_target=target)


def test_bad_input_is_refused_as_in_exact_search(index):
    bad = clustered_vectors(2500)
    bad[7, 7] = np.nan
    with pytest.raises(ValueError, match=r"^\[E306\].*row 7"):
        type(index)().build(bad)
    with pytest.raises(ValueError, match=r"^\[E306\].*row 7"):
        index.search(bad[:10], 1)
    with pytest.raises(ValueError, match=r"^\[E303\]"):
        index.search(np.empty((0, WIDTH)), 1)
    with pytest.raises(ValueError, match=r"^\[E303\]"):
        index.search(np.ones((1, WIDTH + 1)), 1)
    with pytest.raises(ValueError, match=r"^\[E304\]"):
        index.search(clustered_vectors(1), 0)
    with pytest.raises(ValueError, match=r"^\[E302\]"):
        type(index)().build(np.empty((0, WIDTH)))
    with pytest.raises(ValueError, match=r"^\[E301\]"):
        type(index)().search(clustered_vectors(1), 1)


@pytest.mark.parametrize("memory_map", [True, False])
def test_moved_folder_loads_and_finds_the_same(index, tmp_path, memory_map):
    index.to_disk(tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert_same(index, read_index(tmp_path / "b", memory_map=memory_map))
    for name in list_files(tmp_path / "b"):
        assert str(tmp_path).encode() not in (tmp_path / "b" / name).read_bytes()


def test_saving_over_the_folder_it_is_mapped_from_works(index, tmp_path):
    index.to_disk(tmp_path / "a")
    loaded = read_index(tmp_path / "a")
    loaded.to_disk(tmp_path / "a")
    assert_same(index, loaded)
    assert_same(index, read_index(tmp_path / "a"))


@pytest.mark.parametrize(
    "copy_of",
    [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: type(x)().from_bytes(x.to_bytes())],
    ids=["copy", "pickle", "bytes"],
)
def test_copies_find_the_same(index, copy_of):
    assert_same(index, copy_of(index))


def test_pickle_and_empty_keep_the_recall_target(index):
    assert copy.deepcopy(index).settings.recall_target == index.empty().settings.recall_target == 0.97
    assert pickle.loads(pickle.dumps(type(index)(recall_target=0.5))).settings.recall_target == 0.5


def test_exact_index_refuses_the_folder(index, tmp_path):
    index.to_disk(tmp_path / "a")
    with pytest.raises(OSError, match=rf"^\[E305\].*'{index.kind}'.*'exact'"):
        ExactIndex().from_disk(tmp_path / "a")


def test_damage_in_any_file_is_noticed(index, tmp_path):
    index.to_disk(tmp_path / "a")
    rng = random.Random(1)
    names = list_files(tmp_path / "a")
    assert len(names) >= {"scann": 5, "usearch": 3}[index.kind]
    for name in names:
        path = tmp_path / "a" / name
        original = path.read_bytes()
        if not original:  # nothing to damage
            continue
        damages = [original[:-1]]
        for _ in range(4):
            damaged = bytearray(original)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            damages.append(bytes(damaged))
        for damage in damages:
            path.write_bytes(damage)
            with pytest.raises(OSError, match=r"^\[E(305|50\d)\]"):
                read_index(tmp_path / "a")
        path.unlink()
        with pytest.raises(FileNotFoundError, match=r"^\[E503\]"):
            read_index(tmp_path / "a")
        path.write_bytes(original)
    assert_same(index, read_index(tmp_path / "a"))
