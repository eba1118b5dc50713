"""Vectors of strings, kept on disk."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_sapbert.encoder import EncoderShim
from training.evaluation import embeddings as module
from training.evaluation.embeddings import Embeddings

STRINGS = st.lists(st.text("ab c", max_size=5), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    shim = EncoderShim({}, "fp32")
    shim.load(encoder_folder)
    return shim


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(STRINGS, min_size=1, max_size=4), kept=st.booleans())
def test_vectors_are_those_of_the_encoder(encoder, tmp_path_factory, asked, kept):
    folder = tmp_path_factory.mktemp("vectors") if kept else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", 2)
        embeddings = Embeddings(encoder, folder)
        for strings in asked:
            np.testing.assert_allclose(embeddings.take(strings), encoder.encode(strings), atol=1e-5)
            unscaled = embeddings.take(strings, normalised=False)
            np.testing.assert_allclose(unscaled, encoder.encode_unscaled(strings), atol=1e-4)


def test_what_is_kept_is_not_computed_again(encoder, tmp_path, monkeypatch):
    strings = ["cold", "flu", "cold", ""]
    first = Embeddings(encoder, tmp_path).take(strings)
    monkeypatch.setattr(encoder, "encode_unscaled", None)
    again = Embeddings(encoder, tmp_path)
    assert len(again) == 3
    assert (again.take(strings) == first).all()


def test_runs_that_write_at_once_do_not_harm_each_other(encoder, tmp_path):
    left, right = Embeddings(encoder, tmp_path), Embeddings(encoder, tmp_path)
    left.add(["cold", "flu"])
    right.add(["flu", "fever"])
    left.add(["fever", "rash"])
    again = Embeddings(encoder, tmp_path)
    strings = ["rash", "fever", "flu", "cold"]
    np.testing.assert_allclose(again.take(strings), encoder.encode(strings), atol=1e-5)


def test_encoders_do_not_share_vectors(encoder, encoder_folder, tmp_path):
    other = EncoderShim({"pooling": "mean"}, "fp32")
    other.load(encoder_folder)
    Embeddings(encoder, tmp_path).add(["cold"])
    assert len(Embeddings(other, tmp_path)) == 0
    assert not np.allclose(Embeddings(other, tmp_path).take(["cold"]), Embeddings(encoder, tmp_path).take(["cold"]))


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b""), lambda path: path.with_suffix(".strings").unlink()]
)
def test_damaged_files_are_refused(encoder, tmp_path, damage):
    Embeddings(encoder, tmp_path).add(["cold"])
    damage(next(tmp_path.rglob("*.npy")))
    with pytest.raises(ValueError, match="E750.*Delete its folder"):
        Embeddings(encoder, tmp_path)


def test_a_static_encoder_gives_strings_that_it_does_not_know_zeros(static_folder):
    shim = EncoderShim({})
    shim.load(static_folder)
    strings = ["cold", "ж", "heart attack", ""]
    for normalised in (True, False):
        vectors = Embeddings(shim).take(strings, normalised=normalised)
        expected = shim.encode(strings) if normalised else shim.encode_unscaled(strings)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.any(axis=1).tolist() == [True, False, True, False]
