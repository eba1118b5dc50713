"""Documents and settings that are not as they should be."""

import inspect
import re
import shutil

import numpy as np
import pytest
import spacy
from case_tables import read_table
from confection import ConfigValidationError
from conftest import build_terminology
from linked import ids, make_doc
from spacy.cli import app as spacy_cli
from spacy.tokens import Doc, Span
from spacy.util import load_model_from_config
from thinc.api import Config, Relu
from typer.testing import CliRunner

from spacy_sapbert.encoder import settings as encoder_settings
from spacy_sapbert.encoder.shim import make_huggingface_loader
from spacy_sapbert.index import Index
from spacy_sapbert.linker import SapbertLinker, make_linker
from spacy_sapbert.snapshot import LinkerSettings

# What a setting of `initialize` is answered with in `add_pipe`.
LATER = (
    "This is not a setting, but given to `initialize`: nlp.get_pipe('{{component}}').initialize({name}=...), or "
    "[initialize.components.{{component}}] in a config."
)


@pytest.fixture
def linker(make_nlp):
    return make_nlp().get_pipe("sapbert_linker")


@pytest.fixture
def empty():
    """A pipeline with a linker without concepts."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("sapbert_linker")
    return nlp


def test_entities_that_say_nothing_to_the_encoder_get_no_candidates(make_nlp):
    linker = make_nlp(spans_key="sc", set_nil=True).get_pipe("sapbert_linker")
    for word in ("(", "...", "-", "\U0001f637", "\u200b", "心肌梗死", "инфаркт", "ʘ", "\u0301", "\ufffd"):
        doc = linker(make_doc(linker.vocab, f"a {word} cold", (1, 2), (2, 3)))
        assert (doc.ents[0]._.kb_candidates, doc.ents[0].kb_id_) == ([], "NIL"), word
        assert doc.ents[1].kb_id_ == "C0009264"
    doc = Doc(linker.vocab, words=["a", " ", "\n\t"])
    doc.spans["sc"] = [Span(doc, 1, 2, label="X"), Span(doc, 1, 3, label="X")]
    assert [(span.kb_id_, span._.kb_candidates) for span in linker(doc).spans["sc"]] == [("NIL", [])] * 2


def test_an_entity_of_a_thousand_characters_is_linked_and_one_of_ten_thousand_gets_a_warning(linker):
    assert linker(make_doc(linker.vocab, "ab " * 333, (0, 333))).ents[0]._.kb_candidates
    with pytest.warns(UserWarning, match="A mention of 10000 characters"):
        doc = linker(make_doc(linker.vocab, f"{'a' * 10_000} cold", (0, 1), (1, 2)))
    assert doc.ents[0]._.kb_candidates == [] and doc.ents[0].kb_id_ == ""
    assert doc.ents[1].kb_id_ == "C0009264"


def test_white_space_inside_an_entity_makes_no_difference(linker):
    for between in ("\n", "  ", "\r\n", "\u00a0"):
        doc = Doc(linker.vocab, words=["heart", between, "attack"], spaces=[False] * 3)
        doc.ents = [Span(doc, 0, 3, label="X")]
        best = linker(doc).ents[0]._.kb_candidates[0]
        assert best["id"] == "C0027051" and best["score"] == pytest.approx(1.0, abs=1e-6)
        assert best["mention"] == "heart attack"


def test_a_linker_used_before_it_is_initialized_says_so(empty):
    linker = empty.get_pipe("sapbert_linker")
    assert not linker.is_ready
    for use in (
        lambda: empty("No entity ."),
        lambda: linker.terminology,
        lambda: linker.index,
        lambda: linker.find(["cold"]),
    ):
        with pytest.raises(ValueError, match="'sapbert_linker' has no concepts yet.*initialize.*spacy assemble"):
            use()
    failed = []
    empty.set_error_handler(lambda name, component, docs, error: failed.append((name, [d.text for d in docs], error)))
    assert list(empty.pipe(["a", "b"])) == []
    ((name, texts, error),) = failed
    assert name == "sapbert_linker" and texts == ["a", "b"] and "has no concepts yet" in str(error)


def test_retriever_and_files_of_another_encoder_are_refused(make_nlp, linker, other_encoder, tmp_path):
    second = make_nlp().get_pipe("sapbert_linker")
    second.initialize(encoder=make_huggingface_loader(str(other_encoder)))
    before = linker.retriever
    with pytest.raises(ValueError, match="built with another encoder.*sapbert_linker"):
        linker.set_retriever(second.retriever)
    assert linker.retriever is before
    linker.to_disk(tmp_path / "first")
    second.to_disk(tmp_path / "second")
    shutil.rmtree(tmp_path / "first" / "encoder")
    shutil.move(tmp_path / "second" / "encoder", tmp_path / "first" / "encoder")
    with pytest.raises(OSError, match="linker.json.*built with another encoder"):
        linker.from_disk(tmp_path / "first")


def test_settings_without_meaning_or_of_the_wrong_type_are_refused_by_name_wherever_they_are_given(linker):
    before, nlp = linker.settings, spacy.blank("xx")
    for _, (name, value) in read_table("linker_settings")[1]:
        with pytest.raises(ValueError, match=name):
            nlp.add_pipe("sapbert_linker", config={name: value})
        with pytest.raises(ValueError, match=name):
            SapbertLinker(linker.vocab, linker.model, Index(), **{name: value})
        with pytest.raises(ValueError, match=name):
            setattr(linker, name, value)
    with pytest.raises(ValueError, match=r"k of the linker 'sapbert_linker': .*, not 0"):
        linker.k = 0
    for refused in ({"cache_size": -1}, {"threshold": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(refused))):
            SapbertLinker(linker.vocab, linker.model, Index(), **refused)
    assert linker.settings is before


@pytest.mark.parametrize(
    "config, named",
    [
        ({"treshold": 0.5}, "treshold"),
        ({"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "poling": "cls"}}, "poling"),
        ({"index": {"@misc": "spacy-sapbert.ScannIndex.v1", "recal": 0.9}}, "recal"),
        ({"scorer": {"@scorers": "spacy-sapbert.linker_scorer.v1", "sorted": True}}, "sorted"),
        *(({"index": index}, f"linker 'sapbert_linker' is {index!r}.*Index.v1") for index in ("usearch", 5, None)),
    ],
)
def test_unknown_settings_and_indexes_are_refused_by_name(config, named):
    with pytest.raises(ValueError, match=named):
        spacy.blank("xx").add_pipe("sapbert_linker", config=config)


@pytest.mark.parametrize(
    "factory, config, where, told",
    [
        ("sapbert_linker", {"treshold": 0.8}, "sapbert_linker", "There is no such setting. Did you mean threshold?"),
        ("sapbert_linker", {"encoder": "x"}, "sapbert_linker", LATER.format(name="encoder")),
        ("sapbert_linker", {"terminology": "x"}, "sapbert_linker", LATER.format(name="terminology")),
        ("sapbert_linker", {"vectors_path": "x"}, "sapbert_linker", LATER.format(name="vectors_path")),
        ("sapbert_linker", {"encodr": "x"}, "sapbert_linker", "There is no such setting. Did you mean encoder?"),
        ("sapbert_linker", {"scorers": None}, "sapbert_linker", "There is no such setting. Did you mean scorer?"),
        (
            "sapbert_linker",
            {"index": {"@misc": "spacy-sapbert.ScannIndex.v1", "recall_targt": 0.9}},
            "sapbert_linker.index",
            "There is no such setting. Did you mean recall_target?",
        ),
        (
            "sapbert_linker",
            {"model": {"@architectures": "spacy-sapbert.NameEncoder.v1", "poling": "cls"}},
            "sapbert_linker.model",
            "There is no such setting. Did you mean pooling?",
        ),
        ("sapbert_reranker", {"n_candidate": 3}, "sapbert_reranker", "There is no such setting. Did you mean n_cand"),
        (
            "sapbert_reranker",
            {"xyz": 3},
            "sapbert_reranker",
            "There is no such setting. There are: model, scorer, ",
        ),
        (
            "terminology_matcher",
            {"typs": ["T047"]},
            "terminology_matcher",
            "There is no such setting. Did you mean",
        ),
        (
            "schwartz_hearst",
            {"short_form": {}},
            "schwartz_hearst",
            "There is no such setting. Did you mean short",
        ),
    ],
)
def test_unknown_settings_are_explained_before_confection_prints_all_others(factory, config, where, told):
    (key,) = config
    line = f"{where} -> {next(reversed(config[key])) if '.' in where else key}\t{told}"
    for name in (factory, "mine"):
        with pytest.raises(ConfigValidationError) as caught:
            spacy.blank("xx").add_pipe(factory, name, config=config)
        message = str(caught.value).strip()
        assert message.startswith(f"Unknown settings\n{line.replace('{component}', name)}")
        assert message.count("\n") == 1 and len(message) < 500


def test_unknown_settings_are_explained_wherever_a_config_is_read(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sapbert_linker", "mine")
    nlp.to_disk(tmp_path / "saved")
    wrong = nlp.config.copy()
    wrong["components"]["mine"]["treshold"] = 0.8
    wrong.to_disk(tmp_path / "wrong.cfg")
    told = "treshold\tThere is no such setting. Did you mean threshold?"
    with pytest.raises(ConfigValidationError, match=re.escape(told)):
        spacy.load(tmp_path / "saved", config={"components.mine.treshold": 0.8})
    with pytest.raises(ConfigValidationError, match=re.escape(told)):
        load_model_from_config(wrong)
    for words in ("init fill-config wrong.cfg filled.cfg", "debug config wrong.cfg", "assemble wrong.cfg assembled"):
        command = [str(tmp_path / word) if "cfg" in word or word == "assembled" else word for word in words.split()]
        done = CliRunner().invoke(spacy_cli, command)
        assert done.exit_code == 1 and told in (done.output if command[0] != "assemble" else str(done.exception)), words


def test_a_config_is_filled_with_all_settings_and_nothing_else(tmp_path):
    component = '[components]\n[components.mine]\nfactory = "sapbert_linker"'
    (tmp_path / "short.cfg").write_text(f'[nlp]\nlang = "xx"\npipeline = ["mine"]\n{component}')
    done = CliRunner().invoke(
        spacy_cli, ["init", "fill-config", str(tmp_path / "short.cfg"), str(tmp_path / "filled.cfg")]
    )
    assert done.exit_code == 0
    parameters = inspect.signature(make_linker).parameters
    filled = Config().from_disk(tmp_path / "filled.cfg")["components"]["mine"]
    assert {*filled} - {"factory"} == {*parameters} - {"nlp", "name"}
    assert all(filled[name] == parameters[name].default for name in LinkerSettings.model_fields)
    initialized = {*inspect.signature(SapbertLinker.initialize).parameters} - {"self", "get_examples", "nlp"}
    assert initialized == {*inspect.signature(make_linker).later}, "what the message sends there"


def test_misspelled_and_fixed_attributes_are_refused(linker):
    with pytest.raises(AttributeError, match=r"treshold of the linker.*Did you mean threshold\?"):
        linker.treshold = 0.9
    with pytest.raises(AttributeError, match="treshold"):
        _ = linker.treshold
    with pytest.raises(AttributeError, match="cache_size of the linker 'sapbert_linker' can't be changed"):
        linker.cache_size = 3
    with pytest.raises(ValueError, match=r"Did you mean threshold\?"):
        SapbertLinker(linker.vocab, linker.model, Index(), treshold=0.9)
    with pytest.raises(ValueError, match="is not a name encoder"):
        SapbertLinker(linker.vocab, Relu(2, 2), Index())
    assert linker.cache_size == 20_000


def test_numbers_and_lists_of_numpy_are_accepted(linker):
    linker.k, linker.threshold = np.int64(3), np.float32(0.25)
    linker.ids = np.array(["C0027051", "C0009264"])
    assert (linker.k, linker.threshold, linker.ids) == (3, 0.25, ("C0027051", "C0009264"))
    assert {candidate["id"] for candidate in linker.find(["heart attack"])[0]} == {"C0027051", "C0009264"}


def test_initialize_takes_folders_and_refuses_what_is_no_terminology_or_encoder(make_nlp, terminology, encoder_folder):
    nlp = make_nlp()
    linker = nlp.get_pipe("sapbert_linker")
    expected, fingerprint = linker.find(["heart attack"]), linker.encoder.fingerprint
    for given in ({"encoder": str(encoder_folder)}, {"encoder": encoder_folder, "terminology": terminology}):
        linker.initialize(**given)
        assert linker.encoder.fingerprint == fingerprint
    for what in (3, [str(encoder_folder)]):
        with pytest.raises(TypeError, match="`initialize` of the linker.*encoder"):
            linker.initialize(encoder=what)
    for what in ("umls.tsv", {"C1": ["cold"]}, lambda: None, lambda: ["cold"]):
        with pytest.raises(TypeError, match="`initialize` of the linker.*terminology"):
            linker.initialize(terminology=what)
    nlp.config["initialize"]["components"]["sapbert_linker"] = {"terminolgy": "x"}
    with pytest.raises(ValueError, match="terminolgy"):
        nlp.initialize()
    assert linker.find(["heart attack"]) == expected


def test_initializing_without_terminology_or_encoder_says_what_is_missing(
    empty, terminology, encoder_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(encoder_settings, "FOLDER", tmp_path / "not installed")
    linker, loader = empty.get_pipe("sapbert_linker"), make_huggingface_loader(str(encoder_folder))
    for given, missing in (({}, "encoder"), ({"terminology": terminology}, "encoder"), ({"encoder": loader}, "termin")):
        with pytest.raises(ValueError, match=f"without its {missing}.*components.sapbert_linker.{missing}"):
            linker.initialize(**given)
        assert not linker.is_ready
    with pytest.raises(ValueError, match="can't be initialized without.*initialize.components.sapbert_linker"):
        empty.initialize()


@pytest.mark.parametrize("index", ["ExactIndex", "AutoIndex", "FaissIndex"])
def test_names_that_say_nothing_to_the_encoder_are_found_by_their_words(index, encoder_folder, tmp_path):
    nlp = spacy.blank("zh")
    nlp.add_pipe("terminology_matcher")
    linker = nlp.add_pipe("sapbert_linker", config={"index": {"@misc": f"spacy-sapbert.{index}.v1"}})
    nlp.add_pipe("sapbert_reranker")
    with pytest.warns(UserWarning, match="2 of 2 names have no vector"):
        names = [("C1", "高血压"), ("C2", "感冒")]
        linker.initialize(terminology=build_terminology(names), encoder=encoder_folder)
    nlp.to_disk(tmp_path)

    def find(nlp):
        doc, linker = nlp("患者有高血壓，没有cold。"), nlp.get_pipe("sapbert_linker")
        best = [ids(of_text)[:1] for of_text in linker.find(["感冒", "感", "cold", "colds"])]
        return [(ent.text, ent.kb_id_) for ent in doc.ents], best

    written = [("高血壓", "C1")], [["C2"], [], [], []]
    assert find(nlp) == find(spacy.load(tmp_path)) == written
    linker.add_names([("C3", "cold")])
    assert find(nlp) == ([*written[0], ("cold", "C3")], [["C2"], [], ["C3"], ["C3"]])
    linker.remove_concepts(["C3"])
    assert find(nlp) == written
