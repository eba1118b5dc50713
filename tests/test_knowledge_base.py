"""spaCy's `entity_linker` over the concepts of a saved linker."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import spacy
from conftest import build_terminology
from linked import ids, make_span
from spacy.training import Example
from spacy.util import registry
from spacy.vocab import Vocab

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.knowledge_base import KnowledgeBaseSettings, LinkerKnowledgeBase, make_knowledge_base_loader

EMPTY = {"@misc": "spacy-sapbert.EmptyKnowledgeBase.v1"}
SENTENCES = {"She has a cold today.": "C0009443", "The cold outside is harsh.": "C0009264"}


@pytest.fixture
def pipeline_path(make_nlp, tmp_path):
    make_nlp().to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def test_candidates_are_those_of_the_linker_with_priors_and_vectors_of_preferred_names(pipeline_path):
    kb = make_knowledge_base_loader(str(pipeline_path), k=3)(Vocab())
    doc = spacy.blank("xx")("He had a heart attack !")
    (candidates,) = kb.get_candidates_batch([make_span(doc, 3, 5)])
    expected = kb.linker.find(["heart attack"], k=3)[0]
    assert [c.entity_ for c in candidates] == ids(expected) and candidates[0].alias_ == "heart attack"
    weights = np.exp(np.array([candidate["score"] for candidate in expected]) / kb.settings.temperature)
    np.testing.assert_allclose([c.prior_prob for c in candidates], weights / weights.sum(), atol=1e-5)
    assert kb.get_candidates(make_span(doc, 5, 6)) == []
    (vector,) = kb.linker.encoder.encode([kb.linker.terminology["C0027051"].names[0]])
    np.testing.assert_allclose(kb.get_vector("C0027051"), vector, atol=1e-3)
    assert len(kb.get_vector("unknown")) == kb.entity_vector_length and not any(kb.get_vector("unknown"))
    np.testing.assert_array_equal(kb.get_vectors(["C0027051", "C0009443"])[0], kb.get_vector("C0027051"))


# Which threshold applies, for each place where one can be set. A linker's own belongs to its pipeline.
THRESHOLDS = [
    ({}, 0.0),
    ({"encoder": 0.75}, 0.75),
    ({"linker": 0.5}, 0.0),
    ({"encoder": 0.75, "linker": 0.5}, 0.75),
    ({"knowledge base": 0.25}, 0.25),
    ({"encoder": 0.75, "knowledge base": 1.0}, 1.0),
    ({"encoder": 0.75, "knowledge base": 0.0}, 0.0),
    ({"encoder": 0.75, "linker": 0.5, "knowledge base": 0.25}, 0.25),
]


@pytest.mark.parametrize("where, threshold", THRESHOLDS)
def test_a_threshold_is_in_force_wherever_it_is_set(where, threshold, static_folder, tmp_path):
    encoder = tmp_path / "encoder"
    write_encoder(replace(read_encoder(static_folder), threshold=where.get("encoder", 0.0)), encoder)
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe("sapbert_linker", config={"threshold": where.get("linker")})
    terminology = build_terminology([("C1", "heart attack"), ("C2", "heart"), ("C3", "common cold")])
    linker.initialize(terminology=terminology, encoder=encoder)
    nlp.to_disk(tmp_path / "pipeline")
    kb = make_knowledge_base_loader(str(tmp_path / "pipeline"), threshold=where.get("knowledge base"))(Vocab())
    same = LinkerKnowledgeBase(Vocab(), linker, KnowledgeBaseSettings())
    assert same.threshold == where.get("encoder", 0.0)
    same.from_bytes(kb.to_bytes())
    expected = [
        candidate["id"] for candidate in linker.find(["heart lung"], k=10)[0] if candidate["score"] >= threshold
    ]
    for one in (kb, same):
        assert one.threshold == threshold
        mention = make_span(spacy.blank("xx")("heart lung"), 0, 2)
        assert [candidate.entity_ for candidate in one.get_candidates(mention)] == expected
        exact = make_span(spacy.blank("xx")("heart attack"), 0, 2)
        assert "C1" in [candidate.entity_ for candidate in one.get_candidates(exact)]


def train(path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("entity_linker", config={"entity_vector_length": 32, "generate_empty_kb": EMPTY})
    loader = {"@misc": "spacy-sapbert.KnowledgeBase.v1", "path": str(path), "k": 3}
    nlp.config["initialize"]["components"]["entity_linker"] = {"kb_loader": loader}
    examples = []
    for text, kb_id in SENTENCES.items():
        start = text.index("cold")
        annotations = {"entities": [(start, start + 4, "DISORDER")], "links": {(start, start + 4): {kb_id: 1.0}}}
        examples.append(Example.from_dict(nlp.make_doc(text), annotations))
    spacy.util.fix_random_seed(0)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(60):
        for example in examples:
            example.predicted = nlp.make_doc(example.reference.text)
            example.predicted.set_ents(example.reference.ents)
            nlp.get_pipe("sentencizer")(example.predicted)
        nlp.get_pipe("entity_linker").update(examples, sgd=optimizer)
    return nlp


def link(nlp):
    found = []
    for text in SENTENCES:
        doc = nlp.make_doc(text)
        doc.ents = [doc.char_span(text.index("cold"), text.index("cold") + 4, label="DISORDER")]
        found.append(nlp(doc).ents[0].kb_id_)
    return found


def test_the_entity_linker_learns_to_choose_among_homonyms_and_is_saved_whole(pipeline_path, tmp_path):
    nlp = train(pipeline_path)
    assert link(nlp) == list(SENTENCES.values())
    nlp.to_disk(tmp_path / "trained")
    shutil.rmtree(pipeline_path)
    loaded = spacy.load(tmp_path / "trained")
    assert loaded.get_pipe("entity_linker").kb.settings.k == 3
    assert link(loaded) == list(SENTENCES.values())
    assert link(spacy.blank("en").from_config(loaded.config).from_bytes(loaded.to_bytes())) == link(loaded)


def test_an_empty_knowledge_base_is_refused_by_spacy():
    assert registry.misc.get(EMPTY["@misc"])()(Vocab(), 1).is_empty()
    nlp = spacy.blank("xx")
    nlp.add_pipe("entity_linker", config={"generate_empty_kb": EMPTY})
    with pytest.raises(ValueError, match="E139"):
        nlp.initialize()


def test_a_folder_without_the_linker_is_named(pipeline_path, tmp_path):
    for path, name in ((tmp_path / "none", "sapbert_linker"), (pipeline_path, "mesh_linker")):
        with pytest.raises(FileNotFoundError, match=f"There is no component.*{name}"):
            make_knowledge_base_loader(str(path), linker=name)(Vocab())
    with pytest.raises(ValueError, match="temperature"):
        make_knowledge_base_loader(str(pipeline_path), temperature=0.0)


def test_vectors_follow_the_edits_of_the_linker(pipeline_path):
    kb = make_knowledge_base_loader(str(pipeline_path), k=3)(Vocab())
    before = kb.get_vector("C0027051")
    assert kb.linker.add_names([("C0000001", "high blood pressure")]) == 1
    assert kb.get_vector("C0027051") == before
    kb.linker.remove_concepts(["C0000001", "C0009264"])
    assert kb.get_vector("C0027051") == before and not any(kb.get_vector("C0009264"))
