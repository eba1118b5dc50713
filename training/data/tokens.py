"""Names for training: tokenised once for all processes and resumptions of a run, as they are or in other writing."""

from __future__ import annotations

import hashlib
import random
import warnings
from pathlib import Path

import numpy as np
import polars as pl

from spacy_sapbert.arrays import save_array
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import write_whole
from spacy_sapbert.lexicon.scan import list_words
from spacy_sapbert.ragged import TokenLists
from spacy_sapbert.retrieval.encoding import misspell

from .folders import hash_strings


def tokenise(names: pl.Series, encoder: EncoderShim) -> TokenLists:
    """Tokenise names. A warning counts names without any token that the encoder knows."""
    tokens = encoder.tokenize_names(names.to_list())
    if missing := int(np.count_nonzero(~encoder.find_informative(tokens))):
        warnings.warn(
            f"{missing} of {len(tokens)} strings to train on have no token that the encoder's vocabulary "
            "knows. All of them have the same vector, so nothing can be learned from them. Use a base encoder"
            " for their language or script, or leave them out.",
            stacklevel=2,
        )
    return tokens


def tokenise_once(names: pl.Series, encoder: EncoderShim, folder: Path) -> TokenLists:
    """Tokenise names, and store their tokens for other processes and for a resumed run, which map them from disk."""
    digest = hashlib.sha256(encoder.fingerprint.encode())
    hash_strings(names, digest)
    paths = {what: folder / f"{digest.hexdigest()[:16]}-{what}.npy" for what in ("ids", "offsets")}
    if not all(path.exists() for path in paths.values()):
        tokens = tokenise(names, encoder)
        for what, path in paths.items():
            with write_whole(path) as temporary:
                save_array(temporary, getattr(tokens, what))
    return TokenLists(*(np.load(path, mmap_mode="r") for path in paths.values()))


def use_normal_words(name: str, rng: random.Random) -> str:
    """Write singulars, American spelling and Arabic numerals, without punctuation."""
    return " ".join(list_words(name)) or name


def reorder_words(name: str, rng: random.Random) -> str:
    """Put the words in another order."""
    words = name.split()
    rng.shuffle(words)
    return " ".join(words)


ALTERATIONS = (misspell, use_normal_words, reorder_words)


def alter_writing(names: pl.Series, *, seed: int) -> pl.Series:
    """Alter each name in one way, which depends on name and seed only."""
    rngs = (random.Random(f"{seed} {name}") for name in names)
    altered = [rng.choice(ALTERATIONS)(name, rng) for name, rng in zip(names, rngs, strict=True)]
    return pl.Series(names.name, altered, dtype=pl.String())
