"""Altered names: shortened or misspelt, seeded, and never names themselves."""

from itertools import chain

import polars as pl
import pytest

from spacy_sapbert.retrieval.encoding import ALTERATIONS, alter_names

NAMES = pl.Series([f"{a} {b} {c}" for a in ("acute", "mild") for b in ("heart", "liver") for c in ("failure", "pain")])


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
    found = [alter_names(pl.Series([name]), kinds=[kind], seed=seed) for seed in range(200)]
    assert set(chain(*found)) == set(filter(None, expected.split("|")))


def test_altered_names_are_drawn_by_seed_in_turns_and_are_no_names():
    found = alter_names(NAMES, 8)
    assert found == alter_names(NAMES.cast(pl.Categorical), 8) != alter_names(NAMES, 8, seed=1)
    assert len(found) == len(set(found)) <= 8 and {1, 2, 3} <= {len(name.split()) for name in found}
    names = pl.Series(["heart failure", "heart", "failure"])
    assert alter_names(names, kinds=["shortened", "first_word"]) == []
    assert alter_names(pl.Series([], dtype=pl.String)) == []
