"""Gold concepts of annotated documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from spacy.tokens import Span
from spacy.training import Example

from ..annotations import NIL
from ..scorer import ID_SEPARATOR

if TYPE_CHECKING:
    from ..terminology.table import Terminology


class GoldMention(NamedTuple):
    """A mention of a predicted document with its annotation.

    span (Span): The mention, in the predicted document.
    kb_id (str): The gold id, or several joined by "|".
    """

    span: Span
    kb_id: str


def find_gold(example: Example, *, use_gold_ents: bool) -> list[GoldMention]:
    """Find the mentions of a predicted document that are annotated with a concept or with NIL.

    example (Example): The document and its annotations.
    use_gold_ents (bool): Take the gold entities themselves; false for predicted entities with the same boundaries.
    RETURNS (list[GoldMention]): The mentions. Those with an empty gold id are left out: nothing is known of them.
    """
    gold = {(ent.start_char, ent.end_char): ent.kb_id_ for ent in example.reference.ents if ent.kb_id_}
    if not gold:
        return []
    spans = example.get_aligned_ents_and_ner()[0] if use_gold_ents else example.predicted.ents
    found = ((span, gold.get((span.start_char, span.end_char), "")) for span in spans)
    return [GoldMention(span, kb_id) for span, kb_id in found if kb_id]


class GoldIds:
    """Turn gold ids into ids that candidates have.

    terminology (Terminology): The concepts.
    output_source (str | None): The linker's setting, by which candidates have codes instead of the concepts' ids.
    """

    def __init__(self, terminology: Terminology, output_source: str | None = None) -> None:
        self._terminology = terminology
        self._source = output_source
        self._resolved: dict[str, frozenset[str]] = {}

    def resolve(self, kb_id: str) -> frozenset[str]:
        """Get the ids of which any is right.

        kb_id (str): A gold id, or several joined by "|". An id of the terminology may itself be several equal ones
            joined by "|": it is right if one of them is.
        RETURNS (frozenset[str]): The ids; empty for NIL and where the terminology has none of them.
        """
        found = self._resolved.get(kb_id)
        if found is None:
            parts = {kb_id, *(part.strip() for part in kb_id.split(ID_SEPARATOR))} - {"", NIL}
            if kb_id in self._rows:
                parts = {kb_id}
            equal = {id_ for part in parts for id_ in (part, *self._joined.get(part, ()))}
            found = frozenset(equal & self._rows.keys())
            self._resolved[kb_id] = found
        return found

    def count_missing(self, kb_ids: Iterable[str]) -> Counter[str]:
        """Count gold ids that stand for a concept which the terminology lacks.

        kb_ids (Iterable[str]): Gold ids.
        RETURNS (Counter[str]): How often each of them occurs.
        """
        return Counter(kb_id for kb_id in kb_ids if kb_id != NIL and not self.resolve(kb_id))

    def list_rows(self, ids: Iterable[str]) -> list[int]:
        """List the concepts of resolved ids.

        ids (Iterable[str]): What `resolve` returned.
        RETURNS (list[int]): The row of each id's concept in the terminology.
        """
        return [self._rows[id_] for id_ in ids]

    @cached_property
    def _rows(self) -> dict[str, int]:
        """The row of the first concept for each id that candidates can have."""
        concepts = self._terminology.concepts
        if self._source is None:
            return {id_: row for row, id_ in enumerate(concepts["id"].to_list())}
        prefix = f"{self._source}:"
        codes = ((code, row) for row, codes in enumerate(concepts["codes"].to_list()) for code in codes)
        rows: dict[str, int] = {}
        for code, row in codes:
            if code.startswith(prefix):
                rows.setdefault(code.removeprefix(prefix), row)
        return rows

    @cached_property
    def _joined(self) -> dict[str, list[str]]:
        """The joined ids that each id is a part of."""
        joined: dict[str, list[str]] = {}
        for id_ in self._rows:
            for part in id_.split(ID_SEPARATOR) if ID_SEPARATOR in id_ else ():
                joined.setdefault(part, []).append(id_)
        return joined
