"""Names in other writing: misspelt, with normal words, or with words in another order."""

from __future__ import annotations

import random

import polars as pl

from spacy_sapbert.retrieval.encoding import misspell
from spacy_sapbert.text import normal_words


def use_normal_words(name: str, rng: random.Random) -> str:
    """Write singulars, American spelling and Arabic numerals, without punctuation.

    name (str): The name.
    rng (Random): Not used: there is one such form.
    RETURNS (str): The normal words, or the name itself if it has none.
    """
    return " ".join(normal_words(name)) or name


def reorder_words(name: str, rng: random.Random) -> str:
    """Put the words in another order.

    name (str): The name.
    rng (Random): Draws the order.
    RETURNS (str): The same words, in any order.
    """
    words = name.split()
    rng.shuffle(words)
    return " ".join(words)


ALTERATIONS = (misspell, use_normal_words, reorder_words)


def alter_writing(names: pl.Series, *, seed: int) -> pl.Series:
    """Alter each name in one way.

    names (pl.Series): The names.
    seed (int): Seed of the draw. An alteration depends on it and on the name only.
    RETURNS (pl.Series): The altered names, in the same order. Some stay as they are, because the drawn way changes
        nothing.
    """

    def alter(name: str) -> str:
        rng = random.Random(f"{seed} {name}")
        return rng.choice(ALTERATIONS)(name, rng)

    return pl.Series(names.name, [alter(name) for name in names], dtype=pl.String())
