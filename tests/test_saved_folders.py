"""Every kind of saved folder is as readable as any file, and a failed save names its path. What a folder or bytes from
elsewhere hold makes no loading move, delete or change what is not a part of them."""

import errno
import os
import shutil
import stat
import sys
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath

import numpy as np
import polars as pl
import pytest
import spacy
import srsly
import torch
from conftest import build_terminology, make_static, make_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from injection import limited_files
from spacy.vocab import Vocab

from spacy_sapbert.encoder.folder import read_encoder, unpack_encoder, write_encoder
from spacy_sapbert.files import REMOVED, SAVED, is_inside
from spacy_sapbert.index import Index, read_index
from spacy_sapbert.knowledge_base import KnowledgeBaseSettings, LinkerKnowledgeBase, make_empty_linker
from spacy_sapbert.terminology import Terminology
from training.data.folders import DataFolder
from training.engine.checkpoints import choose_checkpoint, save_checkpoint

# Names that lead out of a folder on some system, are no names, or are of what a save leaves to be finished.
OUTSIDE = [
    *("", ".", "..", "../x", "a/../x", "a/..", "/", "/x", "//x/y", "a/", "a//b", "./a", "a\0", "\0"),
    *("C:", "C:x", r"C:\x", r"\x", r"\\x\y", r"..\x", r"a\..\x", "a\\b", "c:/x"),
    *(SAVED, ".SAVED", ".saved.", ".saved ", ".saving.lock", f".saving-{'0' * 32}", f".replaced-{'f' * 32}", REMOVED),
    *(f"a/{SAVED}", f"{SAVED}/a", f"a/{SAVED}/b"),
]
PARTS = st.one_of(
    st.sampled_from([*"ab", "é", ".git", " ", "a.b", "..."]), st.sampled_from(OUTSIDE), st.text(max_size=3)
)
DATA = DataFolder("data.json", "pairs")


@pytest.mark.parametrize("name", [*OUTSIDE, None, 3, b"a", ["a"], {"a": 1}])
def test_no_name_that_leads_outside_is_let_through(name):
    assert not is_inside(name)


@given(st.lists(PARTS, min_size=1, max_size=4), st.sampled_from(["/", "\\"]))
def test_names_that_are_let_through_are_paths_below_their_folder_on_any_system(found, separator):
    name = separator.join(found)
    if not is_inside(name):
        return
    for kind in (PurePosixPath, PureWindowsPath):
        assert kind("/folder", name).as_posix() == f"/folder/{name}"
    assert not {".", "..", ""} & set(name.split("/")) and not set(name) & {"\\", "\0"}
    assert not any(part.lower().startswith((".sav", ".replaced", ".removed")) for part in name.split("/"))


@given(
    st.lists(st.text(st.characters(exclude_characters="/\\:\0.", exclude_categories=["Cs"]), min_size=1), min_size=1)
)
def test_other_names_are_let_through(found):
    assert is_inside("/".join(found))


def make_pipeline(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("terminology_matcher", before="sapbert_linker")
    nlp.add_pipe("sapbert_reranker")
    return nlp


def make_knowledge_base(linker):
    return LinkerKnowledgeBase(Vocab(), linker, KnowledgeBaseSettings())


def make_index():
    index = Index()
    index.build(np.eye(4, dtype=np.float32))
    return index


def save_run(make_nlp, path):
    model = torch.nn.Linear(2, 2)
    for step in (1, 2):
        save_checkpoint(path, model, torch.optim.SGD(model.parameters()), {"step": step, "settings": {}}, {}, {})


# For each kind of folder how to save and to load one. What loads an encoder is `initialize`.
DOORS = {
    "pipeline": (lambda make_nlp, path: make_pipeline(make_nlp).to_disk(path), spacy.load),
    "knowledge base": (
        lambda make_nlp, path: make_knowledge_base(make_nlp().get_pipe("sapbert_linker")).to_disk(path),
        lambda path: make_knowledge_base(make_empty_linker()).from_disk(path),
    ),
    "terminology": (
        lambda make_nlp, path: make_nlp().get_pipe("sapbert_linker").terminology.to_disk(path),
        Terminology.from_disk,
    ),
    "encoder": (
        lambda make_nlp, path: write_encoder(make_nlp().get_pipe("sapbert_linker").encoder.content, path),
        lambda path: make_empty_linker().initialize(terminology=build_terminology([("A", "cold")]), encoder=str(path)),
    ),
    "static encoder": (
        lambda make_nlp, path: write_encoder(make_static(np.eye(len(make_tokenizer()), 8)), path),
        read_encoder,
    ),
    "index": (lambda make_nlp, path: make_index().to_disk(path), read_index),
    "checkpoints": (save_run, choose_checkpoint),
    "training data": (
        lambda make_nlp, path: DATA.save(path, {}, names=pl.DataFrame({"a": [1]})),
        lambda path: DATA.load(path, "names"),
    ),
}


@pytest.fixture(scope="module")
def saved(make_nlp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for name, (save, _) in DOORS.items():
        save(make_nlp, folder / name)
    return folder


# spaCy writes the rest of a pipeline.
COMPONENTS = ["sapbert_linker", "sapbert_reranker"]


def list_folders(folder):
    return [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]


def plant_list(folder, *names):
    (folder / SAVED).mkdir()
    srsly.write_json(folder / SAVED / REMOVED, names)


def plant(kind, folder, file):
    """Put into a folder what somebody could have put there, given the file of the user that lies outside."""
    if kind == "a link to a folder":
        (folder / SAVED).symlink_to(file.parent)
        return
    removed = {"a path": [os.path.relpath(file, folder)], "an absolute path": [str(file)], "the user's": ["mine"]}
    entry = min(path.name for path in folder.iterdir() if path.name != "mine")
    plant_list(folder, *removed.get(kind, []))
    if kind == "a file":
        (folder / SAVED / "mine").write_text("theirs")
    elif kind == "a link to a file":
        (folder / SAVED / entry).symlink_to(file)
    elif kind.startswith("no "):
        (folder / SAVED / REMOVED).write_text(
            {"no list": '{"mine": 1}', "no JSON": '["mine"', "no end": "[" * 100_000}[kind]
        )


PLANTS = ["a path", "an absolute path", "the user's", "a file", "a link to a folder", "a link to a file"]


def read_files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", [*PLANTS, "no list", "no JSON", "no end"])
@pytest.mark.parametrize("door", DOORS)
def test_a_folder_from_elsewhere_makes_no_loading_or_saving_move_or_delete_anything(
    saved, make_nlp, tmp_path, door, kind
):
    save, load = DOORS[door]
    n_refused = 0
    for number, place in enumerate(path.relative_to(saved / door) for path in list_folders(saved / door)):
        home, folder = tmp_path / f"home-{number}", tmp_path / f"{number}" / "from" / "elsewhere"
        shutil.copytree(saved / door, folder)
        home.mkdir()
        # As it would have to be for a link to look like a save.
        for name, text in {"thesis": "mine", REMOVED: "[]"}.items():
            (home / name).write_text(text)
        (folder / place / "mine").write_text("mine")
        plant(kind, folder / place, home / "thesis")
        before = read_files(home), read_files(folder)
        try:
            load(folder)
        except OSError as error:
            assert "interrupted save" in str(error) and str(place) in str(error)
            n_refused += 1
        assert (read_files(home), read_files(folder)) == before, place
        # spaCy writes the rest of a pipeline first.
        if folder / place == folder and door != "pipeline":
            with pytest.raises(OSError, match="interrupted save"):
                save(make_nlp, folder)
            assert (read_files(home), read_files(folder)) == before
    # A transformer's "1_Pooling", for one, has no saves of its own.
    assert n_refused >= {"pipeline": 7, "knowledge base": 5}.get(door, 1)


@pytest.mark.parametrize("door", DOORS)
def test_all_that_a_save_writes_is_moved_into_place_if_it_is_killed_at_once(saved, make_nlp, tmp_path, door):
    save, load = DOORS[door]
    n_finished = 0
    for number, place in enumerate(path.relative_to(saved / door) for path in list_folders(saved / door)):
        folder = shutil.copytree(saved / door, tmp_path / f"{number}")
        names = sorted(os.listdir(folder / place))
        plant_list(folder / place)
        for name in names:
            (folder / place / name).rename(folder / place / SAVED / name)
        # Such as spaCy's own folder of the pipeline, which no save of this kind writes.
        with suppress(OSError, ValueError):
            load(folder)
        n_finished += sorted(os.listdir(folder / place)) == names
    assert n_finished >= {"pipeline": 6, "knowledge base": 5}.get(door, 1)


@pytest.mark.parametrize(
    "name", [f"{SAVED}/{REMOVED}", f"{SAVED}/mine", f".SAVED/{REMOVED}", f".replaced-{'0' * 32}/x"]
)
@pytest.mark.parametrize("door", ["linker", "knowledge base", "terminology", "encoder", "index"])
def test_bytes_with_what_a_save_leaves_are_refused(saved, tmp_path, monkeypatch, door, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    load = {
        "linker": lambda data: make_empty_linker().from_bytes(data),
        "knowledge base": lambda data: make_knowledge_base(make_empty_linker()).from_bytes(data),
        "terminology": Terminology.from_bytes,
        "encoder": unpack_encoder,
        "index": lambda data: Index().__setstate__(data),
    }[door]
    folder = saved / {"linker": "pipeline/sapbert_linker"}.get(door, door)
    files = read_files(folder)
    load(srsly.msgpack_dumps(files))
    (tmp_path / "thesis").write_text("mine")
    for place in list_folders(folder):
        planted = (place.relative_to(folder) / name).as_posix()
        content = srsly.json_dumps(["../" * (planted.count("/") - name.count("/") + 1) + "thesis"]).encode()
        with pytest.raises(ValueError, match="Can't unpack these bytes"):
            load(srsly.msgpack_dumps({**files, planted: content}))
        assert read_files(tmp_path) == {"thesis": b"mine"}


@pytest.mark.skipif(sys.platform == "win32", reason="has no such permissions")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
@pytest.mark.parametrize("door", DOORS)
def test_saved_files_can_be_read_by_whom_other_new_files_can(make_nlp, tmp_path, door, umask):
    before = os.umask(umask)
    try:
        DOORS[door][0](make_nlp, tmp_path / "saved")
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    expected = {path: (0o777 if (tmp_path / path).is_dir() else 0o666) & ~umask for path in modes}
    assert modes == expected and len(modes) > 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("door", [*COMPONENTS, *(door for door in DOORS if door != "pipeline")])
def test_a_save_to_a_full_disk_is_an_error_of_the_system_that_names_the_path(make_nlp, tmp_path, door):
    if door in COMPONENTS:
        save = make_pipeline(make_nlp).get_pipe(door).to_disk
    else:
        save = partial(DOORS[door][0], make_nlp)
    save(tmp_path / "whole")
    sizes = {path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file()}
    for size in sorted(sizes - {0}):
        with limited_files(size - 1), pytest.raises(OSError, match=str(tmp_path / f"{size}")) as caught:
            save(tmp_path / f"{size}")
        assert caught.value.errno == errno.EFBIG, size
        assert read_files(tmp_path / f"{size}") == {}
