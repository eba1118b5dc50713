"""Dictionary entries needed to analyse errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...data.mentions import EQUAL_IDS


class DictionaryView:
    """The names of some concepts and the concepts of some names. A dictionary may have millions of both.

    names (Sequence[str]): The names of the dictionary.
    ids (Sequence[str]): The concept of each; equal ids, or those of several concepts, are joined with "|".
    wanted_names (Iterable[str]): The names whose concepts are needed.
    wanted_ids (Iterable[str]): The ids whose names are needed.
    """

    def __init__(
        self, names: Sequence[str], ids: Sequence[str], wanted_names: Iterable[str], wanted_ids: Iterable[str]
    ) -> None:
        self._rows: dict[str, dict[str, None]] = {name: {} for name in wanted_names}
        for name, joined in zip(names, ids, strict=True):
            if name in self._rows:
                self._rows[name][joined] = None
        found = {single for rows in self._rows.values() for joined in rows for single in joined.split(EQUAL_IDS)}
        self._names: dict[str, list[str]] = {single: [] for single in found.union(wanted_ids)}
        for name, joined in zip(names, ids, strict=True):
            for single in joined.split(EQUAL_IDS):
                if single in self._names:
                    self._names[single].append(name)

    def find_names(self, ids: Iterable[str]) -> list[str]:
        """Find the names of concepts.

        ids (Iterable[str]): Ids among those wanted.
        RETURNS (list[str]): Their distinct names, in the order of the ids and of the dictionary; none of concepts that
            it lacks.
        """
        return list(dict.fromkeys(name for single in ids for name in self._names[single]))

    def count_concepts(self, name: str) -> int:
        """Count the concepts that have a name.

        A dictionary does not say which of the ids in "A|B" are equal. Ids count as one concept if they have the same
        names, or two and more names in common that are most of the names of one of them.

        name (str): A name among those wanted.
        RETURNS (int): The concepts; 0 if the dictionary lacks the name.
        """
        concepts: list[set[str]] = []
        for single in dict.fromkeys(single for joined in self._rows[name] for single in joined.split(EQUAL_IDS)):
            names = set(self._names[single])
            if not any(_are_of_one_concept(names, others) for others in concepts):
                concepts.append(names)
        return len(concepts)


def _are_of_one_concept(names: set[str], others: set[str]) -> bool:
    n_shared = len(names & others)
    return names == others or (n_shared > 1 and 2 * n_shared > min(len(names), len(others)))
