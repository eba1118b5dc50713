"""Altered names: shortened, misspelt or with a word of another one, seeded, and never names themselves."""

from itertools import chain

import pytest

from spacy_sapbert.columns import TextColumn
from spacy_sapbert.retrieval.encoding import ALTERATIONS, alter_names

NAMES = TextColumn.make(
    [f"{a} {b} {c}" for a in ("acute", "mild") for b in ("heart", "liver") for c in ("failure", "pain")]
)


@pytest.mark.parametrize(
    "name, kind, expected",
    [
        ("Wilms tumour of kidney", "shortened", "tumour of kidney|Wilms tumour of"),
        ("Wilms tumour", "first_word", "Wilms"),
        ("fever", "misspelt", "fveer|feevr|fevre|fver|feer|fevr|feever|fevver|feveer"),
        *((name, kind, "") for name in ("", " ", "flu") for kind in ALTERATIONS),
    ],
)
def test_names_are_altered_in_these_ways_and_no_other(name, kind, expected):
    found = [alter_names(TextColumn.make([name]), kinds=[kind], seed=seed) for seed in range(200)]
    assert set(chain(*found)) == set(filter(None, expected.split("|")))


def test_a_word_is_exchanged_for_one_of_another_name():
    pairs = TextColumn.make(["heart failure", "mild pain", "flu"])
    found = set(chain(*(alter_names(pairs, kinds=["exchanged"], seed=seed) for seed in range(200))))
    of_pairs = {"heart failure", "mild pain"}
    words = {word for name in pairs for word in name.split()}
    expected = {f"{word} {b}" for b in ("failure", "pain") for word in words}
    expected |= {f"{a} {word}" for a in ("heart", "mild") for word in words} | {f"{word} flu" for word in words}
    assert found < expected - of_pairs and {"heart pain", "mild flu", "failure flu"} <= found


def test_altered_names_are_drawn_by_seed_in_turns_and_are_no_names():
    found = alter_names(NAMES, 8)
    assert found == alter_names(NAMES.to_list(), 8) != alter_names(NAMES, 8, seed=1)
    assert len(found) == len(set(found)) <= 8 and {1, 2, 3} <= {len(name.split()) for name in found}
    names = TextColumn.make(["heart failure", "heart", "failure"])
    assert alter_names(names, kinds=["shortened", "first_word"]) == []
    assert alter_names(TextColumn.make([])) == []
