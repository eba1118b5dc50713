"""The project multilingual_encoder: its wheel is found by its name, offline."""

import subprocess
import sys
import zipfile

import pytest
from conftest import load_encoder
from project_scripts import import_scripts

from spacy_sapbert.encoder.folder import read_encoder, write_encoder

with import_scripts("multilingual_encoder"):
    import package as project

LINK = """
import spacy
from spacy_sapbert import TerminologyBuilder
builder = TerminologyBuilder()
builder.add_name("C1", "heart attack")
nlp = spacy.blank("de")
linker = nlp.add_pipe("sapbert_linker")
linker.initialize(terminology=builder.build(), encoder="tiny")
print(linker.encoder.fingerprint)
"""


def test_the_wheel_of_an_encoder_is_found_by_its_name(static_folder, tmp_path):
    source = read_encoder(static_folder)
    with pytest.raises(SystemExit, match="has no card"):
        project.write_package(static_folder, "tiny", "1.2.3", tmp_path)
    folder = tmp_path / "encoder"
    write_encoder(source, folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n\nMade of nothing.\n", encoding="utf8")
    for name in ("../tiny", "Tiny", "", "a-b"):
        with pytest.raises(SystemExit, match="give a word of small letters"):
            project.write_package(folder, name, "1.2.3", tmp_path)
    kept = tmp_path / "wheels" / "kept.txt"
    kept.parent.mkdir()
    kept.touch()
    wheel = project.write_package(folder, "tiny", "1.2.3", kept.parent)
    assert wheel.name == "spacy_sapbert_tiny-1.2.3-py3-none-any.whl" and kept.exists()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA"))
    assert "Requires-Dist: spacy-sapbert>=" in metadata and "Made of nothing." in metadata
    done = subprocess.run(
        [sys.executable, "-c", LINK],
        env={"PYTHONPATH": str(tmp_path / "site"), "HF_HUB_OFFLINE": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [load_encoder(folder).fingerprint]
