"""Parse one term of an OBO file."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OboSynonym:
    """A synonym of a term."""

    text: str
    scope: str
    type: str | None


@dataclass
class OboTerm:
    """The clauses of a term that a terminology uses."""

    id: str
    name: str = ""
    definition: str | None = None
    obsolete: bool = False
    synonyms: list[OboSynonym] = field(default_factory=list)
    xrefs: list[str] = field(default_factory=list)
    alt_ids: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    relations: list[tuple[str, str]] = field(default_factory=list)
    """Labels and the other terms, of the lines "relationship"."""


def parse_term(lines: list[str]) -> OboTerm:
    """Parse the lines of a [Term] stanza.

    lines (list[str]): The lines.
    RETURNS (OboTerm): The term.
    RAISES (SyntaxError): If the lines are not valid OBO.
    RAISES (ValueError): If the term has no name, or several names or definitions.
    """
    import fastobo  # a large module that no other reader needs

    (frame,) = fastobo.loads("\n".join(lines) + "\n")
    term = OboTerm(_plain(frame.id))
    seen = {"name": 0, "def": 0}
    for clause in frame:
        tag = clause.raw_tag()
        if tag in seen:
            seen[tag] += 1
        if tag == "name":
            term.name = clause.name.strip()
        elif tag == "def":
            term.definition = clause.definition
        elif tag == "synonym":
            synonym = clause.synonym
            kind = _plain(synonym.type) if synonym.type else None
            term.synonyms.append(OboSynonym(synonym.desc, synonym.scope, kind))
        elif tag == "xref":
            term.xrefs.append(_plain(clause.xref.id))
        elif tag == "alt_id":
            term.alt_ids.append(_plain(clause.alt_id))
        elif tag == "is_a":
            term.parents.append(_plain(clause.term))
        elif tag == "relationship":
            term.relations.append((_plain(clause.typedef), _plain(clause.term)))
        elif tag == "is_obsolete":
            term.obsolete = clause.obsolete
    for tag, count in seen.items():
        if count > 1:
            raise ValueError(f"the term '{term.id}' has {count} lines '{tag}:', where one is allowed")
    if not term.name and not term.obsolete:
        raise ValueError(f"the term '{term.id}' has no name")
    return term


def _plain(identifier: Any) -> str:
    """Write an identifier without the escapes that OBO needs, which `str` would add: "A:B:C" as "A:B\\:C"."""
    if hasattr(identifier, "local"):
        return f"{identifier.prefix}:{identifier.local}"
    return getattr(identifier, "unescaped", None) or str(identifier)
