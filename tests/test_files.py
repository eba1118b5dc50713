"""Manifests notice every change, packing is safe, folders appear whole or not at all."""

import hashlib
import json
import shutil
import stat
import sys
from pathlib import Path

import pytest
import srsly
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from injection import DAMAGE, check_damage, flip_bits, limited_files

from spacy_sapbert.encoder.settings import ENCODER_FILE
from spacy_sapbert.files import (
    fill_folder,
    hash_file,
    list_files,
    pack_with,
    read_manifest,
    unpack_folder,
    write_manifest,
    write_whole,
)

ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    (path / "sub").mkdir(parents=True)
    (path / "a.bin").write_bytes(bytes(range(256)))
    (path / "sub" / "ü.txt").write_text("text", encoding="utf8")
    write_manifest(path / "m.json", 1, {"value": [1, 2.5, None, "漢"]})
    return path


def rewrite(path, **changes):
    """Change a manifest by hand, checksum and all."""
    manifest = {**json.loads(path.read_text(encoding="utf8")), **changes}
    del manifest["checksum"]
    checksum = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**manifest, "checksum": checksum}), encoding="utf8")


def test_manifest_gives_back_its_data_and_lists_the_files_below_subfolders_if_asked_to(folder, monkeypatch):
    monkeypatch.setattr("spacy_sapbert.files.CHUNK", 10)
    data = read_manifest(folder / "m.json", 1)
    assert data["value"] == [1, 2.5, None, "漢"] and data["format"] == 1
    assert data["files"]["a.bin"] == xxhash.xxh3_128_hexdigest(bytes(range(256)))
    assert list(data["files"]) == ["a.bin", "sub/ü.txt"]
    write_manifest(folder / "m.json", 1, {}, below=False)
    assert list(read_manifest(folder / "m.json", 1)["files"]) == ["a.bin"]
    with pytest.raises(FileNotFoundError, match=r"The copy or the download is incomplete; write"):
        read_manifest(folder / "other.json", 1)
    with pytest.raises(OSError, match=r"format 1.*format 2"):
        read_manifest(folder / "m.json", 2)


OUTSIDE = ["../outside", "/etc/hosts", "sub/../../outside", r"..\outside", r"C:\outside", "C:outside", r"\outside"]


def test_what_is_no_manifest_lists_no_files_or_paths_outside_is_refused(folder):
    path = folder / "m.json"
    for files in (None, [], "a.bin", 3):
        rewrite(path, files=files)
        with pytest.raises(OSError, match=r"Can't read.*no list of files"):
            read_manifest(path, 1)
    (folder.parent / "outside").write_bytes(b"x")
    for name in (*OUTSIDE, "", "a\0b"):
        rewrite(path, files={name: hash_file(folder.parent / "outside")})
        for check_files in (True, False):
            with pytest.raises(OSError, match=r"Can't read.*not a path in its folder"):
                read_manifest(path, 1, check_files=check_files)
    for content in ("", "[]", "3", '"text"', "null", "{}", '{"format": 1}', '{"checksum": "x"}', "{", "[" * 100_000):
        path.write_text(content)
        with pytest.raises(OSError, match=DAMAGE):
            read_manifest(path, 1)


def test_every_flipped_bit_of_the_manifest_is_noticed(folder):
    path = folder / "m.json"
    original = path.read_bytes()
    for place in range(len(original)):
        damaged = bytearray(original)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with pytest.raises(OSError, match=DAMAGE):
            read_manifest(path, 1, check_files=False)


def test_changed_truncated_and_missing_files_are_noticed(folder):
    check_damage(folder, lambda folder: read_manifest(folder / "m.json", 1))
    with (folder / "a.bin").open("ab") as file:
        file.write(b"x")
    with pytest.raises(OSError, match=r"is not the file that was saved: it is"):
        read_manifest(folder / "m.json", 1)
    assert read_manifest(folder / "m.json", 1, check_files=False)


def test_files_that_are_used_have_to_be_listed(folder):
    path, used = folder / "m.json", (["a.bin"], ["*.bin"], ["never there.bin"])
    assert all(read_manifest(path, 1, used=[*names, "*.npy"]) for names in used[:2])
    (folder / "b.txt").write_text("a note of the user")
    rewrite(path, files={})
    assert read_manifest(path, 1) and read_manifest(path, 1, used=["*.npy"])
    for names in used:
        with pytest.raises(OSError, match=r"Can't read.*does not list"):
            read_manifest(path, 1, used=names)


def pack_folder(folder):
    return pack_with(lambda copy: shutil.copytree(folder, copy, dirs_exist_ok=True))


names = st.lists(st.sampled_from("abcé"), min_size=1, max_size=3).map("/".join)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(names, st.binary(max_size=40), max_size=6))
def test_packing_round_trips(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("pack")
    files = {f"{name}.f": content for name, content in files.items()}
    for name in ("in", "out"):
        (root / name).mkdir()
    for name, content in files.items():
        (root / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "in" / name).write_bytes(content)
    unpack_folder(pack_folder(root / "in"), root / "out")
    assert {name: (root / "out" / name).read_bytes() for name in list_files(root / "out")} == files


def test_bytes_that_are_no_packed_folder_are_refused(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    foreign = [[1, 2], {"a": "text"}, {"a": None}, {"a\0b": b"x"}, {"../out_of_it": b"x"}, {"/out_of_it": b"x"}]
    packed = srsly.msgpack_dumps({"a": b"x" * 100})
    for data in (b"", b"garbage", packed[:-1], *map(srsly.msgpack_dumps, foreign)):
        with pytest.raises(ValueError, match=r"Can't unpack these bytes:"):
            unpack_folder(data, target)
    assert list_files(tmp_path) == []


def test_damaged_packed_bytes_never_give_another_folder_silently(folder, tmp_path):
    for number, damaged in enumerate(flip_bits(pack_folder(folder), 300)):
        target = tmp_path / f"{number}"
        target.mkdir()
        with pytest.raises((OSError, ValueError)):
            unpack_folder(damaged, target)
            read_manifest(target / "m.json", 1)


def test_a_filled_folder_keeps_what_is_not_replaced_and_a_failed_one_everything(tmp_path):
    path = tmp_path / "deep" / "folder"
    for name in ("first", "second"):
        with fill_folder(path) as temporary:
            assert not (temporary / "first").exists()
            (temporary / name).write_text(name)
    with pytest.raises(RuntimeError), fill_folder(path) as temporary:
        (temporary / "new").write_text("new")
        raise RuntimeError
    assert list_files(tmp_path) == ["deep/folder/first", "deep/folder/second"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["folder"]
    # As readable as any new folder.
    (tmp_path / "plain").mkdir()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/folder"):
        with pytest.raises((FileExistsError, NotADirectoryError), match=rf"{name}'.*a file is in the way"):
            with fill_folder(tmp_path / name):
                pytest.fail("nothing can be filled")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="has no such permissions")
def test_a_file_is_written_whole_and_keeps_its_permissions(tmp_path):
    file = tmp_path / "f"
    for mode in (0o600, 0o664):
        file.write_text("old")
        file.chmod(mode)
        with write_whole(file) as temporary:
            temporary.write_text("new")
        assert file.read_text() == "new" and stat.S_IMODE(file.stat().st_mode) == mode
    with pytest.raises(RuntimeError), write_whole(file) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert file.read_text() == "new" and list_files(tmp_path) == ["f"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_what_fails_on_a_full_disk_names_the_path(tmp_path):
    with limited_files(1), pytest.raises(OSError, match=str(tmp_path / "file")), write_whole(tmp_path / "file") as part:
        part.write_text("text")
    # Nothing but what the save itself writes.
    with limited_files(1), pytest.raises(OSError, match=str(tmp_path / "folder")), fill_folder(tmp_path / "folder"):
        pass
    assert list_files(tmp_path) == []


@pytest.mark.parametrize("encoder", ["spacy_sapbert/bundled/encoder", "projects/open_encoder/model"])
def test_encoders_of_the_repository_are_as_their_manifests_say(encoder):
    """An edited card makes a folder one that cannot be loaded."""
    folder = ROOT / encoder
    assert set(read_manifest(folder / ENCODER_FILE, 1)["files"]) == {*list_files(folder)} - {ENCODER_FILE}
