"""Small terminologies for tests of pairs, and the rows of a folder of pairs."""

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.data.pairs import read_pairs


def build(concepts: dict[str, list[str]]) -> Terminology:
    """Make a terminology of names by concept id."""
    builder = TerminologyBuilder()
    for concept_id, names in concepts.items():
        for name in names:
            builder.add_name(concept_id, name)
    return builder.build()


def read(path: object) -> list[tuple[str, ...]]:
    """Read id and two names of each pair of a folder."""
    return [row for chunk in read_pairs(path) for row in chunk.iter_rows()]
