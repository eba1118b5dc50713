"""The component `terminology_matcher`: what it finds in documents, and how it is saved."""

import pickle

import pytest
import spacy
from spacy.tokens import Span
from spacy.training import Example

from spacy_sapbert.terminology import TerminologyBuilder

TEXT = "Insomnia and high-blood pressure after heart attacks; a common cold."


@pytest.fixture
def make_matching(make_nlp):
    """Return a function that makes a pipeline with a matcher in the place of the entity ruler."""

    def make(**settings):
        nlp = make_nlp("en")
        nlp.remove_pipe("entity_ruler")
        nlp.add_pipe("terminology_matcher", after="schwartz_hearst", config=settings)
        return nlp

    return make


def use_names(nlp, names):
    builder = TerminologyBuilder()
    for number, name in enumerate(names):
        builder.add_name(f"C{number:07d}", name)
    nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
    return nlp


def read_ents(doc):
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_names_become_entities_and_are_linked(make_matching):
    nlp = make_matching()
    doc = nlp(TEXT)
    texts = ["Insomnia", "high-blood pressure", "heart attacks", "common cold"]
    assert read_ents(doc) == [(text, "CONCEPT") for text in texts]
    assert doc.ents[0].kb_id_ == "C0917801" and doc.ents[3].kb_id_ == "C0009443"
    example = Example.from_dict(nlp.make_doc("A common cold."), {"entities": [(2, 13, "CONCEPT")]})
    assert nlp.evaluate([example])["ents_f"] == 1.0


def test_labels_go_by_semantic_type(make_matching):
    nlp = make_matching(label_types={"SYMPTOM": ["T184"], "DISEASE": ["T047"]})
    assert [label for _, label in read_ents(nlp(TEXT))] == ["SYMPTOM", "DISEASE", "DISEASE", "DISEASE"]
    assert nlp.get_pipe("terminology_matcher").labels == ("SYMPTOM", "DISEASE", "CONCEPT")


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"types": ["T184"]}, ["Insomnia"]),
        ({"sources": ["CHV"]}, []),
        ({"ids": ["C0027051", "C0009443"]}, ["heart attacks", "common cold"]),
        ({"skip_names": ["Heart Attack", "not there"]}, ["Insomnia", "high-blood pressure", "common cold"]),
        ({"min_length": 9}, ["high-blood pressure", "heart attacks", "common cold"]),
    ],
)
def test_settings_say_which_names_to_look_for(make_matching, settings, expected):
    assert [text for text, _ in read_ents(make_matching(**settings)(TEXT))] == expected


def test_settings_and_pipelines_that_cannot_work_are_refused(make_matching):
    for settings in ({"types": ["T999"]}, {"label_types": {"A": ["T999"]}}):
        with pytest.raises(ValueError, match="The filter.*T999"):
            make_matching(**settings)(TEXT)
    with pytest.raises(ValueError, match="With matches = 'all', names may overlap, which"):
        make_matching(matches="all")
    nlp = make_matching(ids=["C0027051"])
    nlp.get_pipe("sapbert_linker").remove_concepts(["C0027051"])
    with pytest.raises(ValueError, match=r"The matcher.*'terminology_matcher'.*The filter.*C0027051"):
        nlp("a cold")
    nlp = make_matching()
    nlp.add_pipe("terminology_matcher", name="late", last=True)
    with pytest.warns(UserWarning, match=r"The matcher.*'late' stands behind the linker 'sapbert_linker'.*before="):
        nlp("A cold.")
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    with pytest.raises(ValueError, match="The matcher.*terminology_matcher"):
        nlp(TEXT)
    nlp.add_pipe("sapbert_linker")
    with pytest.raises(ValueError, match="has no concepts yet"):
        nlp(TEXT)
    assert nlp.to_bytes()


def test_all_names_go_into_a_group_of_spans(make_matching):
    doc = make_matching(matches="all", spans_key="names")("A common cold.")
    assert [span.text for span in doc.spans["names"]] == ["common cold", "cold"] and not doc.ents


@pytest.mark.parametrize(
    "overwrite, expected", [(False, ["bad common", "Insomnia"]), (True, ["common cold", "Insomnia"])]
)
def test_entities_that_are_there_stay_unless_told_otherwise(make_matching, overwrite, expected):
    nlp = make_matching(overwrite=overwrite)
    doc = nlp.make_doc("A bad common cold. Insomnia.")
    doc.ents = [Span(doc, 1, 3, "OTHER")]
    assert [ent.text for ent in nlp.get_pipe("terminology_matcher")(doc).ents] == expected


@pytest.fixture
def short_names(make_matching):
    return use_names(make_matching(), ["ALL", "WHO", "Gout", "ECG", "12", "however", "Renal failure"])


def test_short_names_match_in_their_own_case(short_names):
    matcher = short_names.get_pipe("terminology_matcher")
    matcher.define_length = 0
    doc = short_names("All have gout, who had ALL. The WHO says: 12 ECGs, ecg; however, RENAL FAILURE. Gout.")
    assert [ent.text for ent in doc.ents] == ["gout", "ALL", "WHO", "ECGs", "RENAL FAILURE", "Gout"]
    matcher.own_case_length = 0
    matcher.skip_stop_words = False
    assert [ent.text for ent in short_names("All 12, who had ecg.").ents] == ["All", "who", "ecg"]


def test_short_forms_match_only_where_the_document_defines_them(make_matching):
    nlp = use_names(make_matching(define_length=3), ["RA", "Rheumatoid arthritis", "CP", "Gut", "DMD", "COPD"])
    doc = nlp("No CP, DMDs. Gut, COPD. Rheumatoid arthritis (RA). RA.")
    assert [ent.text for ent in doc.ents] == ["Gut", "COPD", "Rheumatoid arthritis", "RA", "RA"]
    assert {ent.kb_id_ for ent in doc.ents if ent.text == "RA"} == {"C0000001"}
    assert not nlp("Saturation 98 % on RA (room air). RA, CP.").ents
    nlp.get_pipe("terminology_matcher").define_length = 0
    assert [ent.text for ent in nlp("On RA, no CP.").ents] == ["RA", "CP"]


def test_a_document_that_defines_a_short_form_decides_what_it_is(make_matching):
    nlp = use_names(make_matching(), ["ARDS", "CO2", "Hodgkin lymphoma", "ER+"])
    assert [ent.text for ent in nlp("ARDS, CO2").ents] == ["ARDS", "CO2"]
    assert not nlp("An allergic rash or dry skin (ARDS). ARDS again.").ents
    # The opposite is another name.
    assert [ent.text for ent in nlp("Hodgkin lymphoma").ents] == ["Hodgkin lymphoma"]
    for text in ("non-Hodgkin lymphoma", "Non Hodgkin lymphoma", "ER-", "ER"):
        assert not nlp(text).ents, text


def test_names_that_the_linker_may_not_link_to_are_not_looked_for(make_matching):
    nlp = make_matching()
    linker, matcher = nlp.get_pipe("sapbert_linker"), nlp.get_pipe("terminology_matcher")
    everything = [text for text, _ in read_ents(nlp(TEXT))]
    linker.types = ["T184"]
    fewer = [text for text, _ in read_ents(nlp(TEXT))]
    assert fewer and set(fewer) < set(everything)
    linker.types, matcher.types = None, ["T184"]
    assert [text for text, _ in read_ents(nlp(TEXT))] == fewer


def test_short_forms_of_names_are_found_where_the_document_defines_them(make_matching):
    text = "Duchenne muscular dystrophy (DMD). He had DMD."
    nlp = make_matching()
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents] == [
        ("Duchenne muscular dystrophy", "C0013264"),
        ("DMD", "C0013264"),
        ("DMD", "C0013264"),
    ]
    nlp.get_pipe("terminology_matcher").abbreviations = False
    assert len(nlp(text).ents) == 1


def test_odd_texts_have_the_names_that_are_there(make_matching):
    nlp = make_matching()
    for text in ("", " ", "\n\n", "...", "no names 😀"):
        assert not nlp(text).ents, text
    # Offsets hold behind characters of other planes.
    assert [ent.text for ent in nlp("😀 İ ﬁ heart attack").ents] == ["heart attack"]


def test_a_saved_pipeline_finds_the_same(make_matching, tmp_path):
    nlp = make_matching(label_types={"SYMPTOM": ["T184"]})
    expected = read_ents(nlp(TEXT))
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert read_ents(loaded(TEXT)) == expected
    copied = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert read_ents(copied(TEXT)) == expected
    assert read_ents(pickle.loads(pickle.dumps(loaded))(TEXT)) == expected
    loaded.get_pipe("sapbert_linker").remove_concepts(["C0027051"])
    assert [text for text, _ in read_ents(loaded(TEXT))] == ["Insomnia", "high-blood pressure", "common cold"]


def test_a_matcher_from_another_pipeline_takes_the_names_of_the_linker_beside_it(make_matching):
    first, second = make_matching(), use_names(make_matching(), ["zebra"])
    second.remove_pipe("terminology_matcher")
    second.add_pipe("terminology_matcher", source=first, first=True)
    assert read_ents(second("A zebra with insomnia.")) == [("zebra", "CONCEPT")]
    assert read_ents(first("A zebra with insomnia.")) == [("insomnia", "CONCEPT")]
