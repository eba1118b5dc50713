"""The project multilingual_encoder: its wheel is found by its name, and pipelines with it load anywhere, offline."""

import subprocess
import sys
import zipfile

import pytest
from conftest import load_encoder
from core.test_without_torch import run
from project_scripts import import_scripts
from spacy.cli.package import package

from spacy_sapbert.encoder.folder import read_encoder, write_encoder

with import_scripts("multilingual_encoder"):
    import package as project

CARD = "---\nlicense: apache-2.0\n---\n\nMade of nothing.\n"
BUILD = """
import spacy
from spacy_sapbert import TerminologyBuilder

builder = TerminologyBuilder()
for number, name in enumerate(["Herzinfarkt", "chronische Niereninsuffizienz", "Kopfschmerz"]):
    builder.add_name(f"C{number}", name, language="GER")
nlp = spacy.blank("de")
nlp.add_pipe("terminology_matcher")
linker = nlp.add_pipe("sapbert_linker")
linker.initialize(terminology=builder.build(), encoder="tiny")
nlp.to_disk(folder)
"""
LOAD = "import spacy; nlp = spacy.load('de_german_linker'); linker = nlp.get_pipe('sapbert_linker')"
LINK = """
doc = nlp("Keine Kopfschmerzen, aber Herzinfarkte bei chronischer Niereninsuffizienz.")
print(linker.encoder.fingerprint)
print(*((ent.text, ent.kb_id_) for ent in doc.ents))
print(linker.find(["Infarkt", "Schmerz am Kopf", "Niere"]))
"""


@pytest.fixture
def encoder(static_folder, tmp_path):
    """An encoder folder with a card."""
    write_encoder(read_encoder(static_folder), tmp_path / "encoder")
    (tmp_path / "encoder" / "README.md").write_text(CARD, encoding="utf8")
    return tmp_path / "encoder"


def unpack(wheel, site):
    """Unpack a wheel, and return its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA"))
    return metadata


def test_encoders_without_a_card_or_a_licence_and_other_names_are_refused(encoder, tmp_path):
    for name in ("../tiny", "Tiny", "", "a-b"):
        with pytest.raises(SystemExit, match="give a word of small letters"):
            project.write_package(encoder, name, "1.2.3", tmp_path)
    (encoder / "README.md").write_text("Made of nothing. license: none", encoding="utf8")
    with pytest.raises(SystemExit, match="names no licence.*--licence"):
        project.write_package(encoder, "tiny", "1.2.3", tmp_path)
    (encoder / "README.md").unlink()
    with pytest.raises(SystemExit, match="has no card"):
        project.write_package(encoder, "tiny", "1.2.3", tmp_path)


def test_a_german_pipeline_with_an_encoder_by_name_is_packaged_and_loads_elsewhere(encoder, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "kept.txt").touch()
    wheel = project.write_package(encoder, "tiny", "1.2.3", wheels)
    assert wheel.name == "spacy_sapbert_tiny-1.2.3-py3-none-any.whl" and (wheels / "kept.txt").exists()
    metadata = unpack(wheel, tmp_path / "site")
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Dist: spacy-sapbert>=" in metadata and "Made of nothing." in metadata

    def find_from(site):
        return f"import sys; sys.path.insert(0, {str(tmp_path / site)!r})\n"

    made = run(f"{find_from('site')}folder = {str(tmp_path / 'german')!r}\n{BUILD}{LINK}")
    package(tmp_path / "german", wheels, name="german_linker", create_sdist=False)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels)]
    subprocess.run([*build, str(wheels / "de_german_linker-0.0.0")], check=True, capture_output=True)
    unpack(wheels / "de_german_linker-0.0.0-py3-none-any.whl", tmp_path / "elsewhere")
    # The package of the encoder is not needed any more.
    assert run(f"{find_from('elsewhere')}{LOAD}{LINK}") == made
    fingerprint, linked, _ = made.splitlines()
    assert fingerprint == load_encoder(encoder).fingerprint
    expected = [("Kopfschmerzen", "C2"), ("Herzinfarkte", "C0"), ("chronischer Niereninsuffizienz", "C1")]
    assert linked == " ".join(map(str, expected))
