"""The semantic types of UMLS: identifiers (TUI) and names, as in SRDEF of the Semantic Network (127 of them)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_LINES = Path(__file__).with_name("semantic_types.txt").read_text(encoding="utf8").splitlines()
NAMES: dict[str, str] = dict(line.split("\t") for line in _LINES)
IDS = {name: id_ for id_, name in NAMES.items()}
# The types of the semantic group Disorders, and the semantic tags of SNOMED CT for the same. Sources differ in which of
# them a concept has.
_DISORDERS = frozenset("T019 T020 T033 T037 T046 T047 T048 T049 T050 T184 T190 T191".split())
_DISORDERS |= {"disorder", "finding", "morphologic abnormality"}


def name_type(type_: str) -> str:
    """Return the name of a semantic type by its identifier; types of other terminologies as they are."""
    return NAMES.get(type_, type_)


def find_kind(types: Collection[str]) -> str:
    """Find what kind of thing a concept with these types is: a disorder, or else the first of the types."""
    first = min((IDS.get(type_, type_) for type_ in types), default="")
    return "disorder" if any(IDS.get(type_, type_) in _DISORDERS for type_ in types) else first


def find_types(wanted: Collection[str], known: Collection[str]) -> frozenset[str]:
    """Find the types of a terminology that are meant, by identifier or by name; what it has in neither form stays."""
    found = set()
    for type_ in wanted:
        forms = (type_, IDS.get(type_, type_), NAMES.get(type_, type_))
        found.add(next((form for form in forms if form in known), type_))
    return frozenset(found)
