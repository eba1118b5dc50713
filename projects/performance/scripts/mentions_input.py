"""Sources of mentions: files, or names held out of the terminology."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from terminology_input import keep_names

from spacy_sapbert.terminology import Terminology

HELD_OUT = 2000
# At most one of so many names is held out.
HELD_OUT_SHARE = 10


def read_mentions(paths: Sequence[Path]) -> list[str]:
    """Read mentions in the order of the files, repeated ones included.

    paths (Sequence[Path]): JSON lines with the key "mention", gzipped or not.
    RETURNS (list[str]): The mentions.
    """
    mentions: list[str] = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf8") if path.suffix == ".gz" else path.open(encoding="utf8") as file:
            found = (json.loads(line)["mention"].strip() for line in file if line.strip())
            mentions.extend(mention for mention in found if mention)
    return mentions


def hold_out(terminology: Terminology, seed: int) -> tuple[Terminology, list[str]]:
    """Take names out of a terminology and make mentions of them, each with one typing error.

    Without the error, a name that another concept shares would be found by comparing strings.

    terminology (Terminology): The terminology.
    seed (int): Seed of the choice and the errors.
    RETURNS (tuple[Terminology, list[str]]): What is left, and the mentions.
    """
    rng = random.Random(seed)
    strings = sorted({name for name in terminology.names["name"].to_list() if len(name) > 3})
    held = rng.sample(strings, min(HELD_OUT, len(strings) // HELD_OUT_SHARE))
    return keep_names(terminology, ~pl.col("name").is_in(held)), [swap_letters(name, rng) for name in held]


def swap_letters(name: str, rng: random.Random) -> str:
    """Swap two letters that stand side by side, anywhere but at the start.

    name (str): The name, of four characters or more.
    rng (Random): Chooses the place.
    RETURNS (str): The name with the error.
    """
    at = rng.randrange(1, len(name) - 2)
    return f"{name[:at]}{name[at + 1]}{name[at]}{name[at + 2 :]}".strip()
