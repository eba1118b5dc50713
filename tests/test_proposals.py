"""What a recogniser proposes beside the names that the matcher finds: which mentions stay, and which get an id."""

import pytest
import spacy
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from linked import links
from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import read_match
from spacy_sapbert.candidates import MARKED, PROPOSAL, PROPOSED, ConceptFilter, MentionToLink
from spacy_sapbert.lexicon.said import PACKAGE, Phrases

NAMES = {
    "F": ["Falls", "fall"],
    "V": ["Vomiting", "Emesis"],
    "H": ["Headache"],
    "T": ["Tiredness", "Fatigue"],
    "A": ["Abdominal guarding"],
    "K": ["Knee pain"],
}
TEXT = "Headache since she fell; bringing up all her dinner, tired, a quirky smile, guarding."
# What the recogniser marks there.
PROPOSALS = ["Headache since", "fell", "bringing up all", "tired", "quirky smile", "guarding"]


def make_nlp(labels=("FINDING",), reranker=True, **settings):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "FINDING", "pattern": text} for text in PROPOSALS])
    nlp.add_pipe("terminology_matcher", config={"proposed_labels": [*labels], **settings})
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology(NAMES))
    if reranker:
        nlp.add_pipe("sapbert_reranker", config={"n_candidates": 5})
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return make_nlp()


def read(doc):
    return {ent.text: ent._.match for ent in doc.ents}


def test_names_take_the_place_of_proposals(nlp):
    """A longer proposal does not hide a name inside it. What people say where they mean a finding is told apart."""
    doc = nlp(TEXT)
    assert read(doc) == {
        **{"Headache": "exact", "tired": "derived", "fell": MARKED, "guarding": MARKED},
        **dict.fromkeys(["bringing up all", "quirky smile"], PROPOSED),
    }


def test_names_without_a_proposal_are_told_apart(nlp):
    doc = nlp("Vomiting, and a headache.")
    assert [(ent.text, read_match(ent)["is_backed"]) for ent in doc.ents] == [("Vomiting", False), ("headache", False)]
    alone = make_nlp(labels=())("Vomiting, and a headache.")
    assert [read_match(ent).get("is_backed") for ent in alone.ents] == [None, None]
    backed, not_backed = (nlp(text).ents[0]._.kb_probability for text in ("Headache since May", "Headache"))
    assert backed > not_backed == make_nlp(labels=())("Headache").ents[0]._.kb_probability


def test_doubtful_names_count_where_a_recogniser_proposes_them():
    nlp = make_nlp(min_trust=0.99)
    with nlp.select_pipes(disable="entity_ruler"):
        assert not nlp("A pale fall.").ents
    doc = nlp.make_doc("A pale fall.")
    doc.ents = [Span(doc, 2, 3, "FINDING")]
    assert [(ent.text, ent._.match) for ent in nlp.get_pipe("terminology_matcher")(doc).ents] == [("fall", MARKED)]


def test_names_of_another_kind_are_no_findings():
    """A recogniser that marks body parts and drugs is not believed."""
    nlp = make_nlp()
    terminology = build_terminology({**NAMES, "S": ["Quirky smile"]}, types={"S": ["T023"], "F": ["T184"]})
    nlp.get_pipe("sapbert_linker").initialize(terminology=terminology)
    nlp.get_pipe("sapbert_linker").types = ["T184"]
    assert [ent.text for ent in nlp("A quirky smile. She fell.").ents] == ["fell"]


def test_short_forms_in_another_case_are_no_names_of_another_kind():
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").initialize(terminology=build_terminology({"C": ["Obstructive disease", "COLD"]}))
    doc = nlp.make_doc("She has a cold.")
    doc.ents = [Span(doc, 3, 4, "FINDING")]
    assert read(nlp.get_pipe("terminology_matcher")(doc)) == {"cold": PROPOSED}


def test_short_forms_that_nobody_defines_stay_proposals():
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").initialize(
        terminology=build_terminology({**NAMES, "P": ["PD", "Progressive disease"]})
    )
    doc = nlp.make_doc("Her PD is worse, she fell.")
    doc.ents = [Span(doc, 1, 2, "FINDING"), Span(doc, 6, 7, "FINDING")]
    doc = nlp.get_pipe("terminology_matcher")(doc)
    assert read(doc) == {"PD": PROPOSED, "fell": MARKED}


def test_unknown_proposals_get_no_id(nlp):
    doc = nlp(TEXT)
    assert {ent.text: ent.kb_id_ for ent in doc.ents if ent._.match == PROPOSED} == {
        "bringing up all": "",
        "quirky smile": "",
    }
    assert {ent.text: ent.kb_id_ for ent in doc.ents if ent._.match not in (PROPOSED, MARKED)} == {
        "Headache": "H",
        "tired": "T",
    }


def test_they_are_not_looked_for_in_texts(nlp):
    """The phrases that need a mark have no words for the matcher."""
    with nlp.select_pipes(disable="entity_ruler"):
        assert not nlp("The temperature fell. She is guarding the door.").ents


def test_a_linker_alone_links_what_is_said_only():
    doc = make_nlp(reranker=False)(TEXT)
    found = {ent.text: ent.kb_id_ for ent in doc.ents}
    assert found["fell"] == "F" and not found["quirky smile"] and not found["bringing up all"]
    assert all(ent._.kb_candidates for ent in doc.ents)


def test_entities_with_other_labels_are_mentions():
    """Without the setting, all that others have marked stays, and is taken for a mention."""
    doc = make_nlp(labels=())(TEXT)
    assert [ent.text for ent in doc.ents if ent.label_ == "FINDING"] == PROPOSALS
    assert not any(ent._.match for ent in doc.ents if ent.label_ == "FINDING")


@pytest.mark.parametrize("settings", [{}, {"label": "FINDING"}])
def test_a_second_pass_changes_nothing(settings):
    nlp = make_nlp(**settings)
    doc = nlp(TEXT)
    before = [*links(doc), *read(doc).items()]
    for name in nlp.pipe_names[1:]:
        doc = nlp.get_pipe(name)(doc)
    assert [*links(doc), *read(doc).items()] == before


def test_the_matchers_own_mentions_back_nothing():
    nlp = make_nlp(label="FINDING")
    with nlp.select_pipes(disable="entity_ruler"):
        doc = nlp("A headache.")
        assert read_match(nlp(doc).ents[0])["is_backed"] is False


@pytest.mark.parametrize("overwrite", [False, True])
def test_ids_of_proposals_stay_if_the_linker_leaves_them(overwrite):
    nlp = make_nlp(reranker=False)
    nlp.get_pipe("sapbert_linker").overwrite = overwrite
    doc = nlp.make_doc("Headache since she fell.")
    doc.ents = [Span(doc, 0, 2, "FINDING", kb_id="X"), Span(doc, 3, 4, "FINDING", kb_id="Y")]
    with nlp.select_pipes(disable="entity_ruler"):
        found = [(ent.text, ent.kb_id_) for ent in nlp(doc).ents]
    assert found == ([("Headache", "H"), ("fell", "F")] if overwrite else [("Headache since", "X"), ("fell", "Y")])


def test_skipped_names_are_not_proposed_again():
    nlp = make_nlp(skip_names=["tired", "headache"])
    doc = nlp.make_doc("Headache, tired.")
    doc.ents = [Span(doc, 0, 1, "FINDING"), Span(doc, 2, 3, "FINDING")]
    assert not nlp.get_pipe("terminology_matcher")(doc).ents


def test_proposals_keep_to_a_higher_threshold():
    linker = make_nlp(reranker=False).get_pipe("sapbert_linker")
    mention = MentionToLink(("fell",), ConceptFilter(), PROPOSAL)
    for threshold, kb_id in ((0.5, "F"), (1.0, "")):
        linker.threshold = threshold
        assert linker._decide([mention], [[{"id": "F", "score": 0.995}]]).kb_ids == [kb_id]


def test_groups_of_spans_leave_proposals_in_the_entities():
    nlp = make_nlp(spans_key="names")
    doc = nlp(TEXT)
    assert [span.text for span in doc.spans["names"]] == ["Headache", "tired"]
    assert [ent.text for ent in doc.ents if ent.label_ == "FINDING"] == PROPOSALS


@given(st.lists(st.sampled_from([*PROPOSALS, "Vomiting", "fall", "and", "in May", ","]), min_size=1, max_size=8))
def test_proposals_never_cost_a_name(words):
    """What the matcher finds by itself, it finds with a recogniser in front."""
    text = " ".join(words)
    found = {(ent.start, ent.end) for ent in make_nlp.alone(text).ents}
    assert found <= {(ent.start, ent.end) for ent in make_nlp.both(text).ents}


make_nlp.both = make_nlp(reranker=False)
make_nlp.alone = make_nlp(reranker=False)
make_nlp.alone.remove_pipe("entity_ruler")


def test_matches_go_through_saved_documents(nlp):
    doc = nlp(TEXT)
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert read(again) == read(doc)


def test_the_packages_phrases_are_not_those_that_it_has_anyway():
    phrases = Phrases.read([PACKAGE])
    searched = {phrase for of in phrases.phrases[: phrases.n_searched] for phrase in of}
    marked = [phrase for of in phrases.phrases[phrases.n_searched :] for phrase in of]
    assert len(marked) > 4_000 and searched.isdisjoint(marked)
    assert len({*marked}) == len(marked)
