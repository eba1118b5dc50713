"""What another version of the package has saved is no damaged file: whoever loads it reads which way out there is."""

import json
import re
import shutil

import numpy as np
import pytest
import spacy
from forging import sign, sign_manifest
from safetensors.numpy import load_file, save_file

from spacy_sapbert.files import list_files

ADVICE = r"another version has (probably )?saved it\. Build the pipeline again, or install that version"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory, static_folder, terminology):
    folder = tmp_path_factory.mktemp("versions") / "pipeline"
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, encoder=str(static_folder))
    nlp.add_pipe("sapbert_reranker").initialize(second=str(static_folder))
    nlp.to_disk(folder)
    return folder


def list_manifests(folder):
    contents = {name: json.loads((folder / name).read_text()) for name in list_files(folder) if name.endswith(".json")}
    return [name for name, content in contents.items() if isinstance(content, dict) and "checksum" in content]


def load_changed(folder, name):
    """Load a pipeline, and return the name of the file that is refused, if there is one."""
    try:
        spacy.load(folder)
    except OSError as error:
        assert re.search(ADVICE, str(error)), (name, error)
        return re.findall(r"'(/[^']*)'", str(error))[0]
    return None


def test_a_manifest_with_other_fields_is_that_of_another_version(pipeline, tmp_path):
    manifests = list_manifests(pipeline)
    for name in manifests:
        whole = json.loads((pipeline / name).read_text())
        # What has no kind is a transformer's folder.
        own = whole.keys() - {"checksum", "files", "format", "kind", "fingerprint", "threshold"}
        for missing in ({"format"}, own, {"files"}):
            folder = shutil.copytree(pipeline, tmp_path / "changed")
            path = folder / name
            changed = {key: value for key, value in whole.items() if key not in missing}
            path.write_text(json.dumps(changed))
            sign_manifest(path, changed, path, folder)
            assert load_changed(folder, name) == str(path), missing
            shutil.rmtree(folder)
    assert len(manifests) == 9


def test_arrays_of_other_types_are_those_of_another_version(pipeline, tmp_path):
    arrays = [name for name in list_files(pipeline) if name.endswith((".npy", "arrays.safetensors"))]
    first_of_each = {name.rpartition("/")[0]: name for name in reversed(arrays)}
    for name in first_of_each.values():
        folder = shutil.copytree(pipeline, tmp_path / "changed")
        path = folder / name
        if path.suffix == ".npy":
            np.save(path, np.zeros(np.load(path).shape, dtype=np.complex64))
        else:
            save_file({key: array.astype(np.int8) for key, array in load_file(path).items()}, path)
        sign(path, folder)
        assert load_changed(folder, name) == str(path)
        shutil.rmtree(folder)
    assert len(first_of_each) == 5


def test_tables_of_another_form_are_those_of_another_version(pipeline, tmp_path):
    for name in ("concepts.bin", "names.bin"):
        folder = shutil.copytree(pipeline, tmp_path / name)
        path = folder / "sapbert_linker" / "terminology" / name
        path.write_bytes(path.read_bytes() + bytes(8))
        sign(path, folder)
        assert load_changed(folder, name) == str(path)
