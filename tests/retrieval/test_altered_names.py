"""Altered names: shortened or misspelt, seeded, and never names themselves."""

import random

import polars as pl
import pytest

from spacy_sapbert.retrieval.encoding import ALTERATIONS, alter_names, misspell, shorten, take_first_word

NAMES = pl.Series([f"{a} {b} {c}" for a in ("acute", "mild") for b in ("heart", "liver") for c in ("failure", "pain")])


def test_a_word_is_dropped_from_either_end():
    found = {shorten("Wilms tumour of kidney", random.Random(seed)) for seed in range(20)}
    assert found == {"tumour of kidney", "Wilms tumour of"}
    assert take_first_word("Wilms tumour", random.Random(0)) == "Wilms"


@pytest.mark.parametrize("name", ["", " ", "fever"])
def test_a_name_of_one_word_cannot_be_shortened(name):
    assert shorten(name, random.Random(0)) == take_first_word(name, random.Random(0)) == name


def test_one_letter_is_swapped_dropped_or_doubled():
    found = {misspell("fever", random.Random(seed)) for seed in range(200)}
    assert found == {"fveer", "feevr", "fevre", "fver", "feer", "fevr", "feever", "fevver", "feveer"}
    assert misspell("flu", random.Random(0)) == "flu"


def test_the_same_seed_draws_the_same_names():
    assert alter_names(NAMES, 6) == alter_names(NAMES, 6) != alter_names(NAMES, 6, seed=1)
    assert len(alter_names(NAMES, 6)) == len(set(alter_names(NAMES, 6))) == 6


def test_results_that_are_names_are_left_out():
    names = pl.Series(["heart failure", "heart", "failure"])
    assert alter_names(names, kinds=["shortened", "first_word"]) == []
    assert alter_names(pl.Series(["heart failure"]), kinds=["first_word"]) == ["heart"]


def test_the_kinds_take_turns():
    found = alter_names(NAMES, 8)
    lengths = [len(name.split()) for name in found]
    assert {1, 2, 3} <= set(lengths) and list(ALTERATIONS) == ["shortened", "first_word", "misspelt"]


@pytest.mark.parametrize("names", [[], ["", "  "], ["flu"]])
def test_names_that_give_no_altered_ones_are_no_error(names):
    assert alter_names(pl.Series(names, dtype=pl.String)) == []


def test_categorical_names_are_altered_too():
    assert alter_names(NAMES.cast(pl.Categorical), 6) == alter_names(NAMES, 6)
