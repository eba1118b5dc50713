"""Names for training: tokenised once, and in other writing."""

import random
import warnings

import polars as pl
import pytest
from conftest import load_encoder

from training.data.tokens import ALTERATIONS, alter_writing, reorder_words, tokenise, tokenise_once, use_normal_words

NAMES = pl.Series("name", ["tumours of the kidneys", "type II diabetes", "oedema", "!", "β-thalassaemia, minor"])


@pytest.fixture(scope="module", params=["encoder_folder", "static_folder"])
def encoder(request):
    return load_encoder(request.getfixturevalue(request.param), "auto")


@pytest.mark.parametrize("names, missing", [(["cold", "心臓", "発作"], 2), (["心臓", "発作"], 2), (["", "heart"], 1)])
def test_a_warning_says_how_many_names_are_unknown(encoder, names, missing):
    with pytest.warns(UserWarning, match=rf"{missing} of {len(names)} strings to train on have no token"):
        tokenise(pl.Series(names), encoder)


def test_tokens_are_made_once_for_the_same_names_and_encoder(encoder, tmp_path, monkeypatch):
    names = pl.Series(["heart attack", "cold", "common cold"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [ids.tolist() for ids in tokenise_once(names, encoder, tmp_path)]
        assert len(tokenise_once(pl.Series([], dtype=pl.String()), encoder, tmp_path)) == 0
    assert made == encoder.tokenize(names.to_list())
    assert [ids.tolist() for ids in tokenise_once(names[:2], encoder, tmp_path)] == made[:2]

    def refuse(strings):
        raise AssertionError(strings)

    monkeypatch.setattr(encoder, "tokenize_names", refuse)
    assert [ids.tolist() for ids in tokenise_once(names, encoder, tmp_path)] == made
    with pytest.raises(AssertionError):
        tokenise_once(pl.Series(["heart attack cold", "common cold"]), encoder, tmp_path)
    # A process that was killed between the two files leaves tokens without their offsets.
    for path in tmp_path.glob("*-offsets.npy"):
        path.unlink()
    with pytest.raises(AssertionError):
        tokenise_once(names, encoder, tmp_path)


def test_each_name_is_altered_in_one_way_that_depends_on_name_and_seed_only():
    assert use_normal_words("tumours of the kidneys, type II", random.Random(0)) == "tumor of the kidney type 2"
    orders = {reorder_words("a b c", random.Random(seed)) for seed in range(50)}
    assert orders == {"a b c", "a c b", "b a c", "b c a", "c a b", "c b a"}
    altered = [alter_writing(NAMES, seed=seed) for seed in range(60)]
    for column, name in enumerate(NAMES):
        seen = {each[column] for each in altered}
        # Every result comes from one of the ways, and all ways occur.
        forms = [{way(name, random.Random(draw)) for draw in range(1000)} for way in ALTERATIONS]
        assert seen <= set().union(*forms) and all(seen & form for form in forms)
    assert alter_writing(NAMES.reverse(), seed=7).reverse().to_list() == altered[7].to_list() != altered[8].to_list()
