"""A folder opens wherever ScaNN or usearch is installed: a missing structure is built once and kept."""

import shutil
import warnings
from functools import partial

import numpy as np
import pytest
import spacy
from index_vectors import clustered_vectors

from spacy_sapbert import errors
from spacy_sapbert.files import list_files, unpack_with
from spacy_sapbert.index import ScannIndex, UsearchIndex, exact_search, make_auto_index, read_index

pytest.importorskip("usearch")
pytest.importorskip("scann")
INDEX = "spacy_sapbert.index"


@pytest.fixture(autouse=True)
def low_thresholds(monkeypatch):
    monkeypatch.setattr(f"{INDEX}.approximate.EXACT_BELOW", 2000)
    monkeypatch.setattr(f"{INDEX}.usearch.ROWS_PER_CANDIDATE", 2)


@pytest.fixture
def install(monkeypatch):
    """Make it look as if only some of the packages were installed."""

    def install(*names):
        monkeypatch.setattr(f"{INDEX}.approximate.has_package", lambda name: name in names)

    return install


@pytest.mark.parametrize("config", [{}, {"index": "auto"}, {"index": {"@misc": "spacy-sapbert.AutoIndex.v1"}}])
@pytest.mark.parametrize("present", ["scann", "usearch"])
def test_linker_takes_the_best_kind_by_default(install, encoder_folder, terminology, tmp_path, config, present):
    install(present)
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker", config=config)
    linker.initialize(terminology=terminology, encoder=str(encoder_folder))
    assert linker.index.kind == present
    nlp.to_disk(tmp_path)
    install("usearch" if present == "scann" else "scann")
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe("sapbert_linker").find(["heart attack"])[0][0]["id"] == "C0027051"


@pytest.mark.parametrize("index", ["usearch", "exact", 5, None], ids=str)
def test_what_is_no_index_is_refused_when_the_linker_is_made(index):
    with pytest.raises(
        ValueError, match=rf"^\[E404\].*index of the linker 'sapbert_linker' is {index!r}.*ExactIndex.v1"
    ):
        spacy.blank("en").add_pipe("sapbert_linker", config={"index": index})


def build(cls, rows=2500, recall_target=0.95):
    index = cls(recall_target=recall_target)
    index.build(clustered_vectors(rows), fingerprint="f")
    return index


def forbid_building(monkeypatch):
    for cls in (ScannIndex, UsearchIndex):
        monkeypatch.setattr(cls, "_build_structure", lambda self: pytest.fail("built again"))


def snapshot(folder):
    return {name: (folder / name).read_bytes() for name in list_files(folder)}


@pytest.mark.parametrize(
    ("installed", "expected"),
    [(("scann", "usearch"), ScannIndex), (("scann",), ScannIndex), (("usearch",), UsearchIndex), ((), ScannIndex)],
)
def test_auto_takes_scann_where_it_is_installed_and_usearch_elsewhere(install, installed, expected):
    install(*installed)
    index = make_auto_index(recall_target=0.9)
    assert type(index) is type(index.empty()) is expected and index.settings.recall_target == 0.9


@pytest.mark.parametrize(
    ("saved", "present", "other"), [(ScannIndex, "usearch", UsearchIndex), (UsearchIndex, "scann", ScannIndex)]
)
def test_folder_opens_with_the_other_package_and_keeps_its_structure(
    tmp_path, install, monkeypatch, saved, present, other
):
    build(saved).to_disk(tmp_path / "a")
    before = snapshot(tmp_path / "a")
    install(present)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = read_index(tmp_path / "a")
    assert type(first) is other and first.configuration["scoring"] != "exact"
    assert (first.settings.recall_target, first.fingerprint, len(first)) == (0.95, "f", 2500)
    assert first.recall["at_1"] >= 0.95
    after = snapshot(tmp_path / "a")
    assert {name: data for name, data in after.items() if name in before} == before
    added = set(after) - set(before)
    assert added and {name.split("/")[0] for name in added} == {present}
    # The vectors are stored once.
    assert f"{present}/dataset.npy" not in added
    forbid_building(monkeypatch)
    shutil.move(tmp_path / "a", tmp_path / "b")
    queries = clustered_vectors(40, seed=3)
    again = read_index(tmp_path / "b")
    assert (again.configuration, again.recall) == (first.configuration, first.recall)
    assert (again.search(queries, 5)[0] == first.search(queries, 5)[0]).all()
    # What was saved is there as before.
    install("scann", "usearch")
    assert type(read_index(tmp_path / "b")) is saved
    again.to_disk(tmp_path / "c")
    assert type(read_index(tmp_path / "c")) is other


def test_structure_of_other_vectors_or_damaged_is_built_again(tmp_path, install, monkeypatch):
    build(ScannIndex).to_disk(tmp_path)
    install("usearch")
    read_index(tmp_path)
    install("scann")
    build(ScannIndex, rows=2600).to_disk(tmp_path)
    install("usearch")
    assert len(read_index(tmp_path)) == 2600
    path = tmp_path / "usearch" / "graph.usearch"
    path.write_bytes(path.read_bytes()[:-1])
    assert read_index(tmp_path).configuration["scoring"] == "graph"
    forbid_building(monkeypatch)
    assert read_index(tmp_path).configuration["scoring"] == "graph"


def test_folder_that_may_not_be_written_stays_as_it_is(tmp_path, install, monkeypatch):
    build(ScannIndex).to_disk(tmp_path)
    before = snapshot(tmp_path)
    install("usearch")
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.mkdir", lambda *args, **settings: (_ for _ in ()).throw(PermissionError("no")))
        index = read_index(tmp_path)
    assert index.configuration["scoring"] == "graph" and snapshot(tmp_path) == before


def test_structure_that_cannot_be_written_completely_leaves_nothing(tmp_path, install, monkeypatch):
    build(ScannIndex).to_disk(tmp_path)
    before = snapshot(tmp_path)
    install("usearch")

    def write_half(self, folder):
        (folder / "graph.usearch").write_bytes(b"half")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(UsearchIndex, "_write_structure", write_half)
        assert read_index(tmp_path).configuration["scoring"] == "graph"
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("cls", [ScannIndex, UsearchIndex])
def test_without_both_packages_search_is_exact_with_a_warning(tmp_path, install, cls):
    build(cls).to_disk(tmp_path)
    before = snapshot(tmp_path)
    install()
    with pytest.warns(UserWarning, match=rf"\[W301\] {cls.package}.*2500"):
        index = read_index(tmp_path)
    assert index.configuration == {"scoring": "exact"} and type(index) is cls
    queries = clustered_vectors(20, seed=3)
    assert (index.search(queries, 5)[0] == exact_search(clustered_vectors(2500), queries, 5)[0]).all()
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("cls", [ScannIndex, UsearchIndex])
def test_folder_saved_without_a_structure_gets_one(tmp_path, install, cls):
    install()
    with pytest.warns(UserWarning, match=r"\[W301\]"):
        build(cls).to_disk(tmp_path)
    install("scann", "usearch")
    assert read_index(tmp_path).configuration["scoring"] != "exact"


def test_small_folder_opens_without_a_structure(tmp_path, install):
    build(ScannIndex, rows=1999).to_disk(tmp_path)
    before = snapshot(tmp_path)
    install("usearch")
    index = read_index(tmp_path)
    assert type(index) is UsearchIndex and index.configuration == {"scoring": "exact"}
    assert snapshot(tmp_path) == before


def test_added_rows_are_found_with_the_other_package(tmp_path, install):
    added = clustered_vectors(30, seed=9)
    build(ScannIndex).extended(added).to_disk(tmp_path)
    install("usearch")
    for _ in range(2):
        index = read_index(tmp_path)
        assert len(index) == 2530
        assert (index.search(added, 1)[0][:, 0] == np.arange(2500, 2530)).all()


def test_bytes_open_with_the_other_package(install):
    data = build(ScannIndex).to_bytes()
    install("usearch")
    index = unpack_with(partial(read_index, memory_map=False), data)
    assert type(index) is UsearchIndex and index.configuration["scoring"] == "graph"
    assert index.search(clustered_vectors(2500)[:1], 1)[0].tolist() == [[0]]


def test_the_warning_names_what_to_install():
    message = errors.Warnings.W301.format(package="ScaNN", rows=1)
    assert "usearch" in message and "AutoIndex" in message
