"""What a recogniser proposes beside the names that the matcher finds: which mentions stay, and which get an id."""

import pytest
import spacy
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from linked import links
from spacy.tokens import Doc

from spacy_sapbert.annotations import read_match
from spacy_sapbert.candidates import PROPOSED
from spacy_sapbert.lexicon.said import MARKED_FILE, PACKAGE, Phrases

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
MARKED = ["Headache since", "fell", "bringing up all", "tired", "quirky smile", "guarding"]


def make_nlp(labels=("FINDING",), reranker=True, **settings):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "FINDING", "pattern": text} for text in MARKED])
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
    """A longer proposal does not hide a name inside it."""
    doc = nlp(TEXT)
    assert read(doc) == {
        **{"Headache": "exact", "tired": "derived"},
        **dict.fromkeys(["fell", "bringing up all", "quirky smile", "guarding"], PROPOSED),
    }
    assert {ent.text: read_match(ent).get("is_backed") for ent in doc.ents if ent._.match != PROPOSED} == {
        "Headache": True,
        "tired": True,
    }


def test_names_without_a_proposal_are_told_apart(nlp):
    doc = nlp("Vomiting, and a headache.")
    assert [(ent.text, read_match(ent)["is_backed"]) for ent in doc.ents] == [("Vomiting", False), ("headache", False)]
    alone = make_nlp(labels=())("Vomiting, and a headache.")
    assert [read_match(ent).get("is_backed") for ent in alone.ents] == [None, None]
    backed, not_backed = nlp("Headache since May"), nlp("Headache")
    of_nobody = make_nlp(labels=())("Headache")
    first, second, third = (doc.ents[0]._.kb_probability for doc in (backed, of_nobody, not_backed))
    assert first > second > third


def test_proposals_that_people_say_get_an_id_and_others_get_none(nlp):
    found = {ent.text: ent.kb_id_ for ent in nlp(TEXT).ents}
    assert found == {
        **{"Headache": "H", "tired": "T", "fell": "F", "guarding": "A"},
        **{"bringing up all": "", "quirky smile": ""},
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
    assert [ent.text for ent in doc.ents if ent.label_ == "FINDING"] == MARKED
    assert not any(ent._.match for ent in doc.ents if ent.label_ == "FINDING")


@pytest.mark.parametrize("settings", [{}, {"label": "FINDING"}])
def test_a_second_pass_changes_nothing(settings):
    nlp = make_nlp(**settings)
    doc = nlp(TEXT)
    before = [*links(doc), *read(doc).items()]
    for name in nlp.pipe_names[1:]:
        doc = nlp.get_pipe(name)(doc)
    assert [*links(doc), *read(doc).items()] == before


def test_groups_of_spans_leave_proposals_in_the_entities():
    nlp = make_nlp(spans_key="names")
    doc = nlp(TEXT)
    assert [span.text for span in doc.spans["names"]] == ["Headache", "tired"]
    assert {ent.text for ent in doc.ents if ent._.match == PROPOSED} == {*MARKED}


@given(st.lists(st.sampled_from([*MARKED, "Vomiting", "fall", "and", "in May", ","]), min_size=1, max_size=8))
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
    assert MARKED_FILE.is_file() and len(marked) > 4_000 and searched.isdisjoint(marked)
    assert len({*marked}) == len(marked)
