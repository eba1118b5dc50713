"""The package where torch and transformers are not installed: what works, and what says that it needs them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import spacy

from spacy_sapbert.encoder.settings import find_bundled
from spacy_sapbert.encoder.shim import EncoderShim

TEXTS = ["heart attack", "cold", "", "ж"]
MAY_NEED_TORCH = ("spacy_sapbert.encoder.transformer", "spacy_sapbert.decision.second_stage.cross_encoder")
SCRIPT = """
import importlib, importlib.metadata, json, pickle, pkgutil, sys
from pathlib import Path

hidden = ("torch", "transformers", "spacy_transformers", "sentence_transformers", "adapters", "accelerate")
sys.modules.update(dict.fromkeys(hidden))
# spaCy imports the entry points of all distributions.
find = importlib.metadata.distributions
importlib.metadata.distributions = lambda **how: (
    found for found in find(**how) if found.name.lower().replace("-", "_") not in hidden
)
folder, transformer, pipeline, texts = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
results = {}


def report(function):
    try:
        results[function.__name__] = function()
    except Exception as error:
        results[function.__name__] = f"{type(error).__name__}: {error}"


import spacy
import spacy_sapbert
from spacy_sapbert.encoder.shim import EncoderShim, build_name_encoder_v1, get_encoder
from spacy_sapbert.encoder.settings import find_bundled
from spacy_sapbert.encoder.folder import write_encoder


def load(name, **settings):
    model = build_name_encoder_v1(**settings)
    get_encoder(model).load(name)
    return model


@report
def modules():
    missing = []
    for found in pkgutil.walk_packages(spacy_sapbert.__path__, "spacy_sapbert."):
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            missing.append((found.name, str(error)))
    return missing


@report
def encoder():
    model = load(find_bundled(), precision="bf16", device="cpu")
    write_encoder(get_encoder(model).content, folder / "encoder")
    copies = [load(folder / "encoder"), pickle.loads(pickle.dumps(model)), model.copy()]
    copies.append(build_name_encoder_v1().from_bytes(model.to_bytes()))
    assert all((copy.predict(texts) == model.predict(texts)).all() for copy in copies)
    assert len({get_encoder(copy).fingerprint for copy in [model, *copies]}) == 1
    return [get_encoder(model).fingerprint, model.predict(texts).tolist()]


@report
def linker():
    builder = spacy_sapbert.TerminologyBuilder()
    for id_, name in (("C1", "heart attack"), ("C2", "cold")):
        builder.add_concept(id_, canonical_name=name)
        builder.add_name(id_, name)
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "heart attack"}])
    nlp.add_pipe("sapbert_linker", config={"index": {"@misc": "spacy-sapbert.ExactIndex.v1"}})
    nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
    nlp.to_disk(folder / "pipeline")
    doc = spacy.load(folder / "pipeline")("She had a heart attack .")
    return [ent.kb_id_ for ent in doc.ents]


for name, act in {
    "folder": lambda: load(transformer),
    "pipeline": lambda: spacy.load(pipeline),
    "hub": lambda: load("some/encoder"),
    "device": lambda: load(find_bundled(), device="cuda"),
}.items():
    act.__name__ = name
    report(act)
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(encoder_folder, terminology, tmp_path_factory):
    folder = tmp_path_factory.mktemp("without")
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, encoder=encoder_folder)
    nlp.to_disk(folder / "transformer")
    arguments = [str(folder), str(encoder_folder), str(folder / "transformer"), json.dumps(TEXTS)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_other_module_can_be_imported(results):
    assert not [found for found in results["modules"] if not found[0].startswith(MAY_NEED_TORCH)]
    needed = [found for found in results["modules"] if found[0].startswith("spacy_sapbert.encoder.transformer")]
    assert len(needed) == 2


def test_a_static_encoder_is_read_used_written_and_copied(results):
    encoder = EncoderShim({})
    encoder.load(find_bundled())
    fingerprint, vectors = results["encoder"]
    assert fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(np.array(vectors, dtype=np.float32), encoder.encode(TEXTS))


def test_a_linker_links_and_is_saved_and_loaded(results):
    assert results["linker"] == ["C1"]


@pytest.mark.parametrize(
    "what, subject",
    [
        ("folder", "The encoder '.*'"),
        ("pipeline", "The encoder '.*sapbert_linker/encoder'"),
        ("hub", "The encoder 'some/encoder', which is not a folder here,"),
        ("device", "The device 'cuda'"),
    ],
)
def test_what_needs_them_says_so_in_one_line(results, what, subject):
    needs = r"needs torch and transformers \(.*torch.*\): pip install 'spacy-sapbert\[transformers\]'"
    assert re.fullmatch(f"ImportError: {subject} {needs}", results[what]), results[what]


def test_bytes_of_a_transformer_say_so_as_well(encoder_folder, monkeypatch):
    encoder = EncoderShim({})
    encoder.load(encoder_folder)
    data = encoder.to_bytes()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"^The encoder '.*' needs torch and transformers"):
        EncoderShim({}).from_bytes(data)
