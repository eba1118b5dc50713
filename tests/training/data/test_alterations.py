"""Names in other writing."""

import random

import polars as pl
import pytest

from training.data.alterations import ALTERATIONS, alter_writing, reorder_words, use_normal_words

NAMES = pl.Series("name", ["tumours of the kidneys", "type II diabetes", "oedema", "!", "β-thalassaemia, minor"])


def test_normal_words_are_singular_american_and_arabic():
    assert use_normal_words("tumours of the kidneys, type II", random.Random(0)) == "tumor of the kidney type 2"
    assert use_normal_words("!", random.Random(0)) == "!"


def test_reordered_names_have_the_same_words():
    orders = {reorder_words("a b c", random.Random(seed)) for seed in range(50)}
    assert orders == {"a b c", "a c b", "b a c", "b c a", "c a b", "c b a"}
    assert reorder_words("one", random.Random(0)) == "one"


def test_each_name_is_altered_in_one_way():
    altered = [alter_writing(NAMES, seed=seed) for seed in range(60)]
    for column, name in enumerate(NAMES):
        seen = {each[column] for each in altered}
        # Every result comes from one of the ways, and all ways occur.
        forms = [{way(name, random.Random(draw)) for draw in range(3000)} for way in ALTERATIONS]
        assert seen <= set().union(*forms)
        assert all(seen & form for form in forms)


@pytest.mark.parametrize("seed", [0, 7])
def test_an_alteration_depends_on_name_and_seed_only(seed):
    assert alter_writing(NAMES.reverse(), seed=seed).reverse().to_list() == alter_writing(NAMES, seed=seed).to_list()
    assert alter_writing(NAMES, seed=seed).to_list() != alter_writing(NAMES, seed=seed + 1).to_list()
