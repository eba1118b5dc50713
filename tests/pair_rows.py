"""Small terminologies for tests of training data, and the rows of folders of pairs and of triples."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.data.pairs import read_pairs
from training.data.triples import make_triple_data, read_triples, save_triples


def build(concepts: dict[str, Any], column: str = "source", **facts: dict[str, Any]) -> Terminology:
    """Make a terminology of names by concept id, and by source or language if the column matters. `facts` are what
    else is known of some concepts.
    """
    builder = TerminologyBuilder()
    for concept_id, groups in concepts.items():
        builder.add_concept(concept_id, **facts.get(concept_id, {}))
        for group, names in groups.items() if isinstance(groups, dict) else [(None, groups)]:
            for name in names:
                builder.add_name(concept_id, name, **({column: group} if group is not None else {}))
    return builder.build()


def make_names(numbers: Iterable[int], *forms: str) -> dict[str, list[str]]:
    """Make names of concepts by their numbers, in each of the forms."""
    return {f"C{number}": [form.format(number) for form in forms] for number in numbers}


def read(path: object) -> list[tuple[str, ...]]:
    """Read id and two names of each pair of a folder."""
    return [row for chunk in read_pairs(path).decode() for row in chunk.iter_rows()]


def read_triple_rows(path: object) -> list[tuple[str, ...]]:
    """Read head, relation and tail of each triple of a folder."""
    triples = read_triples(path)
    heads, tails = (triples.concepts.gather(rows) for rows in (triples.heads, triples.tails))
    return list(zip(heads, triples.labels.gather(triples.relations), tails, strict=True))


def save_triple_rows(rows: list[tuple[str, str, str]], path: Path) -> Path:
    """Write a folder of triples of strings: head, relation and tail. Return its path."""
    heads, labels, tails = (pl.Series([row[place] for row in rows], dtype=pl.String()) for place in range(3))
    places = np.arange(len(rows))
    ends = places + len(rows)
    save_triples(make_triple_data(pl.concat([heads, tails]), places, labels, places, ends), path, {})
    return path
