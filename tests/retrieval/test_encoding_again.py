"""With vectors of 8-bit numbers and a static encoder, a linker finds what it finds with exact vectors."""

import copy
import pickle
import shutil
from itertools import combinations

import numpy as np
import pytest
import spacy
from conftest import build_terminology

from spacy_sapbert.files import read_manifest, write_manifest
from spacy_sapbert.retrieval.retriever import FORMAT_VERSION, RETRIEVER_FILE

WORDS = ["heart", "attack", "cold", "acute", "skin", *"abcdefgh"]
# The same words in another order would have the same vector but for rounding.
NAMES = [" ".join(words) for words in combinations(WORDS, 3)]
TEXTS = [*NAMES[::17], "heart attacks b", "acute acute", "skin cold cold a", "zzz"]


def build(encoder, names=NAMES):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(
        terminology=build_terminology([(f"C{i // 2}", name) for i, name in enumerate(names)]), encoder=encoder
    )
    return nlp


@pytest.fixture(scope="module")
def pipelines(static_folder):
    """A pipeline with exact vectors, and one with 8-bit numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spacy_sapbert.index.base.HALF_PRECISION_FROM", 100)
        coarse = build(static_folder)
    return build(static_folder), coarse


@pytest.fixture(scope="module")
def saved(pipelines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coarse") / "pipeline"
    pipelines[1].to_disk(folder)
    return folder


def get_linkers(*pipelines):
    return [nlp.get_pipe("sapbert_linker") for nlp in pipelines]


def assert_alike(*pipelines):
    exact, coarse = get_linkers(*pipelines)
    assert coarse.index.is_coarse and not exact.index.is_coarse
    for filters in ({}, {"ids": [f"C{i}" for i in range(0, 140, 3)]}):
        expected, given = (linker.find(TEXTS, k=4, **filters) for linker in (exact, coarse))
        for left, right in zip(expected, given, strict=True):
            assert [one["id"] for one in left] == [one["id"] for one in right]
            np.testing.assert_allclose([one["score"] for one in left], [one["score"] for one in right], atol=2e-6)


def test_scores_are_those_of_exact_vectors(pipelines):
    exact, coarse = pipelines
    assert_alike(exact, coarse)
    linker = coarse.get_pipe("sapbert_linker")
    queries = linker.encoder.encode(TEXTS[:30])
    retriever = linker.retriever
    found, again = (
        retriever.search(TEXTS[:30], queries, 4, None, encode).score for encode in (None, linker.encoder.encode_tokens)
    )
    assert len(found) != len(again) or np.abs(found - again).max() > 1e-5


def test_copies_and_edits_find_the_same(pipelines, saved, tmp_path):
    assert np.load(saved / "sapbert_linker" / "retriever" / "tokens.npy").dtype == np.uint16
    exact = copy.deepcopy(pipelines[0])
    loaded = spacy.load(saved)
    assert_alike(exact, loaded)
    edited = [exact, loaded]
    for linker in get_linkers(*edited):
        linker.add_names([("C3", "cold cold b skin"), ("C900", "acute skin d d")])
    assert_alike(*edited)
    for linker in get_linkers(*edited):
        linker.remove_concepts([f"C{i}" for i in range(1, 140, 3)])
    assert_alike(*edited)
    loaded.to_disk(tmp_path / "b")
    assert_alike(exact, spacy.load(tmp_path / "b"))
    assert_alike(exact, pickle.loads(pickle.dumps(loaded)))
    assert_alike(exact, copy.deepcopy(loaded))


def test_a_transformer_keeps_its_vectors(encoder_folder, monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.base.HALF_PRECISION_FROM", 100)
    assert build(encoder_folder).get_pipe("sapbert_linker").index.vectors.dtype == np.float16


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("tokens", None),
        ("tokens", np.full(2000, 60_000, np.uint16)),
        ("tokens", np.full(2000, -1, np.int32)),
        ("tokens", np.zeros(2000)),
        ("token_offsets", np.arange(7)),
        ("token_offsets", None),
    ],
)
def test_tokens_that_no_rows_have_are_refused(saved, tmp_path, name, array):
    copied = shutil.copytree(saved, tmp_path / "pipeline")
    folder = copied / "sapbert_linker" / "retriever"
    if array is None:
        (folder / f"{name}.npy").unlink()
    else:
        np.save(folder / f"{name}.npy", array)
    sign_retriever(folder)
    with pytest.raises(OSError, match=name):
        spacy.load(copied)


def sign_retriever(folder):
    data = read_manifest(folder / RETRIEVER_FILE, FORMAT_VERSION, check_files=False)
    del data["files"], data["format"]
    write_manifest(folder / RETRIEVER_FILE, FORMAT_VERSION, data, below=False)


def turn(array):
    return array[::-1].copy()


def repeat_first(array):
    array[1] = array[0]
    return array


@pytest.mark.parametrize(("name", "forge"), [("tokens", turn), ("keys", turn), ("name_rows", repeat_first)])
def test_what_is_that_of_other_rows_is_refused(saved, tmp_path, name, forge):
    copied = shutil.copytree(saved, tmp_path / "pipeline")
    folder = copied / "sapbert_linker" / "retriever"
    file = folder / f"{name}.npy"
    np.save(file, forge(np.load(file)))
    sign_retriever(folder)
    with pytest.raises(OSError, match="tokens" if name == "keys" else name):
        spacy.load(copied)
