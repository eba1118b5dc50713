"""A saved linker is the old one or the new one, and parts can be left out by their names only."""

from contextlib import suppress

import pytest
import spacy
import srsly
from conftest import build_terminology
from injection import Fault, count_operations, fault_at

from spacy_sapbert.encoder.shim import build_name_encoder_v1
from spacy_sapbert.index import Index, ScannIndex, make_auto_index
from spacy_sapbert.linker import SapbertLinker


def make_linker(index=None):
    return SapbertLinker(spacy.vocab.Vocab(), build_name_encoder_v1(), Index() if index is None else index, k=2)


def build(concept_id, encoder_folder):
    linker = make_linker()
    linker.initialize(terminology=build_terminology([(concept_id, "cold")]), encoder=encoder_folder)
    return linker


@pytest.fixture(scope="module")
def old(encoder_folder):
    return build("OLD", encoder_folder)


@pytest.fixture(scope="module")
def new(encoder_folder):
    return build("NEW", encoder_folder)


def read_tree(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def find_id(linker):
    return linker.find(["cold"])[0][0]["id"]


def test_a_killed_save_is_read_where_it_waits_if_the_folder_may_not_be_written(old, new, tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError

    folder = tmp_path / "p"
    n_waiting = 0
    operations = count_operations(lambda: new.to_disk(folder), folder)
    for number in range(operations - 60, operations, 5):
        old.to_disk(folder)
        with suppress(Fault), fault_at(number, folder, lasting=True):
            new.to_disk(folder)
        n_waiting += (folder / ".saved").is_dir()
        before = read_tree(folder)
        with monkeypatch.context() as patched:
            patched.setattr("spacy_sapbert.files.lock_folder", refuse)
            assert find_id(make_linker().from_disk(folder)) in ("OLD", "NEW")
        assert read_tree(folder) == before
    assert n_waiting


@pytest.mark.parametrize("part", ["encoder", "linker.json"])
def test_parts_that_are_links_are_replaced_and_what_they_point_to_stays(old, new, tmp_path, part):
    folder, target = tmp_path / "p", tmp_path / "elsewhere"
    old.to_disk(folder)
    (folder / part).rename(target)
    (folder / part).symlink_to(target)
    before = read_tree(target) if target.is_dir() else target.read_bytes()
    assert find_id(make_linker().from_disk(folder)) == "OLD"
    new.to_disk(folder)
    assert find_id(make_linker().from_disk(folder)) == "NEW" and not (folder / part).is_symlink()
    assert (read_tree(target) if target.is_dir() else target.read_bytes()) == before


def test_parts_to_leave_out_that_are_a_string_or_unknown_are_refused(old, tmp_path):
    old.to_disk(tmp_path / "p")
    before, data = read_tree(tmp_path / "p"), old.to_bytes()
    twin = make_linker()
    for exclude in ("encoder", "vocab", ["encodr"], ["encoder", "retrievers"], [["encoder"]], [None], None, 5):
        for call, *arguments in (
            (old.to_disk, tmp_path / "p"),
            (old.to_bytes,),
            (twin.from_disk, tmp_path / "p"),
            (twin.from_bytes, data),
        ):
            with pytest.raises((TypeError, ValueError), match=r"exclude.*encoder, terminology, retriever"):
                call(*arguments, exclude=exclude)
    assert read_tree(tmp_path / "p") == before and not twin.is_ready
    # What is left out at saving is removed.
    old.to_disk(tmp_path / "p", exclude=["encoder"])
    assert not (tmp_path / "p" / "encoder").exists()


@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_a_linker_has_no_old_concepts_after_an_empty_one_was_loaded(old, tmp_path, how):
    twin, empty = make_linker().from_bytes(old.to_bytes()), make_linker()
    if how == "disk":
        empty.to_disk(tmp_path / "p")
        twin.from_disk(tmp_path / "p")
    else:
        twin.from_bytes(empty.to_bytes())
    assert not twin.is_ready and not twin.encoder.is_loaded
    assert twin.to_bytes() == empty.to_bytes()


def test_what_is_left_out_at_loading_stays(old, new):
    twin = make_linker().from_bytes(old.to_bytes())
    twin.from_bytes(new.to_bytes(), exclude=["terminology", "retriever"])
    assert find_id(twin) == "OLD"
    twin.from_bytes(new.to_bytes(), exclude=["encoder"])
    assert find_id(twin) == "NEW"


def test_bytes_of_something_else_are_refused_and_change_nothing(old):
    twin = make_linker().from_bytes(old.to_bytes())
    foreign = [{"model": b"", "cfg": b""}, ["encoder"], "retriever", {"retriever": None}, {"terminology": "text"}]
    for data in (b"", spacy.blank("xx").to_bytes(), *map(srsly.msgpack_dumps, foreign)):
        with pytest.raises(ValueError, match=r"Can't unpack these bytes:"):
            twin.from_bytes(data)
    assert find_id(twin) == "OLD" and twin.to_bytes() == old.to_bytes()


@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_settings_of_the_index_that_are_given_at_loading_are_applied(old, tmp_path, how):
    """Whether an index is approximate depends on its size, but not whether it gets its settings."""

    def load(linker, index):
        twin = make_linker(index)
        if how == "bytes":
            return twin.from_bytes(linker.to_bytes())
        linker.to_disk(tmp_path / "p")
        return twin.from_disk(tmp_path / "p")

    scann = load(old, ScannIndex(recall_target=0.9))
    assert scann.index.kind == "scann" and scann.index.settings.recall_target == 0.9
    again = load(scann, ScannIndex(recall_target=0.8))
    assert again.index.settings.recall_target == 0.8 and again.find(["cold"]) == old.find(["cold"])
    assert load(again, Index()).index.kind == "exact"
    # What a config leaves to the platform is left as it was saved.
    assert load(old, make_auto_index(recall_target=0.8)).index.kind == "exact"
    assert load(scann, make_auto_index(recall_target=0.8)).index.settings.recall_target == 0.8


def test_an_index_that_is_as_its_config_says_is_not_built_again(old, monkeypatch):
    data = old.to_bytes()

    def refuse(*args, **kwargs):
        raise AssertionError("the index is built again")

    monkeypatch.setattr(Index, "build", refuse)
    assert make_linker().from_bytes(data).find(["cold"]) == old.find(["cold"])
