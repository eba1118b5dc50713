"""Names in other writing: misspelt, with normal words, or with words in another order."""

from __future__ import annotations

import random

import polars as pl

from spacy_sapbert.retrieval.encoding import misspell
from spacy_sapbert.text import normal_words


def use_normal_words(name: str, rng: random.Random) -> str:
    """Write singulars, American spelling and Arabic numerals, without punctuation."""
    return " ".join(normal_words(name)) or name


def reorder_words(name: str, rng: random.Random) -> str:
    """Put the words in another order."""
    words = name.split()
    rng.shuffle(words)
    return " ".join(words)


ALTERATIONS = (misspell, use_normal_words, reorder_words)


def alter_writing(names: pl.Series, *, seed: int) -> pl.Series:
    """Alter each name in one way."""

    def alter(name: str) -> str:
        rng = random.Random(f"{seed} {name}")
        return rng.choice(ALTERATIONS)(name, rng)

    return pl.Series(names.name, [alter(name) for name in names], dtype=pl.String())
