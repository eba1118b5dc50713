"""Vectors against a loop over single strings with transformers, and against sentence-transformers."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import load_encoder, make_encoder_folder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.transformer import resolve_precision

TEXTS = [
    "heart attack",
    "Common COLD",
    "cold",
    "",
    " ",
    "a",
    "alpha-1 antitrypsin deficiency (disorder), type 2, with a name much longer than twenty-five tokens",
    "naïve Café",
    "心筋梗塞",
    "x 😀 y",
    "cold",
    "tab\tand\nnewline\u00a0\u200b",
]
RELAXED = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
any_text = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def naive_vectors(
    folder, texts, pooling="cls", max_length=25, lower_case=False, pad_to_length=None, attention_mask=True
):
    """Encode one string at a time, from the definitions of the settings."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in texts:
        text = text.lower() if lower_case else text
        ids = tokenizer(text, truncation=True, max_length=max_length)["input_ids"]
        real = len(ids)
        length = pad_to_length or (max_length if pooling == "mean_all_tok" else real)
        ids = ids + [tokenizer.pad_token_id] * (length - real)
        mask = [1] * real + [0 if attention_mask else 1] * (length - real)
        with torch.no_grad():
            output = model(input_ids=torch.tensor([ids]), attention_mask=torch.tensor([mask]))
        states = output.last_hidden_state[0].numpy()
        vector = {
            "cls": states[0],
            "mean": states[:real].mean(axis=0),
            "mean_all_tok": states.mean(axis=0),
            "pooler": output.pooler_output[0].numpy(),
        }[pooling]
        vectors.append(vector / np.linalg.norm(vector))
    return np.stack(vectors)


@pytest.mark.parametrize(
    "requested",
    [
        {},
        {"pooling": "mean_all_tok"},
        {"pooling": "pooler"},
        {"pooling": "mean", "max_length": 3},
        {"pooling": "mean_all_tok", "max_length": 7, "pad_to_length": 11},
        {"pooling": "cls", "pad_to_length": 32, "attention_mask": False},
        {"pooling": "pooler", "max_length": 32, "pad_to_length": 32, "attention_mask": False},
        {"pooling": "mean", "lower_case": True},
    ],
    ids=str,
)
def test_vectors_equal_a_naive_loop(encoder_folder, tmp_path, requested):
    expected = naive_vectors(encoder_folder, TEXTS, **requested)
    encoder = load_encoder(encoder_folder, **requested)
    for batch_size in (1, 4, 256):
        vectors = encoder.encode(TEXTS, batch_size=batch_size)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    write_encoder(encoder.source, tmp_path)
    np.testing.assert_allclose(load_encoder(tmp_path).encode(TEXTS), expected, atol=1e-5)
    # AutoModel and AutoTokenizer read the folder as well (the pooler is only there if it is needed).
    np.testing.assert_allclose(naive_vectors(tmp_path, TEXTS, **requested), expected, atol=1e-5)


@pytest.mark.parametrize("requested", [{}, {"pooling": "mean"}, {"pooling": "mean", "max_length": 6}], ids=str)
def test_saved_folder_gives_the_same_vectors_in_sentence_transformers(encoder_folder, tmp_path, requested):
    library = pytest.importorskip("sentence_transformers")
    encoder = load_encoder(encoder_folder, **requested)
    write_encoder(encoder.source, tmp_path)
    reference = library.SentenceTransformer(str(tmp_path), device="cpu")
    texts = [text for text in TEXTS if text.strip()]
    np.testing.assert_allclose(encoder.encode(texts), reference.encode(texts), atol=1e-5)


def test_lower_case_is_told_to_sentence_transformers(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    folder = make_encoder_folder(tmp_path / "a")
    config = folder / "tokenizer.json"
    config.write_text(config.read_text().replace('"lowercase": true', '"lowercase": false'))
    encoder = load_encoder(folder, lower_case=True)
    assert not np.allclose(load_encoder(folder).encode(["COLD"]), encoder.encode(["COLD"]), atol=1e-3)
    write_encoder(encoder.source, tmp_path / "b")
    reference = library.SentenceTransformer(str(tmp_path / "b"), device="cpu")
    np.testing.assert_allclose(encoder.encode(["COLD", "cold"]), reference.encode(["COLD", "cold"]), atol=1e-5)
    np.testing.assert_allclose(load_encoder(tmp_path / "b").encode(["COLD"]), encoder.encode(["cold"]), atol=1e-6)


@RELAXED
@given(st.lists(any_text, max_size=12), st.integers(1, 5), st.randoms(use_true_random=False))
def test_vector_depends_on_its_string_only(encoder, texts, batch_size, rng):
    vectors = encoder.encode(texts, batch_size=batch_size)
    assert vectors.shape == (len(texts), 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-5)
    order = list(range(len(texts))) * 2
    rng.shuffle(order)
    shuffled = encoder.encode([texts[i] for i in order])
    np.testing.assert_allclose(shuffled, vectors[order], atol=1e-5)
    for i in range(len(texts)):  # duplicates are bit-equal
        twins = shuffled[[place for place, row in enumerate(order) if texts[row] == texts[i]]]
        assert (twins == twins[0]).all()


def test_bf16_is_close_to_fp32_and_not_equal(encoder_folder, encoder, tmp_path):
    texts = [text for text in TEXTS if text.strip()] + [f"name {i} of a disease" for i in range(30)]
    reader = load_encoder(encoder_folder, precision="bf16")
    rounded = reader.encode(texts)
    exact = encoder.encode(texts)
    cosines = (rounded * exact).sum(axis=1)
    # Far larger weights than a real encoder's; a wrong layer or pooling would be far below this.
    assert cosines.min() >= 0.999 and cosines.mean() >= 0.9995
    assert not (rounded == exact).all()
    np.testing.assert_allclose(np.linalg.norm(rounded, axis=1), 1.0, atol=1e-5)
    # The weights and the fingerprint stay as read.
    assert reader.fingerprint == encoder.fingerprint
    write_encoder(reader.source, tmp_path)
    assert (load_encoder(tmp_path).encode(TEXTS) == encoder.encode(TEXTS)).all()


def test_weights_stored_as_bf16_are_computed_in_the_precision_asked_for(encoder_folder, tmp_path):
    source = read_encoder(encoder_folder)
    source.transformer.to(torch.bfloat16)
    source.transformer.save_pretrained(tmp_path)
    source.tokenizer.save_pretrained(tmp_path)
    reference = AutoModel.from_pretrained(tmp_path, torch_dtype=torch.float32)
    assert (
        reference.embeddings.word_embeddings.weight.bfloat16().float() == reference.embeddings.word_embeddings.weight
    ).all()
    encoder = load_encoder(tmp_path)
    assert encoder.source.transformer.dtype == torch.bfloat16
    np.testing.assert_allclose(encoder.encode(TEXTS), naive_vectors(tmp_path, TEXTS), atol=1e-5)


def test_auto_precision_follows_the_processor(monkeypatch):
    cpu = torch.device("cpu")
    for has_bf16, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda value=has_bf16: value)
        monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: False)
        assert resolve_precision("auto", cpu) == expected
    assert resolve_precision("auto", torch.device("meta")) == torch.float32


def test_threads_get_bit_equal_vectors(encoder):
    rng = random.Random(0)
    calls = [[rng.choice(TEXTS) for _ in range(rng.randrange(1, 6))] for _ in range(50)]
    expected = [encoder.encode(texts) for texts in calls]

    def work(seed):
        order = list(range(50))
        random.Random(seed).shuffle(order)
        return all(np.array_equal(encoder.encode(calls[i]), expected[i]) for i in order)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
