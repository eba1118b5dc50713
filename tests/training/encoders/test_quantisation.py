"""Making a static encoder of a table: 8-bit rows, and tables that can't be quantised."""

import numpy as np
import pytest
from conftest import make_static, make_wordpieces
from tokenizers import Tokenizer, models, pre_tokenizers

from spacy_sapbert.columns import TextColumn
from spacy_sapbert.encoder.shim import EncoderShim
from training.encoders.export import quantise, write_static_encoder

TOKENIZER = make_wordpieces()
SIZE = TOKENIZER.get_vocab_size()


def test_rows_are_close_to_the_table_and_the_smallest_numbers_keep_their_signs():
    table = np.random.default_rng(0).normal(size=(SIZE, 16)).astype(np.float32)
    source = quantise(TOKENIZER, table)
    assert source.fingerprint == make_static(table).fingerprint
    restored = source.rows * source.scales[:, None]
    np.testing.assert_allclose(restored[5:], table[5:], atol=np.abs(table).max() / 200)
    assert not restored[:5].any()  # special tokens
    assert np.abs(source.rows[5:]).max(axis=1).tolist() == [127] * (SIZE - 5)
    table = np.full((SIZE, 2), 180 * 2.0**-149, dtype=np.float32)
    table[:, 1] *= -1
    assert quantise(TOKENIZER, table).rows[9].tolist() == [127, -127]


@pytest.mark.parametrize(
    "table, reason",
    [
        (np.ones((SIZE - 1, 4)), f"has {SIZE - 1} rows, but its tokenizer {SIZE} tokens"),
        (np.ones(SIZE), "shape"),
        (np.full((SIZE, 4), np.nan), "not finite"),
        (np.full((SIZE, 4), 1e39), "not finite"),
        (np.zeros((SIZE, 4)), "zero"),
        (np.zeros((SIZE, 0)), "zero"),
    ],
)
def test_tables_that_cannot_be_quantised_are_refused(tmp_path, table, reason):
    with pytest.raises(ValueError, match=f"{reason}"):
        write_static_encoder(tmp_path / "encoder", TOKENIZER, table)
    assert not (tmp_path / "encoder").exists()
    with pytest.raises(ValueError, match="max_length"):
        quantise(TOKENIZER, np.ones((SIZE, 4)), max_length=0)


def test_an_unknown_token_that_is_not_special_does_not_count():
    backend = Tokenizer(models.WordLevel({"odd": 0, "cold": 1, "heart": 2}, unk_token="odd"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    encoder = EncoderShim({})
    encoder.set_source(quantise(backend, np.ones((3, 2))))
    told = encoder.find_informative(encoder.tokenize_names(TextColumn.make(["fever", "cold", "fever cold"]))).tolist()
    assert told == [False, True, True]
    with pytest.raises(ValueError, match="gaps"):
        quantise(Tokenizer(models.WordLevel({"odd": 0, "cold": 2}, unk_token="odd")), np.ones((2, 2)))
