"""A terminology in the form of scispaCy's knowledge bases, for programs that were written for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .table import Terminology


class Entity(NamedTuple):
    """A concept, with the attributes that scispaCy's entities have."""

    concept_id: str
    canonical_name: str
    aliases: list[str]  # all names but the canonical one
    types: list[str]
    definition: str | None


class KnowledgeBase:
    """A view of a terminology: `kb.cui_to_entity["C0011849"].definition`. Nothing is copied.

    terminology (Terminology): The terminology.
    find_names (Callable[[str], list[int]]): Finds the rows of the names that are equal to a string.
    """

    def __init__(self, terminology: Terminology, find_names: Callable[[str], list[int]]) -> None:
        self.cui_to_entity = Entities(terminology)
        self.alias_to_cuis = Aliases(terminology, find_names)


class Entities(Mapping[str, Entity]):
    """Concepts by id."""

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology

    def __getitem__(self, concept_id: str) -> Entity:
        concept = self._terminology[concept_id]
        aliases = [name for name in concept.names if name != concept.canonical_name]
        return Entity(concept.id, concept.canonical_name, aliases, list(concept.types), concept.definition)

    def __iter__(self) -> Iterator[str]:
        return iter(self._terminology.concepts["id"])

    def __len__(self) -> int:
        return len(self._terminology)


class Aliases(Mapping[str, set[str]]):
    """The ids of the concepts that have a name."""

    def __init__(self, terminology: Terminology, find_names: Callable[[str], list[int]]) -> None:
        self._terminology = terminology
        self._find_names = find_names

    def __getitem__(self, name: str) -> set[str]:
        try:
            rows = self._find_names(name) if isinstance(name, str) else []
        except UnicodeEncodeError:  # half of a character, which no name has
            rows = []
        if not rows:
            raise KeyError(name)
        return {*self._terminology.concepts["id"][self._terminology.name_concept[rows]]}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._terminology.names["name"]))

    def __len__(self) -> int:
        return len({*self._terminology.names["name"]})
