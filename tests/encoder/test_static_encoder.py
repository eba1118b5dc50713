"""A static encoder gives the vectors of a naive loop, from its folder, in any batch, order, thread and copy."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import make_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.shim import EncoderShim, build_static_encoder_v1, get_encoder
from training.encoders.quantisation import quantise, write_static_encoder

TOKENIZER = make_tokenizer().backend_tokenizer
SIZE = TOKENIZER.get_vocab_size()
TEXTS = ["heart attack", "cold", "", "common cold", "ж", "Cold", "x " * 60, "[PAD] cold", "co\nld", "cold ж"]
# Some are too large or too small for their squares to be float32.
NUMBERS = st.integers(-1000, 1000).map(lambda n: n / 8) | st.sampled_from([0.0, 2.0**90, -(2.0**90), 2.0**-80])
ZERO = [2, 4]  # of TEXTS: nothing but unknown tokens


def make_table(width=16, seed=0):
    return np.random.default_rng(seed).normal(size=(SIZE, width)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(static_folder):
    return static_folder


@pytest.fixture(scope="module")
def encoder(folder):
    return load(folder)


def load(folder, **requested):
    encoder = EncoderShim(requested)
    encoder.load(folder)
    return encoder


def encode_naively(source, text):
    total = np.zeros(source.rows.shape[1], dtype=np.float64)
    for token in TOKENIZER.encode(text, add_special_tokens=False).ids[: source.settings.max_length]:
        total += source.rows[token].astype(np.float64) * float(source.scales[token])
    norm = np.sqrt((total * total).sum())
    return total / norm if norm else total


def test_vectors_are_those_of_a_naive_loop(encoder):
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (len(TEXTS), 16) and encoder.width == 16
    np.testing.assert_allclose(vectors, [encode_naively(encoder.content, text) for text in TEXTS], atol=1e-6)
    assert np.flatnonzero(~vectors.any(axis=1)).tolist() == ZERO
    assert vectors[1].tolist() == vectors[5].tolist() == vectors[7].tolist() == vectors[9].tolist()


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.text(alphabet="abc xyzж\t", max_size=80), max_size=30),
    table=st_numpy.arrays(np.float32, (SIZE, 3), elements=NUMBERS, fill=st.just(1.0)),
    max_length=st.integers(3, 40),
)
def test_any_table_and_any_strings(texts, table, max_length):
    source = quantise(TOKENIZER, table, max_length=max_length)
    encoder = EncoderShim({})
    encoder.set_source(source)
    found = encoder.encode(texts)
    expected = np.array([encode_naively(source, text) for text in texts]).reshape(-1, 3)
    # Where large rows cancel each other, rounding decides the direction.
    sums = encoder.encode_unscaled(texts)
    largest = [
        max((abs(source.rows[token] * source.scales[token]).max() for token in ids), default=0)
        for ids in encoder.tokenize(texts)
    ]
    is_sure = np.linalg.norm(sums.astype(np.float64), axis=1) >= 1e-2 * np.array(largest)
    np.testing.assert_allclose(found[is_sure], expected[is_sure], atol=1e-4)
    alone = [encoder.encode([text])[0] for text in texts]
    np.testing.assert_array_equal(found, np.array(alone).reshape(-1, 3))
    np.testing.assert_array_equal(found[::-1], encoder.encode(texts[::-1]))


def test_quantised_rows_are_close_to_the_table(encoder):
    table = make_table()
    restored = encoder.content.rows * encoder.content.scales[:, None]
    np.testing.assert_allclose(restored[5:], table[5:], atol=np.abs(table).max() / 200)
    assert not restored[:5].any()  # special tokens
    assert np.abs(encoder.content.rows[5:]).max(axis=1).tolist() == [127] * (SIZE - 5)


def test_the_smallest_numbers_keep_their_signs():
    table = np.full((SIZE, 2), 180 * 2.0**-149, dtype=np.float32)
    table[:, 1] *= -1
    assert quantise(TOKENIZER, table).rows[9].tolist() == [127, -127]


def test_vectors_do_not_depend_on_batch_or_thread(encoder):
    texts = [f"{a} {b}" for a in TEXTS for b in TEXTS] * 30  # more than one block
    expected = encoder.encode(texts)
    assert (encoder.encode_tokens(encoder.tokenize(texts), batch_size=7) == expected).all()
    arrays = [np.array(ids, dtype="<i4") for ids in encoder.tokenize(texts)]
    assert (encoder.encode_tokens(arrays) == expected).all()
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(encoder.encode, [texts] * 8):
            assert (found == expected).all()


def test_equal_strings_are_tokenised_once(encoder, monkeypatch):
    seen = []
    tokenize = EncoderShim.tokenize
    monkeypatch.setattr(EncoderShim, "tokenize", lambda self, texts: seen.extend(texts) or tokenize(self, texts))
    encoder.encode(["cold", "cold", "heart", "cold"])
    assert seen == ["cold", "heart"]


def test_folder_is_read_as_it_was_written(folder, tmp_path, encoder):
    source = read_encoder(folder)
    assert isinstance(source.rows, np.memmap) and source.kind == "static"
    write_encoder(source, tmp_path / "again")
    again = load(tmp_path / "again")
    assert again.fingerprint == encoder.fingerprint == quantise(TOKENIZER, make_table()).fingerprint
    assert (again.encode(TEXTS) == encoder.encode(TEXTS)).all()
    names = ["model.safetensors", "modules.json", "name_encoder.json", "tokenizer.json"]
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == names


def test_fingerprint_covers_table_tokenizer_and_settings(folder, encoder):
    changed = make_table()
    changed[9, 3] += 1
    fingerprints = {
        encoder.fingerprint,
        quantise(TOKENIZER, changed).fingerprint,
        quantise(TOKENIZER, make_table(), max_length=9).fingerprint,
        quantise(TOKENIZER, 2 * make_table()).fingerprint,
    }
    assert len(fingerprints) == 4
    shorter = load(folder, max_length=9)
    assert (
        shorter.settings.max_length == 9
        and shorter.fingerprint == quantise(TOKENIZER, make_table(), max_length=9).fingerprint
    )
    assert len(shorter.tokenize(["x " * 60])[0]) == 9


@pytest.mark.parametrize(
    "copy_of",
    [
        lambda model: build_static_encoder_v1().from_bytes(model.to_bytes()),
        lambda model: pickle.loads(pickle.dumps(model)),
        copy.deepcopy,
        lambda model: model.copy(),
    ],
    ids=["bytes", "pickle", "deepcopy", "copy"],
)
def test_copies_give_equal_vectors(folder, copy_of):
    model = build_static_encoder_v1(max_length=7)
    get_encoder(model).load(folder)
    twin = copy_of(model)
    assert (twin.predict(TEXTS) == model.predict(TEXTS)).all()
    assert get_encoder(twin).fingerprint == get_encoder(model).fingerprint
    assert get_encoder(twin).settings.max_length == 7


def test_a_view_stays_the_same(folder, tmp_path, encoder):
    shim = load(folder)
    view = shim.fixed()
    write_static_encoder(tmp_path / "other", TOKENIZER, make_table(seed=1))
    shim.load(tmp_path / "other")
    assert view.fingerprint == encoder.fingerprint != shim.fingerprint
    assert (view.encode(TEXTS) == encoder.encode(TEXTS)).all()


def test_precision_and_device_change_nothing(folder, encoder):
    shim = EncoderShim({}, "bf16")
    shim.load(folder)
    shim.to_device("cpu", 0)
    assert str(shim.dtype) == "float32"
    assert (shim.encode(TEXTS) == encoder.encode(TEXTS)).all()


def test_unscaled_vectors_are_the_sums(encoder):
    sums = encoder.encode_unscaled(TEXTS)
    np.testing.assert_allclose(
        sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-9)[:, None], encoder.encode(TEXTS), atol=1e-6
    )
    assert np.linalg.norm(sums[0]) > 2


def test_nothing_known_is_not_informative(encoder):
    told = [encoder.is_informative(ids) for ids in encoder.tokenize(TEXTS)]
    assert np.flatnonzero(~np.array(told)).tolist() == ZERO
    assert encoder.encode([]).shape == encoder.encode_tokens([]).shape == (0, 16) and encoder.tokenize([]) == []


def test_sentence_transformers_gives_equal_vectors(folder, encoder):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        model = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
