"""The threshold that an encoder brings is in force however the encoder comes to the linker."""

import pickle
from dataclasses import replace

import pytest
import spacy
from conftest import build_terminology
from reranker.reranking import add_reranker
from spacy.tokens import Span

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.shim import make_huggingface_loader

# Higher than any score of strings that are no names, of random vectors of 16 numbers.
THRESHOLD = 0.985
TERMINOLOGY = build_terminology([("C1", "heart attack"), ("C2", "common cold")])
PACKAGE = "invented"


@pytest.fixture(scope="module")
def folder(static_folder, tmp_path_factory):
    """A package of an encoder with a threshold."""
    path = tmp_path_factory.mktemp("packages") / f"spacy_sapbert_{PACKAGE}" / "encoder"
    write_encoder(replace(read_encoder(static_folder), threshold=THRESHOLD), path)
    (path.parent / "__init__.py").touch()
    return path


def make(encoder, **model):
    nlp = spacy.blank("de")
    config = {"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", **model}}
    linker = nlp.add_pipe("sapbert_linker", config=config)
    linker.initialize(terminology=TERMINOLOGY, encoder=encoder)
    return nlp


def make_by_config(folder):
    nlp = spacy.blank("de")
    nlp.add_pipe("sapbert_linker")
    nlp.config["initialize"]["components"]["sapbert_linker"] = {
        "encoder": {"@misc": "spacy-sapbert.HuggingFaceEncoder.v1", "name": str(folder)},
    }
    linker = nlp.get_pipe("sapbert_linker")
    settings = nlp.config.interpolate()["initialize"]["components"]["sapbert_linker"]
    linker.initialize(terminology=TERMINOLOGY, encoder=spacy.registry.resolve(settings)["encoder"])
    return nlp


def save(nlp, path):
    nlp.to_disk(path)
    return spacy.load(path)


def source(nlp):
    other = spacy.blank("de")
    other.add_pipe("sapbert_linker", source=nlp)
    return other


def edit(nlp):
    linker = nlp.get_pipe("sapbert_linker")
    linker.add_names([("C3", "liver")])
    linker.remove_concepts(["C2"])
    return nlp


def encode_again(nlp, folder):
    nlp.get_pipe("sapbert_linker").initialize(encoder=folder)
    return nlp


def put_behind(nlp):
    add_reranker(nlp)
    return nlp


WAYS = {
    "folder": lambda folder, path: make(folder),
    "name of a folder": lambda folder, path: make(str(folder)),
    "package": lambda folder, path: make(PACKAGE),
    "loader": lambda folder, path: make(make_huggingface_loader(str(folder))),
    "config": lambda folder, path: make_by_config(folder),
    "settings of a config": lambda folder, path: make(folder, max_length=12, normalize_writing=True),
    "static architecture": lambda folder, path: make(folder, **{"@architectures": "spacy-sapbert.StaticEncoder.v1"}),
    "another encoder": lambda folder, path: encode_again(make(read_and_lower(folder, path)), folder),
    "saved": lambda folder, path: save(make(folder), path),
    "saved with other settings": lambda folder, path: save(make(folder, max_length=12), path),
    "bytes": lambda folder, path: make(folder).from_bytes(make(folder).to_bytes()),
    "pickle": lambda folder, path: pickle.loads(pickle.dumps(make(folder))),
    "sourced": lambda folder, path: source(make(folder)),
    "edited": lambda folder, path: edit(make(folder)),
    "edited and saved": lambda folder, path: save(edit(make(folder)), path),
    "reranker": lambda folder, path: put_behind(make(folder)),
}


def read_and_lower(folder, path):
    """Write the encoder with a lower threshold."""
    write_encoder(replace(read_encoder(folder), threshold=0.1), path / "lower")
    return path / "lower"


@pytest.mark.parametrize("way", WAYS)
def test_the_encoders_threshold_is_in_force(way, folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(folder.parents[1])
    nlp = WAYS[way](folder, tmp_path)
    linker = nlp.get_pipe("sapbert_linker")
    assert linker.threshold is None and linker.min_score == THRESHOLD
    for text, expected in ("heart attack", "C1"), ("heart lung", ""):
        doc = nlp.make_doc(text)
        doc.ents = [Span(doc, 0, len(doc), label="X")]
        (entity,) = linker(doc).ents
        assert (entity.kb_id_, linker.decide([text]).kb_ids) == (expected, [expected])
        assert entity._.kb_candidates
    linker.threshold = 0.0
    assert linker.min_score == 0.0 and linker.decide(["heart lung"]).kb_ids != [""]
