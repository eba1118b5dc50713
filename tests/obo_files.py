"""OBO files of a few terms."""

from collections.abc import Iterable, Sequence


def make_obo(terms: Iterable[Sequence[str]], *header: str) -> str:
    """Make the text of an ontology, given the lines of its header and of each term id, name and further lines."""
    stanzas = [["format-version: 1.2", *header]]
    stanzas += [["[Term]", f"id: {id_}", f"name: {name}", *lines] for id_, name, *lines in terms]
    return "\n\n".join("\n".join(lines) for lines in stanzas) + "\n"
