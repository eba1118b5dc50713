"""Gold ids as a terminology writes them."""

from __future__ import annotations

from collections.abc import Iterable

from spacy_sapbert.terminology import Terminology

from ...data.mentions import EQUAL_IDS


class KnownIds:
    """The ids of a terminology, with and without prefixes.

    terminology (Terminology): The terminology. Codes of its concepts are other ids of them.
    """

    def __init__(self, terminology: Terminology) -> None:
        self._exact: dict[str, dict[str, None]] = {}
        self._plain: dict[str, dict[str, None]] = {}
        concepts = terminology.concepts.select("id", "codes")
        for id_, codes in concepts.iter_rows():
            # A dictionary writes the equal ids of a concept as one.
            for written in (id_, *id_.split(EQUAL_IDS), *codes):
                # An id with a bar in it would look like two.
                own = written if EQUAL_IDS in id_ else id_
                self._exact.setdefault(written, {})[own] = None
                self._plain.setdefault(_take_prefix_off(written), {})[own] = None

    def resolve(self, ids: Iterable[str]) -> list[str]:
        """Find the concepts that ids of a corpus stand for.

        ids (Iterable[str]): The ids.
        RETURNS (list[str]): Distinct ids of the terminology, none for unknown ones. An id that is not there as written
            is looked up without the prefix ("MESH:D003924", "D003924"), on both sides.
        """
        found: dict[str, None] = {}
        for id_ in ids:
            found |= self._exact.get(id_) or self._plain.get(_take_prefix_off(id_)) or {}
        return list(found)


def _take_prefix_off(id_: str) -> str:
    return id_.rpartition(":")[2]
