"""The embedding layer `spacy-sapbert.NameEmbed.v1`, with which spaCy's own components, such as `ner`, see words as a
static encoder does: words that mean nearly the same have nearly the same vector. The table stays where it is
installed. A trained component holds the name and the fingerprint of the encoder, not a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
from spacy.ml.featureextractor import FeatureExtractor
from spacy.tokens import Doc
from thinc.api import HashEmbed, Linear, Maxout, Model, chain, concatenate, list2ragged, ragged2list, with_array
from thinc.types import Floats2d, Ragged

from .settings import STATIC, find_installed
from .shim import EncoderShim

# Words whose vectors are remembered: 19 MB with vectors of 288 numbers.
KEPT = 1 << 14
# The first seed of the tables of attributes, each of which has another one.
SEED = 8
# What a node of the model remembers of the encoder.
NAME, FINGERPRINT = "encoder", "fingerprint"


def build_name_embed_v1(
    width: int, attrs: Sequence[str], rows: Sequence[int], encoder: str = "bundled"
) -> Model[list[Doc], list[Floats2d]]:
    """Build an embedding layer for spaCy's `Tok2Vec`, of hashed attributes, as those of `spacy.MultiHashEmbed.v2`, and
    of the vectors that a static encoder has for single words. Registered as `spacy-sapbert.NameEmbed.v1`.

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
            f"NameEmbed has {len(attrs)} attrs and {len(rows)} rows. Give each attribute its number of rows."
        )
    tables: list[Model[Any, Floats2d]] = [
        HashEmbed(width, n_rows, column=column, seed=SEED + column, dropout=0.0) for column, n_rows in enumerate(rows)
    ]
    of_attributes: Model[list[Doc], Ragged] = chain(
        FeatureExtractor(list(attrs)), list2ragged(), with_array(concatenate(*tables))
    )
    of_names: Model[list[Doc], Ragged] = chain(
        make_word_vectors(encoder), with_array(Linear(width, read_words(encoder).width))
    )
    mixed = Maxout(width, width * (len(tables) + 1), nP=3, dropout=0.0, normalize=True)
    model: Model[list[Doc], list[Floats2d]] = chain(
        concatenate(of_attributes, of_names), with_array(mixed), ragged2list()
    )
    return model


def make_word_vectors(encoder: str) -> Model[list[Doc], Ragged]:
    """Make the layer that looks up the vectors of words. It has nothing to train."""
    attrs = {NAME: encoder, FINGERPRINT: read_words(encoder).fingerprint}
    return Model("word_vectors", _forward, attrs=attrs)


def _forward(
    model: Model[list[Doc], Ragged], docs: list[Doc], is_train: bool
) -> tuple[Ragged, Callable[[Ragged], list[Doc]]]:
    words = read_words(model.attrs[NAME])
    if words.fingerprint != model.attrs[FINGERPRINT]:
        raise ValueError(
            f"This component was trained with vectors of another encoder ({model.attrs[FINGERPRINT][:8]}...) than the "
            f"'{model.attrs[NAME]}' that is installed ({words.fingerprint[:8]}...). Install the version of "
            "spacy-sapbert that it was trained with, or train it again."
        )
    lengths = model.ops.asarray1i([len(doc) for doc in docs])
    return Ragged(model.ops.asarray2f(cast(Floats2d, words.look_up(docs))), lengths), lambda d_vectors: []


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

    def look_up(self, docs: Sequence[Doc]) -> np.ndarray:
        """Look up the words of documents.

        docs (Sequence[Doc]): The documents.
        RETURNS (ndarray): Shape (tokens, width), float32. Words without a known token have zeros.
        """
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *(doc.to_array("LOWER") for doc in docs)])
        distinct, places = np.unique(hashes, return_inverse=True)
        words = distinct.tolist()
        rows, vectors = self._kept
        new = [word for word in words if word not in rows]
        if len(rows) + len(new) > KEPT:
            rows, vectors = self._clear()
            new = words
        if new:
            strings = docs[0].vocab.strings
            vectors = np.concatenate([vectors, self._encoder.encode([strings[word] for word in new])])
            rows = {**rows, **dict(zip(new, range(len(rows), len(vectors)), strict=True))}
            self._kept = rows, vectors
        of_words = np.array([rows[word] for word in words], dtype=np.int64)
        looked_up: np.ndarray = vectors[of_words[places]]
        return looked_up


@cache
def read_words(encoder: str) -> WordVectors:
    """Read an installed encoder once in a process: its table is large."""
    if find_installed(encoder) is None:
        raise ValueError(
            f"There is no installed encoder '{encoder}' whose vectors NameEmbed could use. Take 'bundled', or "
            "'multilingual' after installing spacy-sapbert-multilingual."
        )
    shim = EncoderShim({}, kind=STATIC)
    shim.load(encoder)
    return WordVectors(shim)
