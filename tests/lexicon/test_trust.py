"""Which names are trusted in running text: compared with a naive count, and in a pipeline."""

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_sapbert.annotations import read_match
from spacy_sapbert.lexicon.bags import read_names
from spacy_sapbert.lexicon.trust import compute_signals
from spacy_sapbert.terminology import TerminologyBuilder
from spacy_sapbert.text import normal_words

NAMES = ["child", "rich", "Asthma", "asthma", "heart attack", "attack, heart", "zzyzx syndrome", "the men"]


def make(rows):
    builder = TerminologyBuilder()
    for concept, name, sources in rows:
        for source in sources:
            builder.add_name(f"C{concept}", name, source=source)
    return builder.build()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(NAMES), st.sets(st.sampled_from("AB"), min_size=1)), min_size=1
    )
)
def test_signals_are_those_of_a_naive_count(rows):
    terminology = make(rows)
    names = terminology.names["name"].to_list()
    first, is_english = read_names(terminology.names["name"]).first, np.ones(len(names), dtype=bool)
    signals = compute_signals(terminology, *first, is_english)
    of_name = [sorted(set(normal_words(name)) - {"the"}) for name in names]
    ids = [terminology.concepts["id"][int(row)] for row in terminology.name_concept]
    canonical = dict(zip(*(terminology.concepts[key] for key in ("id", "canonical_name")), strict=True))
    sources = [set(text.split("|")) for text in terminology.names["source"]]
    for place, words in enumerate(of_name):
        same = [other for other, found in enumerate(of_name) if found == words]
        n_sources = len(set().union(*(sources[other] for other in same)))
        is_canonical = any(
            ids[other] == ids[place] and names[other].lower() == canonical[ids[place]].lower() for other in same
        )
        assert (signals["one_common"][place] > 0) == (len(words) == 1)
        assert signals["canonical"][place] == is_canonical
        assert signals["sources"][place] == pytest.approx(np.log(n_sources))
        assert signals["all_sources"][place] == pytest.approx(np.log(len(set().union(*sources))) / np.log(8))
        assert signals["names"][place] == pytest.approx(np.log(ids.count(ids[place])))


@pytest.fixture(scope="module")
def nlp():
    builder = TerminologyBuilder()
    for concept, names in {
        "MONDO:1": ["multiple endocrine neoplasia", "men"],
        "MONDO:2": ["rapidly involuting congenital hemangioma", "rich"],
        "MONDO:3": ["rash"],
        "MONDO:4": ["growth failure", "results"],
    }.items():
        for source in ("X", "Y") if concept == "MONDO:3" else ("X",):
            for name in names:
                builder.add_name(concept, name, source=source)
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=builder.build())
    return nlp


@pytest.mark.parametrize(
    "text, found",
    [
        ("Two men had a rash.", ["rash"]),
        ("The results of men.", []),
        ("RICH was found in rich men.", ["RICH"]),
        ("TWO MEN HAD A RASH, AND ALL OF THEM WERE OLD.", ["RASH"]),
    ],
)
def test_words_that_are_names_too_are_no_mentions(nlp, text, found):
    assert [ent.text for ent in nlp(text).ents] == found


def test_all_names_are_found_without_a_bar_and_in_given_mentions(nlp):
    matcher = nlp.get_pipe("terminology_matcher")
    matcher.min_trust = 0.0
    assert [ent.text for ent in nlp("The results of men.").ents] == ["results"]
    matcher.min_trust = 0.3
    assert nlp.get_pipe("sapbert_linker").find(["results"])[0][0]["id"] == "MONDO:4"


def test_how_a_mention_was_found_changes_its_trust(nlp):
    ents = nlp("Rash, and failure of growth; growth failure.").ents
    assert [ent._.match for ent in ents] == ["exact", "form", "exact"]
    rash, form, exact = (read_match(ent)["trust"] for ent in ents)
    assert rash > 0.3 and form < exact


@pytest.mark.parametrize(
    "text, is_inside",
    [
        *(("Had a rash.", False), ("A severe rash was seen.", False), ("fever, rash", False), ("Rash and itch", False)),
        *(("An itchy rash.", True), ("rash cream", True), ("rash of the arm", False)),
    ],
)
def test_a_mention_inside_a_longer_phrase_is_trusted_less(nlp, text, is_inside):
    [match] = map(read_match, nlp(text).ents)
    alone = read_match(nlp("rash").ents[0])
    assert match["trust"] < alone["trust"] if is_inside else match["trust"] == alone["trust"]
