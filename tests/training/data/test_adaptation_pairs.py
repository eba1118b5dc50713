"""Mentions in a script that the encoder's vocabulary does not have are refused, and no others."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from spacy_sapbert.encoder.shim import EncoderShim
from training.data.adaptation_pairs import check_readable
from training.encoders.export import write_static_encoder

# Words of English, and the letters of English and Russian, as in the vocabulary of BERT.
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *"абвгдежзийклмнопрстуфхцчшщъыьэюя"]
WORDS = ["heart", "pain", "liver", "cancer"]
NAMES = ["heart pain", "liver cancer", "pain"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    pieces = ["[UNK]", *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    folder = tmp_path_factory.mktemp("letters")
    write_static_encoder(folder, tokenizer, np.random.default_rng(0).normal(size=(len(pieces), 4)))
    shim = EncoderShim({})
    shim.load(folder)
    return shim


@pytest.mark.parametrize(
    "mentions",
    [
        ["боль в сердце", "рак печени"],  # single letters
        ["ปวดหัวใจ", "heart pain", "มะเร็งตับ"],  # unknown tokens
    ],
)
def test_other_scripts_are_refused(encoder, mentions):
    with pytest.raises(ValueError, match="E851.*tokens that its vocabulary does not know"):
        check_readable(mentions, NAMES, encoder, "train.spacy")


def test_other_spellings_and_some_unknown_words_are_read(encoder):
    check_readable(["heart pains", "painful heart", "มะเร็งตับ"], NAMES, encoder, "train.spacy")
    # Names of the same script fall apart in the same way.
    check_readable(["боль в сердце"], ["рак печени"], encoder, "train.spacy")
