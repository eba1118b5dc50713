"""ScaNN opens files of the manifest only, runs no pickle, and keeps its log lines to itself."""

import os
import pickle
import shutil

import pytest
from index_vectors import clustered_vectors

from spacy_sapbert.files import read_manifest, write_manifest
from spacy_sapbert.index import ScannIndex, read_index
from spacy_sapbert.index.scann import hide_native_log

pytestmark = pytest.mark.usefixtures("low_thresholds")
pytest.importorskip("scann")
PART = "structure/0"
ASSETS = f"{PART}/scann_assets.pbtxt"


@pytest.fixture(scope="module")
def saved(scann_index, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scann") / "index"
    scann_index.to_disk(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "index")


def sign(folder, drop=()):
    """Write the manifest again, as someone would who has changed a file."""
    path = folder / "index.json"
    data = read_manifest(path, 1, check_files=False)
    del data["files"], data["format"]
    kept = {name: (folder / name).read_bytes() for name in drop}
    for name in kept:
        (folder / name).unlink()
    write_manifest(path, 1, data)
    for name, content in kept.items():
        (folder / name).write_bytes(content)


def rewrite(folder, old, new):
    path = folder / ASSETS
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_folder_that_is_signed_again_loads(folder):
    sign(folder)
    assert read_index(folder).configuration["scoring"] == "tree_ah"


@pytest.mark.parametrize(
    "place", ["{outside}", "../../../outside/hashed_dataset.npy", "0/../../../../outside/hashed_dataset.npy"]
)
@pytest.mark.parametrize("quote", ['"', "'"])
def test_paths_out_of_the_folder_are_refused(folder, place, quote):
    outside = folder.parent / "outside" / "hashed_dataset.npy"
    outside.parent.mkdir()
    shutil.copy(folder / PART / "hashed_dataset.npy", outside)
    rewrite(folder, '"hashed_dataset.npy"', quote + place.format(outside=outside) + quote)
    sign(folder)
    with pytest.raises(OSError, match=r"^\[E501\].*scann_assets"):
        read_index(folder)


def test_escaped_and_joined_paths_are_refused(folder):
    rewrite(folder, '"hashed_dataset.npy"', '"\\x2e\\x2e/index/" "hashed_dataset.npy"')
    sign(folder)
    with pytest.raises(OSError, match=r"^\[E501\]"):
        read_index(folder)


@pytest.mark.parametrize("name", ["ah_codebook.pb", "hashed_dataset.npy", "scann_assets.pbtxt", "scann_config.pb"])
def test_files_that_the_manifest_does_not_list_are_refused(folder, name):
    sign(folder, drop=[f"{PART}/{name}"])
    with pytest.raises(OSError, match=rf"^\[E501\].*{name}"):
        read_index(folder)


class Loud:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


@pytest.mark.parametrize("is_listed", [True, False])
def test_no_pickle_is_run(folder, is_listed):
    (folder / PART / "scann_docids.pkl").write_bytes(pickle.dumps(Loud()))
    if is_listed:
        sign(folder)
    rows, _ = read_index(folder).search(clustered_vectors()[:5], 1)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_building_and_loading_write_nothing_to_the_screen(tmp_path, capfd):
    index = ScannIndex()
    index.build(clustered_vectors(2100))
    index.to_disk(tmp_path)
    read_index(tmp_path).search(clustered_vectors(5), 1)
    assert capfd.readouterr().err == ""


def test_a_structure_that_fails_to_load_shows_its_log(folder, capfd, monkeypatch):
    import scann

    def fail(*arguments):
        os.write(2, b"I0000 00:00:1795351096.052132    1514 partitioner.cc:58] Size of sampled dataset\n")
        raise RuntimeError("broken")

    monkeypatch.setattr(scann.scann_ops_pybind.scann_pybind, "ScannNumpy", fail)
    with pytest.raises(RuntimeError, match="broken"):
        read_index(folder)
    assert "Size of sampled dataset" in capfd.readouterr().err


def test_only_log_lines_are_hidden_and_messages_are_shown_at_once(capfd):
    log = b"W0000 00:00:1795351096.165366    1514 gmm_utils.cc:1026] Could not normalize centroid\n"
    with hide_native_log() as screen:
        os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n" + log)
        os.write(2, b"Aborted: something else\n")
        screen.write("Arranging the index\n")
        screen.flush()
        assert capfd.readouterr().err == "Arranging the index\n"
    assert capfd.readouterr().err == "Aborted: something else\n"
    os.write(2, log)
    assert capfd.readouterr().err == log.decode()
