"""Names that are tokenised once, before training."""

import warnings

import polars as pl
import pytest

from spacy_sapbert.encoder import EncoderShim
from training.data.tokens import Tokens


@pytest.fixture(scope="module", params=["encoder_folder", "static_folder"])
def encoder(request):
    encoder = EncoderShim({})
    encoder.load(request.getfixturevalue(request.param))
    return encoder


def test_tokens_are_those_of_the_encoder(encoder):
    names = ["heart attack", "cold", "common cold"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens = Tokens(pl.Series(names), encoder)
        assert len(Tokens(pl.Series([], dtype=pl.String()), encoder)) == 0
    assert [ids.tolist() for ids in tokens] == encoder.tokenize(names)


@pytest.mark.parametrize("names, missing", [(["cold", "心臓", "発作"], 2), (["心臓", "発作"], 2), (["", "heart"], 1)])
def test_a_warning_says_how_many_names_are_unknown(encoder, names, missing):
    with pytest.warns(UserWarning, match=rf"W602. {missing} of {len(names)} strings"):
        Tokens(pl.Series(names), encoder)
