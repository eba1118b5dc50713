"""Documents and settings that are not as they should be."""

import shutil

import numpy as np
import pytest
import spacy
from safetensors.torch import load_file, save_file
from spacy.tokens import Doc, Span

from spacy_sapbert.encoder import settings as encoder_settings
from spacy_sapbert.encoder.shim import build_name_encoder_v1, make_huggingface_loader
from spacy_sapbert.index import Index
from spacy_sapbert.linker import SapbertLinker


@pytest.fixture
def other_encoder(encoder_folder, tmp_path):
    """A folder with the same encoder, but for one of its weights."""
    path = tmp_path / "other_encoder"
    shutil.copytree(encoder_folder, path)
    weights = load_file(path / "model.safetensors")
    key = next(key for key in weights if key.endswith("word_embeddings.weight"))
    weights[key] = weights[key].flip(0).contiguous()
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path


def link(nlp, words, *ents):
    """Run the linker alone on words with entities from (start, end)."""
    doc = Doc(nlp.vocab, words=words)
    doc.ents = [Span(doc, start, end, label="X") for start, end in ents]
    return nlp.get_pipe("sapbert_linker")(doc)


@pytest.mark.parametrize("text", ["", " ", "\n\n", "No entity in here ."])
def test_documents_without_entities_pass(make_nlp, text):
    doc = make_nlp()(text)
    assert doc.text == text and not doc.ents


@pytest.mark.parametrize(
    "word", ["(", "...", "-", "\U0001f637", "\u200b", "心肌梗死", "高血压", "инфаркт", "ʘ", "\u0301", "\ufffd"]
)
def test_entities_that_say_nothing_to_the_encoder_get_no_candidates(make_nlp, word):
    doc = link(make_nlp(), ["a", word, "cold"], (1, 2), (2, 3))
    assert doc.ents[0]._.kb_candidates == [] and doc.ents[0].kb_id_ == ""
    assert doc.ents[1].kb_id_ == "C0009264"


def test_entities_of_whitespace_get_no_candidates(make_nlp):
    nlp = make_nlp(spans_key="sc", set_nil=True)
    doc = Doc(nlp.vocab, words=["a", " ", "\n\t"])
    doc.spans["sc"] = [Span(doc, 1, 2, label="X"), Span(doc, 1, 3, label="X")]
    spans = nlp.get_pipe("sapbert_linker")(doc).spans["sc"]
    assert [(span.kb_id_, span._.kb_candidates) for span in spans] == [("NIL", []), ("NIL", [])]


def test_an_entity_of_a_thousand_characters_is_linked_and_one_of_ten_thousand_gets_a_warning(make_nlp):
    nlp = make_nlp()
    assert link(nlp, ["ab"] * 333, (0, 333)).ents[0]._.kb_candidates
    with pytest.warns(UserWarning, match="A mention of 10000 characters"):
        doc = link(nlp, ["a" * 10_000, "cold"], (0, 1), (1, 2))
    assert doc.ents[0]._.kb_candidates == [] and doc.ents[0].kb_id_ == ""
    assert doc.ents[1].kb_id_ == "C0009264"


def test_an_entity_of_mixed_scripts_is_linked_by_what_the_encoder_knows(make_nlp):
    (ent,) = link(make_nlp(), ["heart", "attack", "心肌梗死"], (0, 3)).ents
    assert ent._.kb_candidates and ent._.kb_candidates[0]["score"] < 0.9999


@pytest.mark.parametrize("between", ["\n", "  ", "\t", "\r\n", "\u00a0", " \n "])
def test_white_space_inside_an_entity_makes_no_difference(make_nlp, between):
    nlp = make_nlp()
    doc = Doc(nlp.vocab, words=["heart", between, "attack"], spaces=[False] * 3)
    doc.ents = [Span(doc, 0, 3, label="X")]
    best = nlp.get_pipe("sapbert_linker")(doc).ents[0]._.kb_candidates[0]
    assert best["id"] == "C0027051" and best["score"] == pytest.approx(1.0, abs=1e-6)
    assert best["mention"] == "heart attack"


def test_a_document_of_many_entities_is_linked(make_nlp):
    words = ["cold", "hypertension", "insomnia"] * 700
    doc = link(make_nlp(batch_size=2), words, *((i, i + 1) for i in range(len(words))))
    assert [ent.kb_id_ for ent in doc.ents] == ["C0009264", "C0020538", "C0917801"] * 700


def test_a_linker_used_before_it_is_initialized_says_so():
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    assert not linker.is_ready
    with pytest.raises(ValueError, match="has no concepts yet.*initialize.*spacy assemble"):
        nlp("No entity .")
    for use in (
        lambda: linker.terminology,
        lambda: linker.retriever,
        lambda: linker.index,
        lambda: linker.find(["cold"]),
    ):
        with pytest.raises(ValueError, match="has no concepts yet.*sapbert_linker"):
            use()


def test_an_error_handler_gets_the_documents_that_cannot_be_linked():
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    failed = []
    nlp.set_error_handler(lambda name, component, docs, error: failed.append((name, [d.text for d in docs], error)))
    assert list(nlp.pipe(["a", "b"])) == []
    ((name, texts, error),) = failed
    assert name == "sapbert_linker" and texts == ["a", "b"] and "has no concepts yet" in str(error)


def test_an_encoder_that_was_exchanged_is_refused_instead_of_giving_other_links(
    make_nlp, other_encoder, encoder_folder
):
    nlp = make_nlp()
    linker = nlp.get_pipe("sapbert_linker")
    expected = nlp("heart attack").ents[0]._.kb_candidates
    linker.encoder.load(other_encoder)
    for text in ("heart attack", "insomnia"):
        with pytest.raises(ValueError, match="built with another encoder"):
            nlp(text)
    linker.encoder.load(encoder_folder)
    assert nlp("heart attack").ents[0]._.kb_candidates == expected


def test_another_encoder_encodes_the_names_again_and_its_retriever_and_files_are_refused(
    make_nlp, other_encoder, tmp_path
):
    nlp, other = make_nlp(), make_nlp()
    first, second = nlp.get_pipe("sapbert_linker"), other.get_pipe("sapbert_linker")
    cached = other("xyzzy").ents[0]._.kb_candidates
    second.initialize(encoder=make_huggingface_loader(str(other_encoder)))
    assert other("heart attack").ents[0].kb_id_ == "C0027051"
    assert other("xyzzy").ents[0]._.kb_candidates != cached
    before = first.retriever
    with pytest.raises(ValueError, match="built with another encoder.*sapbert_linker"):
        first.set_retriever(second.retriever)
    assert first.retriever is before
    first.to_disk(tmp_path / "first")
    second.to_disk(tmp_path / "second")
    shutil.rmtree(tmp_path / "first" / "encoder")
    shutil.move(tmp_path / "second" / "encoder", tmp_path / "first" / "encoder")
    with pytest.raises(ValueError, match="built with another encoder"):
        spacy.blank("en").add_pipe("sapbert_linker").from_disk(tmp_path / "first")


@pytest.mark.parametrize(
    "setting",
    [
        {"k": 0},
        {"k": -1},
        {"threshold": 1.1},
        {"threshold": -1.5},
        {"batch_size": 0},
        {"cache_size": -1},
        {"kb_url": "https://example.org"},
        {"kb_url": "javascript:alert('{}')"},
        {"kb_url": "//example.org/{}"},
        {"k": "many"},
        {"threshold": "high"},
        {"abbreviations": "all"},
        {"link_labels": "DISORDER"},
        {"skip_labels": "DISORDER"},
        {"skip_labels": None},
        {"overwrite": "perhaps"},
    ],
    ids=str,
)
def test_settings_without_meaning_or_of_the_wrong_type_are_refused_by_name(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        spacy.blank("en").add_pipe("sapbert_linker", config=setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"link_labels": "DISORDER"},
        {"skip_labels": "DISORDER"},
        {"abbreviations": "all"},
        {"threshold": float("nan")},
        {"k": 0},
    ],
    ids=str,
)
def test_settings_given_in_python_are_checked_too(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))}"):
        SapbertLinker(spacy.blank("en").vocab, build_name_encoder_v1(), Index(), **setting)


@pytest.mark.parametrize("what", ["umls.tsv", {"C1": ["cold"]}, lambda: None, lambda: ["cold"]])
def test_a_terminology_of_the_wrong_type_is_refused_and_leaves_the_old_one(make_nlp, what):
    nlp = make_nlp()
    with pytest.raises(TypeError, match="`initialize` of the linker.*terminology"):
        nlp.get_pipe("sapbert_linker").initialize(terminology=what)
    assert nlp("heart attack").ents[0].kb_id_ == "C0027051"


def test_an_encoder_can_be_given_by_its_folder_and_by_nothing_that_is_no_path(make_nlp, terminology, encoder_folder):
    nlp = make_nlp()
    linker = nlp.get_pipe("sapbert_linker")
    expected, fingerprint = nlp("heart attack").ents[0]._.kb_candidates, linker.encoder.fingerprint
    for given in ({"encoder": str(encoder_folder)}, {"encoder": encoder_folder, "terminology": terminology}):
        linker.initialize(**given)
        assert linker.encoder.fingerprint == fingerprint
        assert nlp("heart attack").ents[0]._.kb_candidates == expected
    for what in (3, [str(encoder_folder)]):
        with pytest.raises(TypeError, match="`initialize` of the linker.*encoder"):
            linker.initialize(encoder=what)


def test_initializing_without_terminology_or_encoder_says_what_is_missing(
    terminology, encoder_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(encoder_settings, "FOLDER", tmp_path / "not installed")
    linker = spacy.blank("en").add_pipe("sapbert_linker")
    loader = make_huggingface_loader(str(encoder_folder))
    for given, missing in (({}, "encoder"), ({"terminology": terminology}, "encoder"), ({"encoder": loader}, "termin")):
        with pytest.raises(ValueError, match=f"without its {missing}.*components.sapbert_linker.{missing}"):
            linker.initialize(**given)
        assert not linker.is_ready


def test_a_terminology_whose_names_say_nothing_to_the_encoder_is_refused(encoder_folder):
    from spacy_sapbert.terminology import TerminologyBuilder

    builder = TerminologyBuilder()
    builder.add_concept("C1", canonical_name="高血压")
    builder.add_name("C1", "高血压")
    linker = spacy.blank("en").add_pipe("sapbert_linker")
    with pytest.raises(ValueError, match="names can be encoded"):
        linker.initialize(terminology=builder.build(), encoder=make_huggingface_loader(str(encoder_folder)))
    assert not linker.is_ready


def test_a_model_that_is_no_name_encoder_is_refused():
    from thinc.api import Relu

    with pytest.raises(ValueError, match="is no name encoder"):
        SapbertLinker(spacy.blank("en").vocab, Relu(2, 2), Index())


def test_settings_that_lose_their_meaning_at_run_time_are_refused(make_nlp):
    nlp = make_nlp()
    linker = nlp.get_pipe("sapbert_linker")
    with pytest.raises(ValueError, match=r"k of the linker 'sapbert_linker': .*, not 0"):
        linker.k = 0
    assert linker.k == 5 and len(nlp("heart attack").ents[0]._.kb_candidates) == 5


def test_misspelled_and_fixed_attributes_are_refused(make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    with pytest.raises(AttributeError, match=r"treshold of the linker.*Did you mean threshold\?"):
        linker.treshold = 0.9
    with pytest.raises(AttributeError, match="treshold"):
        _ = linker.treshold
    with pytest.raises(AttributeError, match="cache_size"):
        linker.cache_size = 3
    with pytest.raises(ValueError, match=r"Did you mean threshold\?"):
        SapbertLinker(linker.vocab, linker.model, Index(), treshold=0.9)
    assert linker.cache_size == 20_000 and "threshold" in dir(linker)


def test_numbers_and_lists_of_numpy_are_accepted(make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    linker.k, linker.threshold = np.int64(3), np.float32(0.25)
    linker.ids = np.array(["C0027051", "C0009264"])
    assert (linker.k, linker.threshold, linker.ids) == (3, 0.25, ("C0027051", "C0009264"))
    assert {candidate["id"] for candidate in linker.find(["heart attack"])[0]} <= {"C0027051", "C0009264"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("k", "3"),
        ("k", 2.5),
        ("k", True),
        ("threshold", "0.5"),
        ("skip_labels", None),
        ("set_nil", "yes"),
        ("kb_url", "{}{}"),
    ],
)
def test_settings_of_another_type_are_refused_by_name(make_nlp, key, value):
    linker = make_nlp().get_pipe("sapbert_linker")
    before = linker.settings
    with pytest.raises(ValueError, match=rf"{key}"):
        setattr(linker, key, value)
    assert linker.settings is before
