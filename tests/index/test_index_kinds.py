"""A folder opens wherever ScaNN, usearch or FAISS is installed: a missing structure is built anew."""

import pytest
import spacy
from index_vectors import build, clustered_vectors

from spacy_sapbert.files import list_files
from spacy_sapbert.index import (
    FaissIndex,
    Index,
    ScannIndex,
    UsearchIndex,
    exact_search,
    fit_kind,
    make_auto_index,
    read_index,
)

pytestmark = pytest.mark.usefixtures("low_thresholds")
pytest.importorskip("usearch")
pytest.importorskip("scann")
pytest.importorskip("faiss")


@pytest.mark.parametrize("present", ["scann", "usearch", "faiss"])
def test_linker_takes_the_best_kind_by_default(install, static_folder, terminology, tmp_path, present):
    install(present)
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, encoder=str(static_folder))
    assert nlp.get_pipe("sapbert_linker").index.kind == present
    nlp.to_disk(tmp_path)
    install("usearch" if present == "scann" else "scann")
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe("sapbert_linker").find(["heart attack"])[0][0]["id"] == "C0027051"


def forbid_building(monkeypatch):
    for cls in (ScannIndex, UsearchIndex, FaissIndex):
        monkeypatch.setattr(cls, "_build_structure", lambda self: pytest.fail("built again"))


def snapshot(folder):
    return {name: (folder / name).read_bytes() for name in list_files(folder)}


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (("scann", "usearch", "faiss"), ScannIndex),
        (("scann",), ScannIndex),
        (("usearch", "faiss"), UsearchIndex),
        (("faiss",), FaissIndex),
        ((), ScannIndex),
    ],
)
def test_auto_takes_scann_where_it_is_installed_and_usearch_elsewhere(install, installed, expected):
    install(*installed)
    index = make_auto_index(recall_target=0.9)
    assert type(index) is type(index.empty()) is expected and index.settings.recall_target == 0.9


@pytest.mark.parametrize(
    ("installed", "few", "many"),
    [
        (("scann", "usearch", "faiss"), ScannIndex, FaissIndex),
        (("scann", "usearch"), ScannIndex, ScannIndex),
        (("usearch",), UsearchIndex, UsearchIndex),
    ],
)
def test_auto_takes_faiss_for_millions_of_rows_where_it_is_installed(install, installed, few, many):
    install(*installed)
    index = make_auto_index(recall_target=0.9)
    for rows, expected in ((2_000_000, few), (2_000_001, many)):
        fitted = fit_kind(index, rows)
        assert type(fitted) is expected and fitted.is_auto and fitted.settings == index.settings
        # Whoever names a kind gets it.
        assert {type(fit_kind(cls(), rows)) for cls in (UsearchIndex, Index)} == {UsearchIndex, Index}


@pytest.mark.parametrize(
    ("saved", "present", "other"),
    [
        (ScannIndex, "usearch", UsearchIndex),
        (UsearchIndex, "scann", ScannIndex),
        (FaissIndex, "scann", ScannIndex),
        (ScannIndex, "faiss", FaissIndex),
    ],
)
def test_folder_opens_with_the_other_package(tmp_path, install, monkeypatch, capsys, saved, present, other):
    build(saved, 2500, 0.95).extended(clustered_vectors(30, seed=9)).to_disk(tmp_path / "a")
    before = snapshot(tmp_path / "a")
    install(present)
    first = read_index(tmp_path / "a")
    assert f"{saved.kind} is not installed: pip install '" in capsys.readouterr().err
    assert type(first) is other and first.configuration["scoring"] != "exact"
    assert (first.settings.recall_target, first.fingerprint, len(first)) == (0.95, "f", 2530)
    assert first.recall["at_1"] >= 0.95 and snapshot(tmp_path / "a") == before
    first.to_disk(tmp_path / "a")
    forbid_building(monkeypatch)
    again = read_index(tmp_path / "a")
    assert (again.configuration, again.recall) == (first.configuration, first.recall)
    for queries in (clustered_vectors(40, seed=3), clustered_vectors(30, seed=9)):
        assert (again.search(queries, 5)[0] == first.search(queries, 5)[0]).all()
    # No file of the other package is left.
    for kind in ("usearch", "faiss"):
        assert len([name for name in list_files(tmp_path / "a") if name.endswith(kind)]) == (present == kind)


@pytest.mark.parametrize("cls", [ScannIndex, UsearchIndex, FaissIndex])
def test_without_both_packages_search_is_exact_with_a_warning(tmp_path, install, cls):
    build(cls, 2500).to_disk(tmp_path)
    before = snapshot(tmp_path)
    install()
    with pytest.warns(UserWarning, match=rf"{cls.kind} is not installed, so all 2500 names.*AutoIndex"):
        index = read_index(tmp_path)
    assert index.configuration == {"scoring": "exact"} and type(index) is cls
    queries = clustered_vectors(20, seed=3)
    assert (index.search(queries, 5)[0] == exact_search(clustered_vectors(2500), queries, 5)[0]).all()
    assert snapshot(tmp_path) == before
