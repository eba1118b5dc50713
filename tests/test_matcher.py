"""The component `terminology_matcher`: what it finds in documents, and how it is saved."""

import pickle
import shutil
from dataclasses import replace
from itertools import product

import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from spacy.tokens import Span
from spacy.training import Example

from spacy_sapbert.annotations import get_words
from spacy_sapbert.lexicon import derived
from spacy_sapbert.lexicon.bags import BagTable
from spacy_sapbert.lexicon.languages import LANGUAGES
from spacy_sapbert.terminology import TerminologyBuilder

TEXT = "Insomnia and high-blood pressure after heart attacks; a common cold."


@pytest.fixture
def make_matching(make_nlp):
    """Return a function that makes a pipeline with a matcher in the place of the entity ruler."""

    def make(lang="en", **settings):
        nlp = make_nlp(lang)
        nlp.remove_pipe("entity_ruler")
        nlp.add_pipe("terminology_matcher", after="schwartz_hearst", config=settings)
        return nlp

    return make


def use_names(nlp, names):
    terminology = build_terminology((f"C{number:07d}", name) for number, name in enumerate(names))
    nlp.get_pipe("sapbert_linker").initialize(terminology=terminology)
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
        ({"skip_names": ["Attack Heart", "not there"]}, ["Insomnia", "high-blood pressure", "common cold"]),
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
    with pytest.raises(ValueError, match=r"^Can't remove these 1 concepts.* the matcher '.*C0027051"):
        nlp.get_pipe("sapbert_linker").remove_concepts(["C0027051"])
    assert read_ents(nlp("a heart attack"))
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
    doc = make_matching(matches="all", spans_key="names", min_trust=0.0)("A common cold.")
    assert [span.text for span in doc.spans["names"]] == ["common cold"] and not doc.ents


def test_a_name_in_a_longer_one_counts_unless_both_are_of_one_concept(make_matching):
    nlp = make_matching(matches="all", spans_key="names", min_trust=0.0)
    names = {"A": ["mandibular prognathism", "prognathism"], "B": ["face pain", "facial pain"], "C": ["pain"]}
    nlp.get_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    doc = nlp("Mandibular prognathism, prognathism, face and jaw pain, facial pain, and pain.")
    found = ["Mandibular prognathism", "prognathism", "face and jaw pain", "pain", "facial pain", "pain", "pain"]
    assert [span.text for span in doc.spans["names"]] == found


def test_of_concepts_with_equal_names_the_one_comes_first_whose_canonical_name_says_the_same(make_matching):
    names = {
        "A": ["Abnormality of the outer ear", "Ear anomalies", "Malformed pinnae", "Abnormal auricle"],
        "B": ["Abnormality of the ear", "Ear anomaly"],
    }
    nlp = make_matching()
    nlp.get_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    assert [ent.kb_id_ for ent in nlp("Otic anomalies. Outer ear anomaly. Ear abnormality.").ents] == ["B", "A", "B"]


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
    assert [ent.text for ent in short_names("SEVERE RENAL FAILURE AND CHRONIC GOUT NOW.").ents] == [
        "RENAL FAILURE",
        "GOUT",
    ]
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
    assert [ent.text for ent in nlp("ARDS, CO2").ents] == ["ARDS"]
    nlp.get_pipe("terminology_matcher").define_length = 0
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


# Names, the first one canonical; type, and parent.
KINDS = {
    "skin": (["skin", "integument"], "T023", "body"),
    "lung": (["lung", "lungs of the body"], "T023", "body"),
    "cervix": (["cervix uteri", "cervix"], "T023", "body"),
    "soft": (["soft tissue"], "T024", "body"),
    "room": (["emergency room"], "T073", "body"),
    "right": (["right lung"], "T023", "body"),
    "infant": (["infant"], "T100", "body"),
    "N1": (["Skin Neoplasms", "skin"], "T191", "disease"),
    "N2": (["Lung Neoplasms", "lung"], "T191", "disease"),
    "N3": (["Cervical Neoplasms", "cervix"], "T191", "disease"),
    "N4": (["Cancer of the lung", "lung cancer"], "T191", "disease"),
    "N5": (["childhood lung disease", "infant"], "T191", "disease"),
    "N6": (["softening", "soft"], "T191", "disease"),
    "N7": (["emergency"], "T191", "disease"),
    "N8": (["rash"], "T191", "disease"),
    "N9": (["coughing", "tos"], "T191", "disease"),
    "tos": (["tos"], "T023", "body"),
}


@pytest.fixture
def kinds(make_matching):
    nlp = make_matching(own_case_length=0, min_trust=0)
    builder = TerminologyBuilder()
    for id_, (names, type_, parent) in KINDS.items():
        builder.add_concept(id_, types=[type_], parents=[parent])
        for number, name in enumerate(names):
            builder.add_name(id_, name, preferred=number == 0, language="SPA" if id_ == "tos" else "ENG", source=parent)
    for parent in ("body", "disease"):
        builder.add_name(parent, f"top of {parent}")
    nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
    return nlp


FILTERS = [{"types": ["T191"]}, {"below": ["disease"]}, {"not_below": ["body"]}]


@pytest.mark.parametrize("component", ["sapbert_linker", "terminology_matcher"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
@cases("kinds")
def test_a_filter_makes_no_mentions_of_names_of_another_kind(kinds, component, filters, text, expected, of_all):
    matcher = kinds.get_pipe("terminology_matcher")
    part = kinds.get_pipe(component)
    for name, value in {**filters, "languages": ["ENG"]}.items():
        setattr(part, name, value)
    assert [ent.text for ent in kinds(text).ents] == expected
    matcher.skip_outside = False
    assert [ent.text for ent in kinds(text).ents] == of_all


@pytest.mark.parametrize(
    ("wanted", "other", "is_found"),
    [
        # The canonical name of the other concept.
        (["HPO"], ["MSH"], False),
        (["HPO", "NCI", "MONDO"], ["MSH", "UBERON"], False),
        (["HPO", "NCI"], ["MSH"], True),
        (["HPO", "NCI", "MONDO", "DOID"], ["MSH", "UBERON"], True),
    ],
)
def test_of_two_kinds_a_name_means_what_twice_as_many_sources_mean(make_matching, wanted, other, is_found):
    nlp = make_matching()
    builder = TerminologyBuilder()
    for id_, canonical, type_, sources in (
        ("D", "depressive disorder", "T048", wanted),
        ("B", "depression", "T053", other),
    ):
        builder.add_concept(id_, types=[type_], canonical_name=canonical)
        for source in sources:
            builder.add_name(id_, "depression", source=source)
    linker = nlp.get_pipe("sapbert_linker")
    linker.initialize(terminology=builder.build())
    linker.types = ["T048"]
    assert [ent.kb_id_ for ent in nlp("Her depression").ents] == ["D"] * is_found
    # As seen from the other kind.
    linker.types = ["T053"]
    assert [ent.kb_id_ for ent in nlp("Her depression").ents] == ["B"] * (not is_found)


def test_names_of_another_kind_need_a_filter_by_kind(kinds):
    matcher = kinds.get_pipe("terminology_matcher")
    text = "tos, skin, soft tissue"
    for settings, expected in (
        ({}, ["tos", "skin", "soft tissue"]),
        ({"sources": ["disease"]}, ["tos", "skin", "soft"]),
        ({"sources": None, "types": ["T191"]}, []),
        # Names may overlap.
        ({"matches": "all"}, ["soft"]),
    ):
        for name, value in {"spans_key": "sc", **settings}.items():
            setattr(matcher, name, value)
        doc = kinds(text)
        assert [span.text for span in doc.spans["sc"]] == expected


def test_skipped_names_are_not_found_in_other_words_or_short_forms(make_matching):
    names = ["hearing loss", "hearing impairment", "hypertension", "kidney disease"]
    nlp = use_names(make_matching(skip_names=["hearing loss", "hypertensive", "KD", "nephropathy"]), names)
    doc = nlp("Hypertensive, hypertension, nephropathy. Kidney disease (KD): KD. Hearing loss, hearing impairment")
    assert [ent.text for ent in doc.ents] == ["hypertension", "Kidney disease", "hearing impairment"]


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


@cases("matches")
def test_what_is_found_says_how(make_matching, text, expected):
    names = ["hand deformity", "foot deformities", "hearing loss", "memory loss", "cyst, renal", "breast cancer"]
    names += ["von Hippel-Lindau disease", "hypertension", "kidney disease", "iron deficiency", "memory disease"]
    names += ["hypertension disease", "central line disease", "obesity", "weight loss", "hypertonia"]
    nlp = use_names(make_matching(matches="longest+", spans_key="names"), names)
    nlp.get_pipe("sapbert_linker").add_names([("C0000002", "hearing impairment")])
    doc = nlp(text)
    spans = doc.spans["names"]
    assert sorted((span.text, span._.match) for span in spans) == sorted(expected)
    matcher = nlp.get_pipe("terminology_matcher")
    matcher.words = "exact"
    kept = [(span, how) for span, how in expected if how in ("exact", "form", "definition")]
    doc = nlp(text)
    assert {span.text for span in doc.spans["names"]} <= {span for span, _ in kept}
    matcher.words, matcher.matches = "classes", "longest"
    doc = nlp("no hand and foot deformities")
    assert [span._.match_pieces for span in doc.spans["names"]] == [[(3, 7), (17, 28)]]


@cases("writings_in_texts")
def test_names_are_found_as_clinicians_write_them(make_matching, text, expected):
    names = ["naïve lymphocyte", "Sjogren disease", "Sjögren", "café-au-lait spot", "fever", "hypertension"]
    names += ["état mal", "renal tumor"]
    doc = use_names(make_matching(), names)(text)
    assert [ent.text for ent in doc.ents] == expected


@cases("words_between")
def test_words_that_a_name_lacks_and_both_of_two_coordinated_names(make_matching, text, expected):
    names = ["enlarged liver", "enlarged spleen", "knee pain", "low back pain", "hand pain", "nausea", "rare disease"]
    names += ["hand stiffness", "pain, hand", "enlarged days", *(f"x{number} disease" for number in range(60))]
    nlp = use_names(make_matching(matches="separate"), names)
    found = [(ent.text, names[int(ent.kb_id_[1:])]) for ent in nlp(text).ents]
    assert [(text, "hand pain" if name == "pain, hand" else name) for text, name in found] == expected


@cases("not_findings")
def test_names_of_findings_are_not_found_where_a_text_says_something_else(make_matching, text, expected):
    nlp = make_matching(own_case_length=0, min_trust=0)
    names = [
        "intestinal hypoplasia",
        "kidney stone",
        "small kidney",
        "small tongue",
        "ulcer",
        "large heart",
        "small toe",
        "heart attack",
        "wide face",
        "small bowel obstruction",
        "dry skin",
        "monos",
        "ht",
        "shock",
        "pain",
    ]
    use_names(nlp, names).get_pipe("sapbert_linker").add_names(
        [("C0000000", "small bowel"), ("C0000000", "hypoplastic small bowel")]
    )
    assert [ent.text for ent in nlp(text).ents] == expected


@cases("commas_in_texts", "touching_signs", "compounds", "halves_of_words", "cells_in_capitals", "attributes")
def test_what_stands_around_a_name_says_where_it_ends(make_matching, text, names, expected):
    doc = use_names(make_matching(), names)(text)
    assert [(ent.text, names[int(ent.kb_id_[1:])]) for ent in doc.ents] == expected


def test_a_mention_that_touches_a_sign_says_where_its_words_are(make_matching):
    [ent] = use_names(make_matching(), ["short stature"])("He has: 1.Short stature†").ents
    assert (ent.text, ent._.match, ent._.match_pieces) == ("1.Short stature†", "exact", [(10, 23)])
    assert get_words(ent) == "Short stature"


@cases("brackets")
def test_a_name_with_brackets_is_found_with_them_and_others_end_at_brackets(make_matching, text, expected):
    names = ["Leprosy [Hansen's disease]", "(131)I-albumin", "Pain (chest) [acute]", "cyst (renal)", "heart failure"]
    nlp = use_names(make_matching(), [*names, "hand pain", "foot pain"])
    assert [ent.text for ent in nlp(text).ents] == expected


def test_each_of_two_coordinated_names_has_its_own_words_and_is_looked_up_with_those_of_its_pieces(make_matching):
    nlp = use_names(make_matching(matches="separate"), ["knee pain", "lower back pain", "pain, hand"])
    doc = nlp("He has knee and lower back pain. Pain of the knee and hand.")
    first, *_, last = doc.ents
    assert (first.text, first._.match, first._.match_pieces) == ("knee", "coordination", [(7, 11), (27, 31)])
    assert (last.text, last._.match_pieces) == ("hand", [(33, 37), (54, 58)])
    assert [*map(get_words, doc.ents)] == ["knee pain", "lower back pain", "Pain of the knee", "Pain hand"]
    # A part of the document lacks what lies outside of it.
    part = doc[last.start :].as_doc(copy_user_data=True)
    assert [(ent.text, ent._.match_pieces, get_words(ent)) for ent in part.ents] == [("hand", [(0, 4)], "hand")]
    assert [ent._.match_pieces for ent in doc[first.start :].as_doc(copy_user_data=True).ents][0] == [(0, 4), (20, 24)]
    nlp.get_pipe("terminology_matcher").matches = "longest"
    doc = nlp("knee and lower back pain")
    assert [ent.text for ent in doc.ents] == ["knee and lower back pain"] == [get_words(doc.ents[0])]


@pytest.mark.parametrize("name", ["hepatitis B", "brachydactyly type C", "factor V", "hepatitis Ä", "vitamin d"])
def test_a_name_may_end_with_a_letter_at_the_end_of_a_sentence(make_matching, name):
    nlp = use_names(make_matching(), [name, name[:-2]])
    for text in (f"He has {name}. He", f"({name}.)", f"{name}.", f"{name}.\nHe", f"no {name}; {name}, too"):
        doc = nlp(text)
        assert {(ent.text.removesuffix("."), ent.kb_id_) for ent in doc.ents} == {(name, "C0000000")}, text
    assert not nlp("Type C. Smith. Dr. B. Smith.").ents


def test_headings_of_the_language_are_no_mentions(make_matching):
    text = "Hypertension: treated\nALLERGIES: none. Skin: dry skin\nSkin\nclear"
    for lang, language, expected in (
        ("en", "ENG", ["Hypertension", "skin"]),
        ("fr", "FRE", ["Hypertension", "Skin", "skin", "Skin"]),
        ("fr", "ENG", ["Hypertension", "Skin", "skin", "Skin"]),
    ):
        builder = TerminologyBuilder()
        for number, name in enumerate(["allergies", "skin", "hypertension"]):
            builder.add_name(f"C{number}", name, language=language)
        nlp = make_matching(lang)
        nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
        assert [ent.text for ent in nlp(text).ents] == expected


@pytest.mark.parametrize(
    ("lang", "expected"),
    [("en", [[]] * 6 + [["VHL"]]), ("fr", [["hernie"]] * 4 + [["medical history"], ["hernie"], []])],
)
def test_english_words_around_a_mention_change_its_meaning_in_english_only(lang, expected):
    nlp = make_in(lang, [(name, "FRE") for name in ("hernie", "medical history", "von Hippel-Lindau disease")])
    nlp.add_pipe("schwartz_hearst", first=True)
    texts = ["hernie clinic", "hernie-free", "hernie score 3", "non hernie", "medical history", "hernie markers"]
    found = [[ent.text for ent in nlp(text).ents] for text in [*texts, "von Hippel-Lindau (VHL)."]]
    assert found == expected and not nlp("non-hernie, une anti-hernie, anti hernie").ents


@cases("typing_errors")
def test_long_words_may_have_typing_errors(make_matching, text, expected):
    names = ["Hematemesis", "Seizure", "Pneumonia", "Aphthous ulcer", "Milk allergy", "Urinary infection"]
    names += ["Aphthoid", "Polymyosin", "Polymyosis disease", "Polymyositis", "Ulcer", "Eczema"]
    nlp = use_names(make_matching(), names)
    found = nlp(text).ents
    assert [names[int(ent.kb_id_[1:])] for ent in found] == expected
    written = " ".join(names).lower()
    assert all((ent._.match == "spelling") is (ent.text.lower() not in written) for ent in found)
    nlp.get_pipe("terminology_matcher").words = "exact"
    assert "spelling" not in {ent._.match for ent in nlp(text).ents}


def test_the_opposite_is_another_name(make_matching):
    nlp = use_names(make_matching(), ["migraine with aura", "migraine without aura", "hearing loss"])
    doc = nlp("Migraine without aura, migraine with aura. Migraine; aura. No loss of hearing")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents][:2] == [
        ("Migraine without aura", "C0000001"),
        ("migraine with aura", "C0000000"),
    ]
    assert [ent.text for ent in doc.ents][2:] == ["loss of hearing"]


def test_the_linker_takes_what_the_matcher_found(make_matching, monkeypatch):
    nlp = use_names(make_matching(), ["hand deformity", "gout", "Zebra fever"])
    linker = nlp.get_pipe("sapbert_linker")
    linker.add_names([("C0000000", "ZEBRA fever")])
    asked = []
    search = type(linker.retriever).find
    monkeypatch.setattr(
        type(linker.retriever), "find", lambda self, texts, *rest: asked.extend(texts) or search(self, texts, *rest)
    )
    doc = nlp("Hand malformations, zebra fever")
    first, second = (
        [(found["id"], found["name"], round(found["score"], 2)) for found in ent._.kb_candidates] for ent in doc.ents
    )
    assert first == [("C0000000", "hand deformity", 0.95)] and not asked
    # Both concepts have the name; the one with it as the canonical name comes first.
    assert second == [("C0000002", "Zebra fever", 1.0), ("C0000000", "ZEBRA fever", 1.0)]
    # Entities of others are looked up, and so is what another terminology has found.
    doc.ents = [Span(doc, 0, 2, "OTHER")]
    assert linker(doc).ents[0].kb_id_ and asked == ["Hand malformations"]
    found = nlp.get_pipe("terminology_matcher")(nlp.make_doc("Zebra fever"))
    linker.remove_concepts(["C0000001"])
    assert linker(found).ents[0].kb_id_ == "C0000002" and asked[1:] == ["Zebra fever"]


def test_what_a_filter_for_labels_leaves_out_is_no_candidate(make_matching):
    nlp = make_matching(label="SYMPTOM")
    nlp.get_pipe("sapbert_linker").label_types = {"SYMPTOM": ["T184"]}
    doc = nlp("heart attack")
    assert [ent.text for ent in doc.ents] == ["heart attack"]
    assert "C0027051" not in [found["id"] for found in doc.ents[0]._.kb_candidates]


@pytest.mark.parametrize(
    ("name", "synonyms", "parents", "has_children", "n_others", "is_found"),
    [
        # In a flat terminology, and in a branch of a larger one.
        ("Seizure", [], [], False, 0, True),
        ("Seizures", [], ["X:1"], True, 0, True),
        # Not the top of a hierarchy, what is nobody's canonical name, or says what kind of thing a concept is.
        ("Seizure", [], [], True, 0, False),
        ("Convulsion", ["Seizure"], ["X:1"], True, 0, False),
        ("Syndrome", [], ["X:1"], True, 0, False),
        # A small share of the concepts is enough for the latter only.
        ("Convulsion", ["Seizure"], ["X:1"], True, 800, True),
        ("Syndrome", [], ["X:1"], True, 800, False),
    ],
)
def test_a_word_that_is_a_concept_is_found_however_many_names_have_it(
    make_matching, capsys, name, synonyms, parents, has_children, n_others, is_found
):
    word = synonyms[0] if synonyms else name
    kinds = {f"T:{number}": [f"{chr(96 + number % 26)}{number}x {word}"] for number in range(1, 24)}
    kinds |= {f"Y:{number}": [f"y{number}y"] for number in range(n_others)}
    parents = {"T:0": parents, **dict.fromkeys(kinds if has_children else (), ["T:0"])}
    nlp = make_matching()
    terminology = build_terminology({"T:0": [name, *synonyms], **kinds}, parents=parents)
    nlp.get_pipe("sapbert_linker").initialize(terminology=terminology)
    assert [ent.kb_id_ for ent in nlp(f"A {word.lower()} at night").ents] == ["T:0"] * is_found
    said = f"because many concepts have them in their names: {word.lower()}"
    assert (said in capsys.readouterr().err) is not is_found


def test_texts_and_names_of_any_length_are_read(make_matching):
    nlp = use_names(make_matching(), ["gout " * 300, "gout", "hand and foot " * 100])
    assert len(nlp("gout and hand, " * 5000).ents) == 5000
    assert len(nlp(" ".join(["gout"] * 2000)).ents) == 2000
    lines = "\n" * 200_000
    assert len(nlp(f"gout A-{lines}gout").ents) == 2


def test_documents_in_a_stream_get_what_single_ones_get(make_matching):
    nlp = make_matching()
    texts = [TEXT, "", "Duchenne muscular dystrophy (DMD).", "DMD", "heart", *(f"{TEXT} {n}" for n in range(70))]
    assert [read_ents(doc) for doc in nlp.pipe(texts, batch_size=100)] == [read_ents(nlp(text)) for text in texts]
    nlp.get_pipe("terminology_matcher").types = ["T999"]
    nlp.set_error_handler(lambda name, component, docs, error: None)
    assert list(nlp.pipe(texts[:2])) == []


def test_nothing_of_another_document_counts(make_matching):
    nlp = use_names(make_matching(), ["ALL", "HIV", "HIV-", "fever", "seizure", "type A", "factor V", "big spleen"])
    ends = "ALL", "a fever", "HIV-", "seizure(", "type", "factor", "fever &", "fever and", "a big", "non-", "not"
    starts = (
        "ALL was found",
        "NO FEVER",
        "HIV-",
        "s) and fever",
        "amp; fever",
        "A fever",
        "V",
        "spleen",
        "- fever",
        "-free",
    )
    texts = [text for pair in product([*ends, *starts], repeat=2) for text in pair]
    alone = {text: read_ents(nlp(text)) for text in texts}
    assert [read_ents(doc) for doc in nlp.pipe(texts, batch_size=2)] == [alone[text] for text in texts]


def test_odd_texts_have_the_names_that_are_there(make_matching):
    nlp = make_matching()
    for text in ("", " ", "\n\n", "...", "no names 😀"):
        assert not nlp(text).ents, text
    # Offsets hold behind characters of other planes.
    assert [ent.text for ent in nlp("😀 İ ﬁ heart attack").ents] == ["heart attack"]


def test_a_saved_pipeline_finds_the_same(make_matching, tmp_path, monkeypatch):
    nlp = make_matching(label_types={"SYMPTOM": ["T184"]})
    linker = nlp.get_pipe("sapbert_linker")
    build, built = BagTable.build, []
    monkeypatch.setattr(BagTable, "build", lambda *names: built.append(names) or build(*names))
    linker.initialize(terminology=linker.terminology)
    assert len(built) == 1, "before the first document"
    expected = read_ents(nlp(TEXT))
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert read_ents(loaded(TEXT)) == expected
    copied = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert read_ents(copied(TEXT)) == expected
    assert read_ents(pickle.loads(pickle.dumps(loaded))(TEXT)) == expected
    index = {"components.sapbert_linker.index": {"@misc": "spacy-sapbert.AutoIndex.v1", "recall_target": 0.9}}
    configured = spacy.load(tmp_path / "pipeline", config=index)
    assert read_ents(configured(TEXT)) == expected
    assert len(built) == 1
    with monkeypatch.context() as patch:
        patch.setattr("spacy_sapbert.lexicon.names.hash_lists", lambda: "others")
        assert read_ents(spacy.load(tmp_path / "pipeline")(TEXT)) == expected and built.pop()
    # An edited terminology gets another table, once.
    loaded.get_pipe("sapbert_linker").remove_concepts(["C0027051"])
    for _ in range(2):
        assert [text for text, _ in read_ents(loaded(TEXT))] == ["Insomnia", "high-blood pressure", "common cold"]
    assert len(built) == 2
    (tmp_path / "pipeline" / "sapbert_linker" / "retriever" / "names" / "bag_keys.npy").write_bytes(b"")
    with pytest.raises(OSError, match="bag_keys.npy"):
        spacy.load(tmp_path / "pipeline")


def test_a_table_that_was_saved_with_other_lists_is_made_again(make_matching, tmp_path, monkeypatch):
    nlp = make_matching()
    nlp.to_disk(tmp_path / "pipeline")
    lists = shutil.copytree(derived.FOLDER, tmp_path / "package" / "lexicon")
    for name in ("word_forms.json", "simplified_chinese.txt"):
        shutil.copy(derived.FOLDER.parent / name, tmp_path / "package")
    with (lists / "synonyms.txt").open("a", encoding="utf8") as file:
        file.write("heart attack\tticker trouble\n")
    assert not spacy.load(tmp_path / "pipeline")("ticker trouble").ents
    monkeypatch.setattr(derived, "FOLDER", lists)
    # Another process reads the lists anew.
    derived.hash_lists.cache_clear()
    try:
        (ent,) = spacy.load(tmp_path / "pipeline")("ticker trouble").ents
    finally:
        derived.hash_lists.cache_clear()
    assert ent._.kb_candidates[0]["id"] == "C0027051"


def test_the_table_of_another_terminology_is_refused(make_matching, tmp_path):
    """Undamaged by itself, copied from another pipeline."""
    first, second = make_matching(), use_names(make_matching(), ["zebra"])
    # A matcher that is disabled has its table saved all the same.
    second.disable_pipe("terminology_matcher")
    for name, nlp in (("first", first), ("second", second)):
        nlp.to_disk(tmp_path / name)
    bags = "sapbert_linker/retriever/names"
    shutil.rmtree(tmp_path / "first" / bags)
    shutil.copytree(tmp_path / "second" / bags, tmp_path / "first" / bags)
    with pytest.raises(OSError, match="names.json"):
        spacy.load(tmp_path / "first")


def test_a_table_that_an_older_folder_had_is_ignored(make_matching, tmp_path):
    """A pipeline without a matcher, copied over one that has another terminology and a matcher."""
    use_names(make_matching(), ["zebra"]).to_disk(tmp_path / "copied")
    nlp = make_matching()
    nlp.remove_pipe("terminology_matcher")
    linker = nlp.get_pipe("sapbert_linker")
    linker.initialize(terminology=linker.terminology)
    nlp.to_disk(tmp_path / "new")
    shutil.copytree(tmp_path / "new", tmp_path / "copied", dirs_exist_ok=True)
    loaded = spacy.load(tmp_path / "copied")
    assert loaded.get_pipe("sapbert_linker").find(["insomnia"]) == linker.find(["insomnia"])
    loaded.add_pipe("terminology_matcher", before="sapbert_linker")
    assert [text for text, _ in read_ents(loaded(TEXT))] == [text for text, _ in read_ents(make_matching()(TEXT))]


# The matcher finds names that the encoder can't encode.
UNKNOWN_SCRIPT = "ignore:.*the encoder's vocabulary has none"


def make_in(lang, names, **settings):
    """Make a pipeline of a language, with names and their languages, of a concept each."""
    nlp = spacy.blank(lang)
    nlp.add_pipe("terminology_matcher", config={"min_trust": 0, **settings})
    builder = TerminologyBuilder()
    for number, (name, language) in enumerate(names):
        builder.add_name(f"C{number}", name, language=language)
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=builder.build())
    return nlp


# German words that a name's English forms are, that are left out of English or of German names, and nearly a name.
GERMAN = "Er hat Akne in der Hals, was Pneunonia und Axen ist; Tumour."


@pytest.mark.parametrize("language", ["ENG", "GER", ""])
def test_the_pipeline_says_in_which_language_texts_are_read(language, tmp_path):
    names = [(name, language) for name in ("Akne Hals", "Axis", "Pneumonia", "tumor")]
    found = {}
    for lang in ("en", "de", "xx"):
        nlp = make_in(lang, names)
        found[lang] = [ent.text for ent in nlp(GERMAN).ents]
        nlp.to_disk(tmp_path / lang)
        loaded = spacy.load(tmp_path / lang)
        linker = loaded.get_pipe("sapbert_linker")
        linker.add_names([("C9", "Husten")])
        for copied in (loaded, pickle.loads(pickle.dumps(loaded))):
            assert [ent.text for ent in copied(f"Husten. {GERMAN}").ents] == ["Husten", *found[lang]]
        # A pipeline of another language that loads the linker reads as it does.
        other = spacy.blank("es")
        other.add_pipe("terminology_matcher", config={"min_trust": 0})
        other.add_pipe("sapbert_linker").from_disk(tmp_path / lang / "sapbert_linker")
        assert [ent.text for ent in other(GERMAN).ents] == found[lang]
    assert found["en"] == ["Pneunonia", "Tumour"] and found["de"] == ["Akne in der Hals"]
    assert found["xx"] == found[{"ENG": "en", "GER": "de"}.get(language, "xx")]


MIXED = [
    ("肝癌", "CHI"),
    ("hepatitis", "ENG"),
    ("داء السكري", "ARA"),
    ("סוכרת", "HEB"),
    ("Störung", "GER"),
    ("диабет", "RUS"),
]
# Scripts that no name is in, right-to-left texts with marks of direction, letters of several scripts in a word,
# characters outside of the basic plane, broken pieces, and nothing.
STRANGE = [
    "ผู้ป่วยเป็นโรคเบาหวาน ၁၂၃ မြန်မာ བོད་ཡིག",
    "रोगी को मधुमेह है। ক্ষয়রোগ யக்ஷமா",
    "مريض؟ \u202bمصاب\u202c بالسعال\u200f، \u2067abc\u2069",
    "חולה עם שיעול\u200e (12)",
    "диaбeт сахарный; hеpatitиs",
    "ηπατίτιδα και ქართული հայերեն",
    "\U00020000\U0002a6d6 𝒽𝑒𝓅 👩‍⚕️ e\u0301\u0301\u0323 \u0301\u0308",
    "간염 환자 ㄱㅏ",
    "｡、。〇々ー・゛",
    "",
    " \n\n\t\u3000",
]


@pytest.mark.filterwarnings(UNKNOWN_SCRIPT)
@pytest.mark.parametrize("lang", ["xx", "en", "de", "es", "tr", "cs", "zh", "ar", "he", "ru", "hi"])
def test_no_script_breaks_the_matcher_or_moves_what_it_finds(lang):
    nlp = make_in(lang, MIXED)
    for text in STRANGE:
        assert [ent.text for ent in nlp(text).ents] == [], text
    for (name, _), before, behind in product(MIXED, STRANGE, STRANGE[:4]):
        doc = nlp(f"{before}\n\n{name}\n\n{behind}")
        assert [(ent.text, ent.start_char) for ent in doc.ents] == [(name, len(before) + 2)], (before, name)


@pytest.mark.filterwarnings(UNKNOWN_SCRIPT)
def test_names_without_spaces_around_them_are_found_where_tokens_end():
    names = [("肝癌", "CHI"), ("糖尿病", "CHI"), ("hepatitis", "ENG")]
    text = "患者有肝癌和糖尿病。"
    assert [ent.text for ent in make_in("zh", names)(text).ents] == ["肝癌", "糖尿病"]
    for nlp in (make_in("xx", names), make_in("de", names)):
        with pytest.warns(UserWarning, match="inside a token"):
            assert nlp(text).ents == ()
        assert [ent.text for ent in nlp("肝癌; 糖尿病").ents] == ["肝癌", "糖尿病"]


# Names in another language than the pipeline's are found as they stand, in any case and with or without accents.
@pytest.mark.parametrize("lang", ["xx", "de", "es", "fr", "it", "pt", "nl", "cs", "tr", "zh", "pl", "fi"])
def test_names_in_other_languages_are_found_as_they_stand(lang):
    names = ["Sjögren's disease", "Asthma", "chronic kidney disease", "Diabetes Typ 2", "haemorrhage"]
    nlp = make_in(lang, [(name, "ENG") for name in names])
    for name, write in product(names, [str, str.lower, str.upper, lambda text: text.replace("ö", "o")]):
        doc = nlp(f"– {write(name)}, 2")
        assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [(write(name), f"C{names.index(name)}")]


@cases("cut_words")
def test_words_that_a_hyphen_cuts_are_whole(lang, language, text, names, expected):
    nlp = make_in(lang, [(name, language) for name in names])
    ents = nlp(text).ents
    assert [(ent.text, names[int(ent.kb_id_[1:])]) for ent in ents] == expected
    cut = [ent for ent in ents if "-" in ent.text]
    assert all(ent._.match == "coordination" and get_words(ent) in names for ent in cut)
    nlp.get_pipe("terminology_matcher").words = "exact"
    assert "coordination" not in {ent._.match for ent in nlp(text).ents}


@cases("nearly_alike")
def test_of_names_that_are_written_nearly_alike_the_one_in_the_text_counts(lang, language, names, text):
    nlp = make_in(lang, [(name, language) for name in names], own_case_length=0)
    terminology = nlp.get_pipe("sapbert_linker").terminology
    found = [(ent.text, terminology[ent.kb_id_].names[0].lower()) for ent in nlp(text).ents]
    assert found == [(word, word.lower()) for word in text.split(", ")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"prefixes": "contro"}, "Contro febbre"),
        ({"hyphen_prefixes": "sub"}, "sub-febbre"),
        ({"hyphen_suffixes": "libero"}, "febbre-libero"),
        ({"topics": "reparto"}, "febbre Reparto"),
        ({"measures": ["grado di"]}, "febbre Grado di 3"),
        ({"records": "febbre"}, "Febbre"),
        ({"headings": "febbre"}, "Febbre: sì"),
    ],
)
def test_a_rule_of_a_language_is_a_list_of_words(make_matching, monkeypatch, words, text):
    def find():
        return [mention.lower() for mention, _ in read_ents(use_names(make_matching("it"), ["febbre"])(text))]

    assert find() == ["febbre"]
    monkeypatch.setitem(LANGUAGES, "it", replace(LANGUAGES["it"], **words))
    assert find() == []
