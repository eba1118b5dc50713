"""What the terminology says of candidates' concepts, looked up once for each concept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..terminology.table import Terminology


class ConceptFacts(NamedTuple):
    """What features say of a concept.

    n_names (int): Its names.
    n_parents (int): Its parents.
    n_types (int): Its semantic types.
    """

    n_names: int
    n_parents: int
    n_types: int


class ConceptTable:
    """Numbers and facts of concepts, filled as candidates come.

    terminology (Terminology): The concepts.
    """

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology
        self._offsets = terminology.name_offsets
        # Columns, because getting one from the table takes longer than reading a value.
        self._parents, self._types = terminology.concepts["parents"], terminology.concepts["types"]
        self._facts: dict[str, ConceptFacts] = {}
        self._numbers: dict[str, int] = {}

    def get_number(self, id_: str) -> int:
        """Get a number that stands for a candidate's id.

        id_ (str): The id.
        RETURNS (int): Its number in this table.
        """
        return self._numbers.setdefault(id_, len(self._numbers))

    def get_facts(self, concept_id: str) -> ConceptFacts:
        """Get the facts of a concept.

        concept_id (str): Its id in the terminology.
        RETURNS (ConceptFacts): The facts.
        """
        facts = self._facts.get(concept_id)
        if facts is None:
            row = self._terminology.row(concept_id)
            n_names = int(self._offsets[row + 1] - self._offsets[row])
            facts = ConceptFacts(n_names, len(self._parents[row]), len(self._types[row]))
            self._facts[concept_id] = facts
        return facts
