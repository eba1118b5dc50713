"""Small terminologies for tests of training data, and the rows of folders of pairs and of triples."""

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.data.pairs import read_pairs
from training.data.triples import make_triple_data, read_triples, save_triples


def build(concepts: dict[str, list[str]]) -> Terminology:
    """Make a terminology of names by concept id."""
    builder = TerminologyBuilder()
    for concept_id, names in concepts.items():
        for name in names:
            builder.add_name(concept_id, name)
    return builder.build()


def read(path: object) -> list[tuple[str, ...]]:
    """Read id and two names of each pair of a folder."""
    return [row for chunk in read_pairs(path).decode() for row in chunk.iter_rows()]


def read_triple_rows(path: object) -> list[tuple[str, ...]]:
    """Read head, relation and tail of each triple of a folder."""
    triples = read_triples(path)
    heads, tails = (triples.concepts.gather(rows) for rows in (triples.heads, triples.tails))
    return list(zip(heads, triples.labels.gather(triples.relations), tails, strict=True))


def save_triple_rows(rows: list[tuple[str, str, str]], path: object) -> None:
    """Write a folder of triples of strings: head, relation and tail."""
    heads, labels, tails = (pl.Series([row[place] for row in rows], dtype=pl.String()) for place in range(3))
    places = np.arange(len(rows))
    ends = places + len(rows)
    save_triples(make_triple_data(pl.concat([heads, tails]), places, labels, places, ends), path, {})
