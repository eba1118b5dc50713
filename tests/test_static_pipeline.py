"""A linker with a static encoder: initialised without an encoder, saved, loaded, copied, and what that imports."""

import copy
import json
import pickle
import shutil
import subprocess
import sys

import pytest
import spacy
from conftest import make_encoder_folder
from spacy.util import load_model_from_config

from spacy_sapbert.encoder import settings as encoder_settings

DOCS = ["She had a heart attack .", "Trouble sleeping and a cold , high blood pressure ."]


@pytest.fixture
def with_bundled(static_folder, monkeypatch):
    monkeypatch.setattr(encoder_settings, "FOLDER", static_folder)


@pytest.fixture
def nlp(with_bundled, terminology):
    return make_pipeline(terminology)


def make_pipeline(terminology, **settings):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in terminology.names["name"].to_list()])
    nlp.add_pipe("sapbert_linker", config=settings).initialize(terminology=terminology)
    return nlp


def links(nlp):
    return [[(ent.text, ent.kb_id_, ent._.kb_candidates) for ent in doc.ents] for doc in nlp.pipe(DOCS)]


def test_saved_pipelines_have_the_card_of_the_bundled_encoder(terminology, tmp_path):
    card = (encoder_settings.FOLDER / "README.md").read_bytes()
    assert b"CC" in card
    first, second = tmp_path / "first", tmp_path / "second"
    make_pipeline(terminology).to_disk(first)
    loaded = spacy.load(first)
    loaded.to_disk(second)
    copied = pickle.loads(pickle.dumps(loaded.get_pipe("sapbert_linker")))
    assert copied.encoder.content.card == card
    for folder in (first, second):
        assert (folder / "sapbert_linker" / "encoder" / "README.md").read_bytes() == card


def test_a_loaded_encoder_is_kept(nlp, terminology, tmp_path):
    linker = nlp.get_pipe("sapbert_linker")
    linker.initialize(encoder=make_encoder_folder(tmp_path / "own"))
    fingerprint = linker.encoder.fingerprint
    assert linker.encoder.content.kind == "transformer"
    linker.initialize(terminology=terminology)
    assert linker.encoder.fingerprint == fingerprint == linker.index.fingerprint


def through_disk(nlp, path):
    nlp.to_disk(path / "pipeline")
    shutil.move(path / "pipeline", path / "moved")
    return spacy.load(path / "moved")


def through_bytes(nlp, _):
    twin = load_model_from_config(nlp.config)
    twin.get_pipe("entity_ruler").add_patterns(nlp.get_pipe("entity_ruler").patterns)
    twin.get_pipe("sapbert_linker").from_bytes(nlp.get_pipe("sapbert_linker").to_bytes())
    return twin


@pytest.mark.parametrize("architecture", ["NameEncoder", "StaticEncoder"])
@pytest.mark.parametrize(
    "copy_of",
    [
        through_disk,
        through_bytes,
        lambda nlp, _: pickle.loads(pickle.dumps(nlp)),
        lambda nlp, _: copy.deepcopy(nlp),
    ],
    ids=["disk", "bytes", "pickle", "deepcopy"],
)
def test_copies_link_alike(with_bundled, terminology, tmp_path, architecture, copy_of):
    nlp = make_pipeline(terminology, model={"@architectures": f"spacy-sapbert.{architecture}.v1"})
    twin = copy_of(nlp, tmp_path)
    assert links(twin) == links(nlp)
    linker = twin.get_pipe("sapbert_linker")
    assert linker.encoder.content.kind == "static"
    assert linker.add_names([("C0027051", "coronary")]) == 1 and linker.find(["coronary"])[0][0]["id"] == "C0027051"


def test_static_architecture_refuses_a_transformer(with_bundled, terminology, encoder_folder):
    linker = spacy.blank("en").add_pipe(
        "sapbert_linker", config={"model": {"@architectures": "spacy-sapbert.StaticEncoder.v1", "max_length": 9}}
    )
    with pytest.raises(ValueError, match="a static encoder is needed"):
        linker.initialize(terminology=terminology, encoder=encoder_folder)
    assert not linker.is_ready and not linker.encoder.is_loaded
    linker.initialize(terminology=terminology)
    assert linker.encoder.settings.max_length == 9


SCRIPT = """
import json, sys
import spacy
spacy.blank("en")
before = set(sys.modules)
nlp = spacy.load(sys.argv[1])
linked = [ent.kb_id_ for ent in nlp("She had a heart attack .").ents]
print(json.dumps([linked, sorted({name.partition(".")[0] for name in set(sys.modules) - before}), sorted(sys.modules)]))
"""


def test_loading_and_linking_imports_no_model_library(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "pipeline")], capture_output=True, text=True, timeout=300
    )
    assert not done.returncode, done.stderr
    linked, new, loaded = json.loads(done.stdout.splitlines()[-1])
    assert linked == ["C0027051"]
    third_party = {name for name in new if name not in sys.stdlib_module_names and not name.startswith("_")}
    # What reads terminologies and indexes.
    assert third_party <= {"spacy_sapbert", "numpy", "polars", "scann", "usearch"}, third_party
    assert not {name for name in loaded if name.startswith(("spacy_sapbert.encoder.transformer_folder", "sympy"))}
