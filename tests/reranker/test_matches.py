"""Probabilities of what the matcher has found, and of mentions without an id."""

import numpy as np
import pytest
import spacy
from conftest import build_terminology

from spacy_sapbert.candidates import NO_MATCH, PROPOSED, Matched
from spacy_sapbert.lexicon.trust import WAYS
from spacy_sapbert.reranker.prior import FOUND, MIN_FOUND, NAMES, judge_matches

NAMED = {
    "K": ["Kidney Diseases", "Nephropathy"],
    "H": ["Heart attack", "Myocardial infarction"],
    "M": ["Myocardial ischemia"],
    "C": ["Cold"],
    "D": ["Common cold"],
}
TEXT = "Myocardial infarction, a cold, nephropathies, and kidney disease."


def judge(how, chance=0.9, trust=0.9, text="heart attack"):
    return float(judge_matches(np.array([chance]), [((text,), Matched((0,), 1.0, trust, how))])[0])


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(NAMED))
    nlp.add_pipe("sapbert_reranker", config={"n_candidates": 5})
    return nlp


def link(nlp, least, *, given=False):
    nlp.get_pipe("sapbert_reranker").min_probability = least
    if not given:
        return nlp(TEXT).ents
    doc = nlp.make_doc(TEXT)
    doc.ents = [doc.char_span(ent.start_char, ent.end_char, label="X") for ent in nlp(TEXT).ents]
    for name in ("sapbert_linker", "sapbert_reranker"):
        doc = nlp.get_pipe(name)(doc)
    return doc.ents


def test_all_ways_have_a_weight():
    """After a new way, run the command `prior` again."""
    ways = {*WAYS, PROPOSED} - {"exact"}
    assert {f"as {way}" for way in ways} == {name for name in FOUND if name.startswith("as ")}


def test_a_name_as_written_is_surer_than_a_misspelt_one():
    assert judge("exact") > judge("form") > judge("spelling")
    assert judge("exact") > judge("exact", text="attack")
    assert all(judge(how, trust=0.99) > judge(how, trust=0.5) for how in NAMES)
    assert all(judge(how, chance=0.99) > judge(how, chance=0.1) for how in WAYS)


def test_mentions_of_others_keep_theirs_and_doubtful_concepts_stay_doubtful():
    chance = np.array([0.0, 0.3, 1.0])
    assert (judge_matches(chance, [(("x",), NO_MATCH)] * 3) == chance).all() and not len(judge_matches(chance[:0], []))
    assert all(judge(how, chance=0.0) == 0 and judge(how, chance=0.005, trust=0.99) < MIN_FOUND for how in WAYS)


@pytest.mark.parametrize("given", [False, True])
def test_a_mention_without_an_id_has_the_probability_that_it_has_none(nlp, given):
    linked, refused = link(nlp, 0.0, given=given), link(nlp, 1.0, given=given)
    assert len(linked) == len(refused) == 4
    for one, other in zip(linked, refused, strict=True):
        assert one.kb_id_ and not other.kb_id_
        assert one._.kb_probability + other._.kb_probability == pytest.approx(1)


@pytest.mark.parametrize("given", [False, True])
def test_probabilities_of_candidates_are_shares(nlp, given):
    for ent in link(nlp, 0.0, given=given):
        values = [candidate["probability"] for candidate in ent._.kb_candidates]
        assert values == sorted(values, reverse=True) and min(values) >= 0
        assert values[0] <= ent._.kb_probability and sum(values) <= 1 + 1e-6
