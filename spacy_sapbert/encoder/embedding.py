"""The embedding layer `spacy-sapbert.NameEmbed.v1`, with which spaCy's own components, such as `ner`, see words as a
static encoder does: words that mean nearly the same have nearly the same vector. The table stays where it is
installed. A trained component holds the name and the fingerprint of the encoder, not a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import HashEmbed, Linear, Maxout, Model, chain, concatenate
from thinc.types import Floats2d, Ints1d, Ints2d

from ..ragged import make_offsets
from .settings import STATIC, find_installed
from .shim import EncoderShim

# DistinctWords whose vectors are remembered: 13 MB with vectors of 192 numbers.
KEPT = 1 << 14
# The first seed of the tables of attributes, each of which has another one.
SEED = 8
# What the layer remembers: the attributes, and the encoder.
ATTRS, NAME, FINGERPRINT = "attrs", "encoder", "fingerprint"
# A word in small letters, whose vector the encoder has.
WORD = "LOWER"


class DistinctWords(NamedTuple):
    """Distinct words of a batch of documents."""

    keys: Ints2d  # their attributes, as hashes; shape (words, attributes)
    vectors: Floats2d  # those of the encoder


def build_name_embed_v1(
    width: int, attrs: Sequence[str], rows: Sequence[int], encoder: str = "bundled"
) -> Model[list[Doc], list[Floats2d]]:
    """Build an embedding layer for spaCy's `Tok2Vec`, of hashed attributes, as those of `spacy.MultiHashEmbed.v2`, and
    of the vectors that a static encoder has for single words. Each distinct word of a batch is computed once.
    Registered as `spacy-sapbert.NameEmbed.v1`.

    width (int): The width of the tokens' vectors, and of the tables of attributes.
    attrs (Sequence[str]): The attributes of tokens, such as "NORM", "PREFIX", "SUFFIX" and "SHAPE".
    rows (Sequence[int]): The rows of each attribute's table.
    encoder (str): The name of an installed static encoder: "bundled", or "multilingual" of the package
        spacy-sapbert-multilingual. It has to be installed wherever the trained component runs.
    RETURNS (Model[list[Doc], list[Floats2d]]): Turns documents into vectors, shape (tokens, width) each.
    RAISES (ValueError): If there are not as many rows as attributes, or there is no such static encoder.
    """
    if len(rows) != len(attrs):
        raise ValueError(
            f"NameEmbed has {len(attrs)} attrs and {len(rows)} rows. Give each of them its number of rows."
        )
    words = get_word_vectors(encoder)
    tables: list[Model[Ints2d, Floats2d]] = [
        HashEmbed(width, n_rows, column=column, seed=SEED + column, dropout=0.0) for column, n_rows in enumerate(rows)
    ]
    of_attributes: list[Model[DistinctWords, Floats2d]] = [chain(_take("keys"), table) for table in tables]
    of_names: Model[DistinctWords, Floats2d] = chain(_take("vectors"), Linear(width, words.width))
    mixed: Model[Floats2d, Floats2d] = Maxout(width, width * (len(attrs) + 1), nP=3, dropout=0.0, normalize=True)
    of_words: Model[DistinctWords, Floats2d] = chain(concatenate(*of_attributes, of_names), mixed)
    remembered = {ATTRS: [*attrs], NAME: encoder, FINGERPRINT: words.fingerprint}
    return Model("name_embed", _forward, init=_initialize, layers=[of_words], attrs=remembered, dims={"nO": width})


def _take(part: str) -> Model[DistinctWords, Any]:
    """Make a layer that takes one part of words. There is nothing to train before it."""
    return Model(part, lambda model, words, is_train: (getattr(words, part), lambda d_part: words))


def _initialize(model: Model[list[Doc], list[Floats2d]], X: Any = None, Y: Any = None) -> None:
    model.layers[0].initialize()


def _forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    encoder = get_word_vectors(model.attrs[NAME])
    if encoder.fingerprint != model.attrs[FINGERPRINT]:
        raise ValueError(
            f"This component was trained with vectors of another encoder ({model.attrs[FINGERPRINT][:8]}...) than the "
            f"'{model.attrs[NAME]}' that is installed ({encoder.fingerprint[:8]}...). Install the version of "
            "spacy-sapbert that it was trained with, or train it again."
        )
    ops, bounds = model.ops, make_offsets([*map(len, docs)]).tolist()
    attributes = [*model.attrs[ATTRS], WORD]
    tokens = np.concatenate([np.zeros((0, len(attributes)), np.uint64), *(doc.to_array(attributes) for doc in docs)])
    # The same hashes have the same sum, and others hardly ever.
    factors = np.arange(1, 2 * len(attributes), 2, dtype=np.uint64)
    _, first, place = np.unique(tokens @ factors, return_index=True, return_inverse=True)
    words = tokens[first]
    vectors = encoder.look_up(words[:, -1], docs[0].vocab) if docs else np.zeros((0, encoder.width), np.float32)
    places = ops.asarray1i(cast(Ints1d, place))
    read = DistinctWords(
        ops.asarray2i(cast(Ints2d, words[:, :-1]), dtype="uint64"), ops.asarray2f(cast(Floats2d, vectors))
    )
    of_words, backprop_words = model.layers[0](read, is_train)
    of_tokens = of_words[places]

    def backprop(d_docs: list[Floats2d]) -> list[Doc]:
        d_words = ops.alloc2f(*of_words.shape)
        ops.scatter_add(d_words, places, ops.xp.concatenate(d_docs))
        backprop_words(d_words)
        return docs

    return [of_tokens[start:end] for start, end in pairwise(bounds)], backprop


class WordVectors:
    """The vectors that a static encoder has for single words in small letters. Threads can share them."""

    def __init__(self, encoder: EncoderShim) -> None:
        self._encoder = encoder
        self.fingerprint = encoder.fingerprint
        self.width = encoder.width
        self._clear()

    def _clear(self) -> tuple[dict[int, int], np.ndarray]:
        # One assignment, so that no thread sees rows of one table with the numbers of another.
        self._kept: tuple[dict[int, int], np.ndarray] = {}, np.zeros((0, self.width), dtype=np.float32)
        return self._kept

    def look_up(self, hashes: np.ndarray, vocab: Vocab) -> np.ndarray:
        """Look up words.

        hashes (ndarray): The hashes of the words in small letters, uint64.
        vocab (Vocab): Knows the words.
        RETURNS (ndarray): Shape (words, width), float32. DistinctWords without a known token have zeros.
        """
        words = hashes.tolist()
        rows, vectors = self._kept
        new = [word for word in dict.fromkeys(words) if word not in rows]
        if len(rows) + len(new) > KEPT:
            rows, vectors = self._clear()
            new = [*dict.fromkeys(words)]
        if new:
            vectors = np.concatenate([vectors, self._encoder.encode([vocab.strings[word] for word in new])])
            rows = {**rows, **dict(zip(new, range(len(rows), len(vectors)), strict=True))}
            self._kept = rows, vectors
        looked_up: np.ndarray = vectors[[rows[word] for word in words]]
        return looked_up


@cache
def get_word_vectors(encoder: str) -> WordVectors:
    """Read an installed encoder once in a process: its table is large."""
    if find_installed(encoder) is None:
        raise ValueError(
            f"There is no installed encoder '{encoder}' whose vectors NameEmbed could use. Take 'bundled', or "
            "'multilingual' after installing spacy-sapbert-multilingual."
        )
    shim = EncoderShim({}, kind=STATIC)
    shim.load(encoder)
    return WordVectors(shim)
