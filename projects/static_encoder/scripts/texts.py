"""Write strings in general language for the teacher: phrases of definitions, and phrases made of templates."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path
from string import Formatter

import polars as pl
import srsly
import typer
from wasabi import msg

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder
from training.data.pairs import read_pairs
from training.data.run_folder import write_text

# Phrases to draw from definitions.
DEFINITIONS = 30_000
# Where a phrase ends.
BOUNDARY = re.compile(r"[.;:,()\[\]]")
# Numbers of words of a phrase; shorter ones are more frequent.
LENGTHS = (2, 2, 3, 3, 4, 5, 6)


def main(rrf: Path, pairs: Path, phrases: Path, output: Path) -> None:
    """Write strings, one a line."""
    with show_phase("Reading definitions"):
        definitions = read_definitions(rrf, set(read_pairs(pairs).concepts))
    drawn = draw_phrases(definitions, DEFINITIONS, random.Random(0))
    filled = fill_templates(srsly.read_json(phrases))
    texts = sorted({*drawn, *filled})
    write_text(output, "\n".join(texts) + "\n")
    msg.good(f"{len(drawn):,} phrases of {len(definitions):,} definitions and {len(filled):,} of templates: {output}")


def read_definitions(rrf: Path, concepts: set[str]) -> list[str]:
    """Read the definitions of concepts."""
    folder = RrfFolder(rrf)
    if "MRDEF" not in folder:
        return []
    rows = folder.table("MRDEF", ("CUI", "DEF"))
    return rows.filter(pl.col("CUI").is_in(list(concepts)))["DEF"].to_list()


def draw_phrases(definitions: list[str], n: int, rng: random.Random) -> set[str]:
    """Draw phrases of two to six words from definitions."""
    phrases: set[str] = set()
    for _ in range(10 * n if definitions else 0):
        if len(phrases) == n:
            break
        words = rng.choice(BOUNDARY.split(rng.choice(definitions))).split()
        length = rng.choice(LENGTHS)
        if len(words) >= length:
            start = rng.randrange(len(words) - length + 1)
            phrases.add(" ".join(words[start : start + length]).lower())
    return phrases


def fill_templates(groups: list[dict]) -> set[str]:
    """Fill templates with all combinations of their words."""
    phrases = set()
    for group in groups:
        for template in group["templates"]:
            names = [name for _, name, _, _ in Formatter().parse(template) if name]
            for words in product(*(group["words"][name] for name in names)):
                phrases.add(template.format(**dict(zip(names, words, strict=True))))
    return phrases


if __name__ == "__main__":
    typer.run(main)
