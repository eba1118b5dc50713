"""Folders are replaced all or nothing, whatever fails or is killed half way."""

import json
import os
from contextlib import suppress

import pytest
from injection import Fault, count_operations, fault_at

from spacy_sapbert.files import SAVED, fill_folder, find_part, read_manifest, write_manifest

MANIFEST = "m.json"
PARTS = ["a", "b", "c", "gone"]
# Parts that stay, parts that come, parts that go, and a file of the user's own.
OLD = {"a/one": "old", "a/two": "old", "b": "old", "gone/x": "old", MANIFEST: None, "mine": "mine"}
NEW = {"a/one": "new", "b": "new", "c/deep/x": "new", MANIFEST: None, "mine": "mine"}


def save(path, files):
    with fill_folder(path, last=MANIFEST, remove=["gone", "c"]) as folder:
        for name, content in files.items():
            if name not in ("mine", MANIFEST):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(content)
        write_manifest(folder / MANIFEST, 1, {})


def make_old(path):
    save(path, OLD)
    (path / "mine").write_text("mine")
    return path


def read(path):
    """Read the files that are seen, which are not those of a save that goes on."""
    names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
    return {n: None if n == MANIFEST else (path / n).read_text() for n in names if not n.startswith(".")}


@pytest.fixture
def n_operations(tmp_path):
    path = make_old(tmp_path / "counted")
    return count_operations(lambda: save(path, NEW), path)


@pytest.mark.parametrize("error", [Fault, KeyboardInterrupt])
def test_a_fault_at_any_file_operation_leaves_the_old_parts_or_the_new_ones(tmp_path, n_operations, error):
    n_old = n_operations
    assert n_operations > 20
    for number in range(n_operations):
        path = make_old(tmp_path / str(number))
        with suppress(error), fault_at(number, path, error=error):
            save(path, NEW)
            n_old -= 1
        # Before anything is finished: the fault came once, and could be answered at once.
        assert read(path) in (OLD, NEW), number
        assert not (path / SAVED).exists(), number
        read_manifest(path / MANIFEST, 1, parts=PARTS)
    # Only what happens after the move can't make a save fail.
    assert n_old > n_operations / 2


def test_a_kill_at_any_file_operation_leaves_the_old_parts_or_the_new_ones_to_the_next_reader(tmp_path, n_operations):
    outcomes, n_unfinished = [], 0
    for number in range(n_operations):
        path = make_old(tmp_path / str(number))
        with suppress(Fault), fault_at(number, path, lasting=True):
            save(path, NEW)
        # All parts are found before the save is finished. The manifest lists the files; each is in the part that its
        # path starts with.
        n_unfinished += (path / SAVED).is_dir()
        names = json.loads(find_part(path, MANIFEST).read_text())["files"]
        found = {name: (find_part(path, name.split("/")[0]).parent / name).read_text() for name in names}
        assert found in ({n: c for n, c in files.items() if c in ("old", "new")} for files in (OLD, NEW)), number
        read_manifest(path / MANIFEST, 1, parts=PARTS)
        assert read(path) in (OLD, NEW), number
        outcomes.append(read(path) == NEW)
        assert not (path / SAVED).exists(), number
        save(path, OLD)
        assert read(path) == OLD, number
        assert [p.name for p in path.iterdir() if p.name.startswith(".")] == [], number
    # There is one moment that decides.
    assert outcomes == sorted(outcomes) and not all(outcomes) and any(outcomes) and n_unfinished > 5


def test_links_among_the_parts_to_remove_and_dangling_ones_are_removed(tmp_path):
    path = make_old(tmp_path / "folder")
    (path / "gone").rename(tmp_path / "elsewhere")
    (path / "gone").symlink_to("../elsewhere")
    (path / "b").unlink()
    (path / "b").symlink_to("nowhere")
    save(path, NEW)
    assert read(path) == NEW and (tmp_path / "elsewhere" / "x").read_text() == "old"
    assert not os.path.lexists(path / "gone")


def test_leftovers_of_killed_saves_are_removed_by_the_next_good_one_and_nothing_else(tmp_path):
    path = make_old(tmp_path / "folder")
    leftovers = [f".saving-{'0' * 32}", f".replaced-{'f' * 32}"]
    kept = [".saving-mine", ".replaced", ".git"]
    for name in (*leftovers, *kept):
        (path / name).mkdir()
        (path / name / "file").write_text("x")
    with pytest.raises(RuntimeError), fill_folder(path):
        raise RuntimeError
    save(path, NEW)
    assert sorted(p.name for p in path.iterdir() if p.name.startswith(".")) == sorted(kept)
