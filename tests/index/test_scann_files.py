"""ScaNN opens files of the manifest only, and runs no pickle."""

import pickle
import shutil

import numpy as np
import pytest
from index_vectors import clustered_vectors

from spacy_sapbert.files import read_manifest, write_manifest
from spacy_sapbert.index import read_index

pytestmark = pytest.mark.usefixtures("low_thresholds")
pytest.importorskip("scann")
PART = "structure"
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
    with pytest.raises(OSError, match=r"Can't read.*scann_assets"):
        read_index(folder)


@pytest.mark.parametrize(
    "name", ["ah_codebook.pb", "hashed_dataset.npy", "order.npy", "scann_assets.pbtxt", "scann_config.pb"]
)
def test_files_that_the_manifest_does_not_list_are_refused(folder, name):
    sign(folder, drop=[f"{PART}/{name}"])
    with pytest.raises(OSError, match=rf"Can't read.*{name}"):
        read_index(folder)


@pytest.mark.parametrize("order", [np.arange(2999), np.arange(1, 3001), np.arange(3000) - 1, np.arange(3000) // 2])
def test_an_order_of_other_rows_is_refused(folder, order):
    np.save(folder / PART / "order.npy", order.astype(np.uint32))
    sign(folder)
    with pytest.raises(OSError, match=r"Can't read.*order"):
        read_index(folder)


class Loud:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


@pytest.mark.parametrize("is_listed", [True, False])
def test_no_pickle_is_run(scann_index, folder, is_listed):
    (folder / PART / "scann_docids.pkl").write_bytes(pickle.dumps(Loud()))
    if is_listed:
        sign(folder)
    queries = clustered_vectors()[:5]
    assert (read_index(folder).search(queries, 1)[0] == scann_index.search(queries, 1)[0]).all()
