"""Which concepts are grouped with a concept."""

import numpy as np
import polars as pl
import pytest
import torch
from fake_device import SECOND, FakeDevice

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.index import exact_search
from spacy_sapbert.terminology import TerminologyBuilder
from training.data.pairs import PairData
from training.data.relatedness import Relatedness
from training.engine.nearest import search_on_device
from training.methods.pairs import find_neighbours


@pytest.fixture
def encoder(encoder_folder):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    return encoder


def make_data(names, n):
    ids = pl.Series([str(number) for number in range(n)])
    return PairData(pl.Series(names), np.arange(n), np.arange(n, 2 * n), np.arange(n), ids, "ab" * 32)


def test_neighbours_are_the_nearest_other_concepts_and_are_kept(encoder, tmp_path):
    rng = np.random.default_rng(1)
    words = "acute chronic heart liver kidney failure pain fever".split()
    names = list(dict.fromkeys(" ".join(rng.choice(words, size=3)) for _ in range(80)))[:60]
    data = make_data(names, 30)

    def find(n, file="neighbours.npy", encode=lambda strings: encoder.encode(strings.to_list())):
        return find_neighbours(data, encode, n, tmp_path / file, fingerprint=encoder.fingerprint)

    found = find(4)
    similarity = encoder.encode(names[:30]) @ encoder.encode(names[:30]).T
    np.fill_diagonal(similarity, -1)
    for row, neighbours in enumerate(found.tolist()):
        assert row not in neighbours
        assert sorted(similarity[row, neighbours]) == pytest.approx(sorted(similarity[row])[-4:], abs=1e-6)
    # What is kept needs no encoder.
    assert find(3, encode=None).tolist() == found[:, :3].tolist()
    assert find(99, "other.npy").shape == (30, 29)
    # What is damaged is found again.
    for damage in (
        b"",
        (tmp_path / "neighbours.npy").read_bytes()[:-8],
        (tmp_path / "other.npy").read_bytes()[:128] + b"\xff" * 6959 + b"\x80",
    ):
        (tmp_path / "neighbours.npy").write_bytes(damage)
        assert find(4).tolist() == found.tolist()


def test_related_concepts_are_no_neighbours(encoder, tmp_path):
    rng = np.random.default_rng(2)
    words = "brain spleen heart liver kidney failure pain fever".split()
    names = list(dict.fromkeys(" ".join(rng.choice(words, size=3)) for _ in range(80)))[:60]
    builder = TerminologyBuilder()
    for number in range(30):
        # Each concept below its half, so that it has many relatives.
        parents = [str(number // 2)] if number else []
        builder.add_concept(str(number), parents=parents)
        for name in (names[number], names[number + 30]):
            builder.add_name(str(number), name)
    terminology = builder.build()
    related = Relatedness(terminology)
    data = make_data(names, 30)
    encode = lambda strings: encoder.encode(strings.to_list())  # noqa: E731
    found = find_neighbours(
        data, encode, 5, tmp_path / "all.npy", fingerprint=encoder.fingerprint, terminology=terminology
    )
    similarity = encoder.encode(names[:30]) @ encoder.encode(names[:30]).T
    n_left_out = 0
    for row, neighbours in enumerate(found.tolist()):
        order = [other for other in np.argsort(-similarity[row], kind="stable").tolist() if other != row][:15]
        allowed = [other for other in order if not related.is_related(str(row), str(other))]
        n_left_out += len(order) - len(allowed)
        kept = [other for other in neighbours if other >= 0]
        assert sorted(similarity[row, kept]) == pytest.approx(sorted(similarity[row, allowed[:5]]), abs=1e-6)
        assert neighbours == kept + [-1] * (5 - len(kept))
    assert n_left_out > 30


def test_opposites_take_half_of_the_places(encoder, tmp_path):
    words = "heart liver kidney lung skin bone".split()
    names = [f"{side} {word} pain" for word in words for side in ("left", "right")]
    synonyms = [f"ache of the {name.removesuffix(' pain')}" for name in names]
    builder = TerminologyBuilder()
    for number, pair in enumerate(zip(names, synonyms, strict=True)):
        builder.add_concept(str(number))
        for name in pair:
            builder.add_name(str(number), name)
    data = make_data([*names, *synonyms], 12)
    encode = lambda strings: encoder.encode(strings.to_list())  # noqa: E731
    terminology = builder.build()
    for n, n_opposites in ((1, 0), (4, 2), (5, 2)):
        found = find_neighbours(
            data, encode, n, tmp_path / f"{n}.npy", fingerprint=encoder.fingerprint, terminology=terminology
        )
        opposites = np.arange(12) ^ 1
        assert (found[:, :n_opposites] == opposites[:, None]).all()
        assert (found >= 0).all() and (found != np.arange(12)[:, None]).all()


def unit_vectors(rows, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [1, 700])
def test_search_on_a_device_finds_what_exact_search_finds(monkeypatch, k):
    monkeypatch.setattr("training.engine.nearest.ROW_BLOCK", 100)
    vectors, queries = unit_vectors(700), unit_vectors(600, seed=1)
    expected = exact_search(vectors, queries, k)
    with FakeDevice() as fake:
        rows, scores = search_on_device(vectors, queries, k, torch.device(SECOND))
    assert {"topk", "cat", "gather"} <= fake.computed
    np.testing.assert_allclose(scores, expected[1], atol=1e-6)
    assert (rows == expected[0]).mean() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_finds_the_same_rows():
    vectors, queries = unit_vectors(2000), unit_vectors(600, seed=1)
    expected, found = exact_search(vectors, queries, 5), search_on_device(vectors, queries, 5, torch.device("cuda"))
    assert (found[0] == expected[0]).all() and np.allclose(found[1], expected[1], atol=1e-5)
