"""A linker with a static encoder: initialised without an encoder, and what loading it and linking import."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import spacy

from spacy_sapbert.encoder import settings as encoder_settings
from spacy_sapbert.encoder.folder import read_encoder, write_encoder

BUNDLED = encoder_settings.FOLDER


@pytest.fixture(autouse=True)
def with_bundled(static_folder, monkeypatch):
    monkeypatch.setattr(encoder_settings, "FOLDER", static_folder)


def test_static_architecture_refuses_a_transformer(terminology, encoder_folder):
    linker = spacy.blank("xx").add_pipe(
        "sapbert_linker", config={"model": {"@architectures": "spacy-sapbert.StaticEncoder.v1", "max_length": 9}}
    )
    with pytest.raises(ValueError, match="a static encoder is needed"):
        linker.initialize(terminology=terminology, encoder=encoder_folder)
    assert not linker.is_ready and not linker.encoder.is_loaded
    linker.initialize(terminology=terminology)
    assert linker.encoder.settings.max_length == 9


def test_a_linker_keeps_its_encoder_until_it_gets_another(terminology, encoder_folder, static_folder):
    linker = spacy.blank("xx").add_pipe("sapbert_linker")
    linker.initialize(terminology=terminology)
    bundled, expected = linker.encoder.fingerprint, linker.find(["heart atack", "cold"])
    assert bundled == read_encoder(static_folder).fingerprint == linker.index.fingerprint
    linker.initialize(encoder=encoder_folder)
    linker.initialize(terminology=terminology)
    assert linker.encoder.content.kind == "transformer" and linker.encoder.fingerprint == linker.index.fingerprint
    linker.initialize(encoder=static_folder)
    assert linker.encoder.fingerprint == bundled and linker.find(["heart atack", "cold"]) == expected


def test_an_encoder_brings_its_own_threshold(terminology, static_folder, tmp_path):
    assert read_encoder(BUNDLED).threshold == 0.75
    own = read_encoder(static_folder)
    write_encoder(replace(own, threshold=0.9), tmp_path / "encoder")
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=terminology)
    assert linker.min_score == own.threshold == 0.0
    linker.initialize(encoder=tmp_path / "encoder")
    assert linker.min_score == 0.9 and linker.encoder.fingerprint == own.fingerprint
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved").get_pipe("sapbert_linker")
    assert loaded.min_score == 0.9
    loaded.threshold = 0.1
    assert loaded.min_score == 0.1


SCRIPT = """
import json, sys
import spacy
spacy.blank("en")
before = set(sys.modules)
nlp = spacy.load(sys.argv[1])
linked = [ent.kb_id_ for ent in nlp("She had a heart attack .").ents]
print(json.dumps([linked, sorted({name.partition(".")[0] for name in set(sys.modules) - before}), sorted(sys.modules)]))
"""


def test_loading_and_linking_imports_no_model_library(make_nlp, static_folder, tmp_path):
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").initialize(encoder=static_folder)
    nlp.to_disk(tmp_path / "pipeline")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "pipeline")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    linked, new, loaded = json.loads(done.stdout.splitlines()[-1])
    assert linked == ["C0027051"]
    third_party = {name for name in new if name not in sys.stdlib_module_names and not name.startswith("_")}
    # What reads terminologies and indexes.
    assert third_party <= {"spacy_sapbert", "numpy", "polars", "scann", "usearch"}, third_party
    unwanted = ("spacy_sapbert.encoder.transformer_folder", "spacy_sapbert.exchange", "sympy")
    assert not [name for name in loaded if name.startswith(unwanted)]
