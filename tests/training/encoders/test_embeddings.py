"""Vectors of strings, kept on disk."""

import numpy as np
import pytest
from conftest import load_encoder
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.index import exact_search
from training.encoders import embeddings as module
from training.encoders.embeddings import Embeddings
from training.evaluation.systems.encoder import EncoderSystem

STRINGS = st.lists(st.text("ab c", max_size=5), min_size=1, max_size=8)


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


def test_what_is_kept_is_not_computed_again_and_not_shared(encoder, encoder_folder, tmp_path, monkeypatch):
    strings = ["cold", "flu", "cold", ""]
    kept = Embeddings(encoder, tmp_path)
    first = kept.take(strings)
    other = load_encoder(encoder_folder, pooling="mean")
    assert len(Embeddings(other, tmp_path)) == 0
    monkeypatch.setattr(encoder, "encode_unscaled", None)
    for again in (kept, Embeddings(encoder, tmp_path)):
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


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b""), lambda path: path.with_suffix(".strings").unlink()]
)
def test_damaged_files_are_refused(encoder, tmp_path, damage):
    Embeddings(encoder, tmp_path).add(["cold"])
    damage(next(tmp_path.rglob("*.npy")))
    with pytest.raises(ValueError, match="no vectors of strings.*Delete its folder"):
        Embeddings(encoder, tmp_path)


@pytest.mark.parametrize("kept", [True, False])
def test_vectors_in_bf16_take_half_of_the_space_and_stay_what_they_are(encoder_folder, tmp_path, kept):
    shim = load_encoder(encoder_folder, "bf16", pooling="cls")
    strings = ["cold", "heart attack", "", "liver"]
    embeddings = Embeddings(shim, tmp_path if kept else None)
    found = [embeddings.take(strings, normalised=normalised) for normalised in (True, False)]
    assert (found[1] == shim.encode_unscaled(strings)).all()
    assert [block.dtype for block in embeddings._blocks] == [np.uint16]
    if kept:
        again = Embeddings(shim, tmp_path)
        assert len(again) == 4
        assert all((again.take(strings, normalised=n) == f).all() for n, f in zip((True, False), found, strict=True))


def test_names_are_searched_without_an_array_of_all(encoder, monkeypatch):
    names, queries = ["cold", "flu", "common cold", "liver", "heart attack"], ["a cold", "heart"]
    expected = exact_search(encoder.encode(names), encoder.encode(queries), 3)
    monkeypatch.setattr("spacy_sapbert.index.base.ROW_BLOCK", 2)
    embeddings, sizes = Embeddings(encoder), []
    read = embeddings._read_rows
    monkeypatch.setattr(embeddings, "_read_rows", lambda rows, **how: sizes.append(len(rows)) or read(rows, **how))
    system = EncoderSystem.of(embeddings)
    rows, scores = system.search(names, queries, 3)
    assert (rows == expected[0]).all() and np.allclose(scores, expected[1], atol=1e-5)
    assert sizes == [2, 2, 2, 1]
