"""Words and their hashes: equal for spellings of one name."""

import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.lexicon.english import RARE, find_levels
from spacy_sapbert.lexicon.initialisms import is_other_case, own_case_forms
from spacy_sapbert.lexicon.scan import key_texts, scan
from spacy_sapbert.text import normal_words


@cases("spellings")
def test_spellings_of_a_name_have_the_same_hashes_and_other_names_others(one, other, are_equal):
    assert (len({*key_texts([one, other]).tolist()}) == 1) is are_equal


@given(st.lists(st.sampled_from("tumours Type ii renal Cyst x-rays gout's".split()), max_size=6))
def test_words_between_spaces_are_those_of_the_normal_form(words):
    text = " ".join(words)
    assert len(scan(text).words.hashes) == len(normal_words(text))


@pytest.mark.parametrize(
    "alike, pairs",
    [
        (True, ["Gout gout", "MRIs MRI", "TNF-α TNF_alpha", "cysts Cyst", "edema Oedema"]),
        (False, ["ALL all", "CAT Cat", "AIDS aids", "GOUT gout"]),
    ],
)
def test_short_names_have_forms_and_acronyms_are_not_words(alike, pairs):
    for pair in pairs:
        one, other = (own_case_forms(name.replace("_", " ")) for name in pair.split())
        assert one.isdisjoint(other) is not alike, pair


@pytest.mark.parametrize(
    ("expected", "pairs"),
    [
        (True, ["was WAS", "Was WAS", "Hb H-B", "hb HBD", "IgM IGM", "ra RAs"]),
        # Longer ones, words, and capitals, which any word has in a text in capitals.
        (False, ["was WASTED", "gout Gout", "GOUT gout", "IGM IgM", "MRIs MRI", "IgA IGM", "12 CD"]),
    ],
)
def test_acronyms_have_their_capitals(expected, pairs):
    for pair in pairs:
        assert is_other_case(*pair.split()) is expected, pair


@pytest.mark.parametrize(
    "word, level", [("men", 10), ("Results", 10), ("colour", 10), ("anaemia", 35), ("edema", 50), ("otitis", RARE)]
)
def test_how_common_english_words_are(word, level):
    assert find_levels(scan(word).words.hashes).tolist() == [level]
