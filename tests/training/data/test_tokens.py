"""Names that are tokenised once, before training."""

import warnings

import polars as pl
import pytest

from spacy_sapbert.encoder.shim import EncoderShim
from training.data.tokens import tokenise, tokenise_once


@pytest.fixture(scope="module", params=["encoder_folder", "static_folder"])
def encoder(request):
    encoder = EncoderShim({})
    encoder.load(request.getfixturevalue(request.param))
    return encoder


def test_tokens_are_those_of_the_encoder(encoder):
    names = ["heart attack", "cold", "common cold"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens = tokenise(pl.Series(names), encoder)
        assert len(tokenise(pl.Series([], dtype=pl.String()), encoder)) == 0
    assert [ids.tolist() for ids in tokens] == encoder.tokenize(names)


@pytest.mark.parametrize("names, missing", [(["cold", "心臓", "発作"], 2), (["心臓", "発作"], 2), (["", "heart"], 1)])
def test_a_warning_says_how_many_names_are_unknown(encoder, names, missing):
    with pytest.warns(UserWarning, match=rf"{missing} of {len(names)} strings to train on have no token"):
        tokenise(pl.Series(names), encoder)


def test_tokens_are_made_once_for_the_same_names_and_encoder(encoder, tmp_path, monkeypatch):
    names = pl.Series(["heart attack", "cold", "common cold"])
    made = [ids.tolist() for ids in tokenise_once(names, encoder, tmp_path)]
    assert made == encoder.tokenize(names.to_list())
    assert len(tokenise_once(pl.Series([], dtype=pl.String()), encoder, tmp_path)) == 0
    others = tokenise_once(names[:2], encoder, tmp_path)
    assert [ids.tolist() for ids in others] == made[:2]

    def refuse(strings):
        raise AssertionError(strings)

    monkeypatch.setattr(encoder, "tokenize", refuse)
    assert [ids.tolist() for ids in tokenise_once(names, encoder, tmp_path)] == made
    with pytest.raises(AssertionError):
        tokenise_once(pl.Series(["heart attack cold", "common cold"]), encoder, tmp_path)
    # A process that was killed between the two files leaves tokens without their ends.
    for path in tmp_path.glob("*-ends.npy"):
        path.unlink()
    with pytest.raises(AssertionError):
        tokenise_once(names, encoder, tmp_path)
