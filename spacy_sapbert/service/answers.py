"""From linked documents and concepts to plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spacy.tokens import Doc, Span

from ..annotations import NIL
from ..candidates import Candidate
from ..concept_pages import NO_PAGE
from ..context import read_context
from ..linker import SapbertLinker
from ..semantic_types import find_types, name_type
from .requests import Choice


def describe_doc(doc: Doc, choice: Choice, min_score: float) -> dict[str, Any]:
    """Describe the entities of a document.

    doc (Doc): The document.
    choice (Choice): What of the candidates to give.
    min_score (float): The score that a candidate needs to be chosen in place of an excluded one.
    RETURNS (dict[str, Any]): Its entities, with offsets in code points and, if asked for, in UTF-16 units.
    """
    units = _count_units(doc.text) if choice.utf16 else None
    return {"entities": [_describe_ent(ent, choice, min_score, units) for ent in doc.ents]}


def describe_gold(text: str, spans: Sequence[dict[str, Any]], choice: Choice) -> list[dict[str, Any]]:
    """Describe corrections of a text.

    text (str): The text.
    spans (Sequence[dict[str, Any]]): The corrections, with offsets in code points.
    choice (Choice): The form of offsets.
    RETURNS (list[dict[str, Any]]): The corrections with such offsets.
    """
    units = _count_units(text) if choice.utf16 else range(len(text) + 1)
    return [{**span, "start": units[span["start"]], "end": units[span["end"]]} for span in spans]


def _describe_ent(ent: Span, choice: Choice, min_score: float, units: Sequence[int] | None) -> dict[str, Any]:
    candidates = ent._.kb_candidates or []
    id_, probability = _decide(ent, candidates, choice, min_score)
    described: dict[str, Any] = {
        "start": ent.start_char if units is None else units[ent.start_char],
        "end": ent.end_char if units is None else units[ent.end_char],
        "text": ent.text,
        "label": ent.label_,
        "id": id_,
        "candidates": choose(candidates, choice),
    }
    if probability is not None:
        described["probability"] = probability
    if (context := read_context(ent, is_known=False)) is not None and context.words:
        described["context"] = context.words
    return described


def _decide(
    ent: Span, candidates: Sequence[Candidate], choice: Choice, min_score: float
) -> tuple[str | None, float | None]:
    """Keep the choice of the pipeline, NIL included. Where the request excludes it, the next candidate is chosen.

    The probability is of the concept that is named, or of NIL; None if the pipeline gives none.
    """
    chosen = ent.kb_id_
    if chosen in ("", NIL):
        return None, ent._.kb_probability
    fitting = [candidate for candidate in candidates if _fits(candidate, choice)]
    if not choice.is_narrower or any(candidate["id"] == chosen for candidate in fitting):
        return chosen, ent._.kb_probability
    if not fitting or fitting[0]["score"] < min_score:
        return None, None
    return fitting[0]["id"], fitting[0].get("probability")


def choose(candidates: Sequence[Candidate], choice: Choice) -> list[dict[str, Any]]:
    """Choose among candidates.

    candidates (Sequence[Candidate]): The candidates, best first.
    choice (Choice): What of them to give.
    RETURNS (list[dict[str, Any]]): Those that fit.
    """
    kept = [dict(candidate) for candidate in candidates if _fits(candidate, choice)]
    return kept[: choice.k]


def _fits(candidate: Candidate, choice: Choice) -> bool:
    if choice.threshold is not None and candidate["score"] < choice.threshold:
        return False
    return choice.types is None or not find_types(choice.types, candidate["types"]).isdisjoint(candidate["types"])


def _count_units(text: str) -> list[int]:
    """Count the UTF-16 units before each character: those of other planes have two."""
    units = [0]
    for character in text:
        units.append(units[-1] + (2 if ord(character) > 0xFFFF else 1))
    return units


def describe_concept(linker: SapbertLinker, concept_id: str) -> dict[str, Any] | None:
    """Describe a concept.

    linker (SapbertLinker): The linker.
    concept_id (str): The concept's id.
    RETURNS (dict[str, Any] | None): Names, types, definition, codes, parents; None if there is no such concept.
    """
    terminology = linker.terminology
    concept = terminology.get(concept_id)
    if concept is None:
        return None
    parents = [terminology.get(parent) for parent in concept.parents]
    page = linker.kb_url_template.format(concept.id)
    return {
        "id": concept.id,
        "canonical_name": concept.canonical_name,
        "names": list(concept.names),
        "types": [{"id": type_, "name": name_type(type_)} for type_ in concept.types],
        "definition": concept.definition,
        "codes": list(concept.codes),
        "parents": [
            {"id": id_, "canonical_name": id_ if parent is None else parent.canonical_name}
            for id_, parent in zip(concept.parents, parents, strict=True)
        ],
        "page": None if page == NO_PAGE else page,
    }
