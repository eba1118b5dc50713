"""Tokenizers and architectures other than BERT's."""

import shutil

import numpy as np
import pytest
import srsly
import torch
from conftest import load_encoder
from test_transformer import naive_vectors
from tokenizers import ByteLevelBPETokenizer, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    RobertaConfig,
    RobertaModel,
    RobertaTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizerFast,
)

from spacy_sapbert.encoder.folder import write_encoder

VOCABULARY = "sentencepiece.bpe.model"
TEXTS = ["heart attack", "Heart Attack", "", "infarctus du myocarde", "心筋梗塞", "a" * 80, "😀 cold"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 42,  # 40 tokens: positions start behind the padding id
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "type_vocab_size": 1,
}


def save_random(transformer, path):
    for parameter in transformer.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    transformer.save_pretrained(path)


def make_roberta(path):
    torch.manual_seed(0)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(TEXTS * 3, vocab_size=300, special_tokens=SPECIAL)
    path.mkdir()
    bpe.save_model(str(path))
    tokenizer = RobertaTokenizerFast(str(path / "vocab.json"), str(path / "merges.txt"))
    tokenizer.save_pretrained(path)
    save_random(RobertaModel(RobertaConfig(vocab_size=len(tokenizer), **SIZES)), path)
    return path


def make_xlm_r(path):
    torch.manual_seed(0)
    pieces = [(piece, 0.0) for piece in SPECIAL[:4]]
    pieces += [("▁", -2.0), ("▁heart", -3.0), ("▁du", -4.0), ("▁in", -4.0)]
    pieces += [(letter, -5.0) for letter in "abcdefghijklmnopqrstuvwxyzHA心筋"] + [("<mask>", 0.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    tokens = {f"{name}_token": token for name, token in names.items()}
    tokenizer = XLMRobertaTokenizerFast(tokenizer_object=backend, **tokens)
    tokenizer.save_pretrained(path)
    assert not list(path.glob("*.model"))  # tokenizer.json only
    save_random(XLMRobertaModel(XLMRobertaConfig(vocab_size=len(pieces), **SIZES)), path)
    return path


@pytest.fixture(scope="module", params=[make_roberta, make_xlm_r])
def folder(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("architecture") / "encoder")


@pytest.mark.parametrize("requested", [{"pooling": "mean", "max_length": 8}, {"pooling": "mean_all_tok"}], ids=str)
def test_vectors_equal_a_naive_loop_before_and_after_saving(folder, tmp_path, requested):
    expected = naive_vectors(folder, TEXTS, **requested)
    encoder = load_encoder(folder, **requested)
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    write_encoder(encoder.source, tmp_path / "saved")
    again = load_encoder(tmp_path / "saved")
    assert (again.encode(TEXTS) == vectors).all() and again.fingerprint == encoder.fingerprint
    np.testing.assert_allclose(naive_vectors(tmp_path / "saved", TEXTS, **requested), expected, atol=1e-5)
    twin = load_encoder(folder).from_bytes(encoder.to_bytes())
    assert (twin.encode(TEXTS) == vectors).all()


def test_the_vocabulary_of_slow_tokenizers_outlives_the_folder_it_came_from(tmp_path):
    folder = make_xlm_r(tmp_path / "xlm-r")
    assert load_encoder(folder).source.vocabulary is None
    (folder / VOCABULARY).write_bytes(b"\x0a\x00pieces")
    shutil.copytree(folder, tmp_path / "copy")
    encoder = load_encoder(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy")
    assert encoder.fingerprint == load_encoder(folder).fingerprint
    for number in range(2):
        # What came out of bytes was read from a temporary folder.
        encoder = load_encoder(folder).from_bytes(encoder.to_bytes())
        write_encoder(encoder.source, tmp_path / f"saved-{number}")
        assert (tmp_path / f"saved-{number}" / VOCABULARY).read_bytes() == b"\x0a\x00pieces"
        assert VOCABULARY in srsly.read_json(tmp_path / f"saved-{number}" / "name_encoder.json")["files"]
