"""The codes of a mention: its concept's own id, and the concept's codes in other sources."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from spacy.tokens import Span

from ..annotations import ATTRIBUTE
from ..terminology.codes import Key
from ..terminology.columns import SOURCE_SEPARATOR
from ..terminology.table import Terminology
from .code_systems import normalize_source, split_code
from .documents import find_candidate, is_linked
from .fields import ID_SEPARATOR


class Code(NamedTuple):
    """A code of a concept.

    source (str): The source, as in `CODE_SYSTEMS`; empty if it is not known.
    code (str): The code without the source's prefix.
    display (str): The source's own name of it; empty if it is not known.
    """

    source: str
    code: str
    display: str = ""


class CodeFinder:
    """Find the codes of mentions.

    terminology (Terminology | None): Where concepts have codes and names; None finds their own ids only.
    id_source (str | None): The source of ids that have no prefix and are no CUIs, such as "MSH" for "D003924".
    attribute (str): The linker's setting of this name.
    """

    def __init__(
        self, terminology: Terminology | None = None, id_source: str | None = None, attribute: str = ATTRIBUTE
    ) -> None:
        self._terminology = terminology
        self._id_source = normalize_source(id_source) if id_source else ""
        self._attribute = attribute
        self._found: dict[tuple[str, str], tuple[Code, ...]] = {}

    def find(self, span: Span) -> dict[str, tuple[Code, ...]]:
        """Find the codes of a mention.

        span (Span): The mention.
        RETURNS (dict[str, tuple[Code, ...]]): For each of its ids, the codes: its own first, then those of its concept
            in other sources. Empty for a mention without a concept.
        """
        if not is_linked(span.kb_id_):
            return {}
        chosen = find_candidate(span, self._attribute)
        # With `output_source`, the id is a code, and the candidate says of which concept.
        concepts = {chosen["id"]: chosen["concept_id"]} if chosen else {}
        known = self._terminology is not None and span.kb_id_ in self._terminology
        # An id with a bar in it is one concept if the terminology says so.
        ids = [span.kb_id_] if chosen or known else [id_ for id_ in span.kb_id_.split(ID_SEPARATOR) if id_]
        name = chosen["canonical_name"] if chosen else ""
        return {id_: self._find_codes(id_, concepts.get(id_, id_), name) for id_ in ids}

    def _find_codes(self, id_: str, concept_id: str, name: str) -> tuple[Code, ...]:
        if (id_, concept_id) not in self._found:
            listed = self._list_codes(concept_id)
            own, of_concept = self._split(id_, listed), self._split(concept_id, listed)
            keys = dict.fromkeys([own, *listed])
            counts = Counter(source for source, _ in keys)
            names = self._name_sources(concept_id)
            found = self._locate(concept_id)
            shown = name if found is None else found[0].concept(found[1]).canonical_name
            self._found[id_, concept_id] = tuple(
                # Of several codes of one source, nobody can tell which has which name.
                Code(*key, shown if key == of_concept else names.get(key[0], "") if counts[key[0]] == 1 else "")
                for key in keys
            )
        return self._found[id_, concept_id]

    def _split(self, id_: str, listed: list[Key]) -> Key:
        """Take the source off an id. An id without one has that of the only code that looks the same."""
        if key := split_code(id_):
            return key
        same = [key for key in listed if key[1] == id_]
        return (self._id_source, id_) if self._id_source or len(same) != 1 else same[0]

    def _list_codes(self, concept_id: str) -> list[Key]:
        found = self._locate(concept_id)
        if found is None:
            return []
        own = split_code(concept_id)
        source = own[0] if own else self._id_source
        keys = (key for key in map(split_code, found[0].codes(concept_id)) if key is not None)
        # Of the concept's own source, other ids are those that were merged into it, and are no longer in use.
        return list(dict.fromkeys([*([own] if own else []), *(key for key in keys if key[0] != source)]))

    def _name_sources(self, concept_id: str) -> dict[str, str]:
        """Find what each source calls a concept: the first name that it prefers, or else the first."""
        found = self._locate(concept_id)
        if found is None:
            return {}
        rows = found[0].names_of(found[1]).select("preferred", "source", "name").rows()
        names: dict[str, str] = {}
        for _, sources, name in sorted(rows, key=lambda row: not row[0]):
            for source in sources.split(SOURCE_SEPARATOR):
                names.setdefault(normalize_source(source), name)
        return names

    def _locate(self, concept_id: str) -> tuple[Terminology, int] | None:
        row = None if self._terminology is None else self._terminology.find_row(concept_id)
        return None if self._terminology is None or row is None else (self._terminology, row)
