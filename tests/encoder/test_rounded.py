"""Transformers with weights in 8 bits: what rounding keeps, who reads the folder, and what is refused."""

from functools import partial

import numpy as np
import pytest
import torch
from command_line import run_command
from conftest import load_encoder, make_encoder_folder
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.rounded import ROUNDED_FILE, SCALES, pack_weights, unpack_weights
from spacy_sapbert.encoder.settings import ENCODER_FILE
from spacy_sapbert.files import write_manifest
from training.encoders.export import finish_encoder

NAMES = ["heart attack", "Heart Attack", "cold", "infarctus du myocarde", "", "type 2 diabetes mellitus", "a" * 80]
MATRIX = "encoder.layer.0.attention.self.query.weight"
NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    path = make_encoder_folder(folder / "base")
    run_command("export", path, path, folder / "plain", "--dtype", "fp32")
    return folder / "plain"


@pytest.fixture
def rounded(plain, tmp_path):
    run_command("export", plain, tmp_path / "rounded", "--dtype", "int8")
    return tmp_path / "rounded"


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=NUMBERS))
def test_rows_are_near_and_rounding_them_again_changes_nothing(matrix):
    packed = pack_weights({"a": torch.from_numpy(matrix)})
    once = unpack_weights(packed)["a"]
    assert packed["a"].dtype == torch.int8 and packed["a" + SCALES].shape == matrix.shape[:1]
    largest = np.abs(matrix).max(axis=1, keepdims=True).astype(np.float64)
    assert (np.abs(once.numpy().astype(np.float64) - matrix) <= largest / 127 * 0.51 + 1e-40).all()
    again = pack_weights({"a": once})
    assert all(torch.equal(again[name], packed[name]) for name in packed)


def test_vectors_and_fingerprint_last_and_the_folder_is_smaller(plain, rounded, tmp_path):
    before = load_encoder(plain)
    encoder = load_encoder(rounded)
    vectors = encoder.encode(NAMES)
    cosines = (before.encode(NAMES) * vectors).sum(axis=1)
    # 32 numbers have room for more rounding than the hundreds of a real encoder.
    assert cosines.mean() > 0.998 and cosines.min() > 0.99 and encoder.fingerprint != before.fingerprint
    assert (rounded / ROUNDED_FILE).stat().st_size < 0.35 * (plain / "model.safetensors").stat().st_size
    twin = load_encoder(plain).from_bytes(encoder.to_bytes())
    saved = tmp_path / "saved"
    write_encoder(encoder.source, saved)
    assert (saved / ROUNDED_FILE).read_bytes() == (rounded / ROUNDED_FILE).read_bytes()
    for one in (twin, load_encoder(saved)):
        assert one.fingerprint == encoder.fingerprint and (one.encode(NAMES) == vectors).all()


def test_other_libraries_refuse_it_and_read_it_once_it_is_exported(rounded, tmp_path):
    for read in (AutoModel.from_pretrained, partial(SentenceTransformer, device="cpu")):
        with pytest.raises(OSError, match="no file named .*model.safetensors"):
            read(str(rounded))
    run_command("export", rounded, tmp_path / "usual", "--dtype", "fp32")
    vectors = load_encoder(rounded).encode(NAMES)
    usual = load_encoder(tmp_path / "usual")
    assert (usual.encode(NAMES) == vectors).all() and usual.fingerprint == load_encoder(rounded).fingerprint
    assert torch.equal(
        AutoModel.from_pretrained(tmp_path / "usual").state_dict()[MATRIX],
        load_encoder(rounded).source.transformer.state_dict()[MATRIX],
    )
    card = (tmp_path / "usual" / "README.md").read_text(encoding="utf8")
    assert "stored as fp32" in card and "int8" not in card and usual.fingerprint in card


def test_an_encoder_with_a_bottleneck_adapter_is_refused(plain):
    encoder = load_encoder(plain)
    encoder.source.transformer.adapters_config = {}
    with pytest.raises(ValueError, match="bottleneck adapter can't be stored in 8 bits"):
        finish_encoder(encoder.source.transformer, encoder, base_share=0.0, dtype="int8")


def forge(folder):
    """Write the manifest again, with the hashes of the files as they are."""
    data = {"settings": {"pooling": "cls"}, "weights": "int8"}
    write_manifest(folder / ENCODER_FILE, 1, data)


def set_rows(weights, row, value):
    weights[MATRIX][row] = value


def set_scale(weights, value):
    weights[MATRIX + SCALES][0] = value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda weights: weights.pop(MATRIX), "are scales of a matrix that is not there"),
        (lambda weights: weights.pop(MATRIX + SCALES), "no scales, not a float32 scale"),
        (lambda weights: weights.update({MATRIX + SCALES: torch.ones(3)}), "not a float32 scale for each row"),
        (lambda weights: weights.update({MATRIX + SCALES: torch.ones(32).half()}), "not a float32 scale"),
        (lambda weights: weights.update({MATRIX: torch.ones(32, 32)}), "a matrix of torch.float32"),
        (lambda weights: weights.update({"a": torch.zeros(2, 2)}), "a matrix of torch.float32"),
        (lambda weights: weights.update({"a": torch.zeros(2)}), "its architecture does not have"),
        (lambda weights: weights.update({MATRIX: weights[MATRIX][:, :8].contiguous()}), "size mismatch|rounding"),
        (lambda weights: weights["encoder.layer.0.output.dense.bias"].fill_(torch.nan), "is not finite"),
        (partial(set_rows, row=0, value=-128), "don't come from rounding"),
        (partial(set_rows, row=0, value=3), "don't come from rounding"),
        (partial(set_scale, value=torch.inf), "don't come from rounding"),
        (partial(set_scale, value=torch.nan), "don't come from rounding"),
        (partial(set_scale, value=-0.5), "don't come from rounding"),
        (partial(set_scale, value=1 / 3), "don't come from rounding"),
        (lambda weights: [weights.pop(key) for key in (MATRIX, MATRIX + SCALES)], "lacks 1 weights"),
    ],
)
def test_forged_weights_are_refused(rounded, change, reason):
    weights = load_file(rounded / ROUNDED_FILE)
    change(weights)
    save_file(weights, rounded / ROUNDED_FILE)
    forge(rounded)
    with pytest.raises(OSError, match=reason):
        read_encoder(rounded)


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_missing_and_damaged_files_are_refused(rounded, content):
    (rounded / ROUNDED_FILE).unlink()
    if content is not None:
        (rounded / ROUNDED_FILE).write_bytes(content)
        forge(rounded)
    with pytest.raises(OSError, match="[Cc]an't read|does not exist|missing"):
        read_encoder(rounded)
