"""Read the relations of the terms of an ontology in OBO format."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .lines import SourceFile, invalid_utf8
from .obo import split_stanzas
from .obo_term import parse_term


class TermRelation(NamedTuple):
    """A relation of two terms.

    head (str): The id of the term that has the relation.
    label (str): The relation, such as "part_of".
    tail (str): The id of the other term.
    """

    head: str
    label: str
    tail: str


def read_obo_relations(path: str | Path) -> Iterator[TermRelation]:
    """Read the lines "relationship" of an OBO file's terms. Lines "is_a" are not among them: `read_obo` keeps these as
    parents. Malformed and obsolete terms are left out: `read_obo` counts them.

    path (str | Path): The file, gzipped or not.
    YIELDS (TermRelation): The relations in the order of the file.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    for _, lines in split_stanzas(SourceFile(Path(path))):
        has_relations = any(line.startswith("relationship:") for line in lines)
        if not has_relations or lines[0].strip() != "[Term]" or any(map(invalid_utf8, lines)):
            continue
        try:
            term = parse_term(lines)
        except (SyntaxError, ValueError):
            continue
        if not term.obsolete:
            yield from (TermRelation(term.id, label, tail) for label, tail in term.relations)
