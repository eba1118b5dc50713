"""Candidates for the entity linker of spacy-llm, which lets a language model choose among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from spacy.tokens import Span

from ..annotations import NIL
from ..semantic_types import name_type

if TYPE_CHECKING:
    from ..linker import SapbertLinker

NO_DESCRIPTION = "This entity doesn't have a description."


class CandidateSelector:
    """Give spacy-llm the candidates of a linker, described for a prompt.

    linker (SapbertLinker): The linker.
    n_names (int): Names in a description, beside the canonical one.
    threshold (float): Score that a candidate needs.
    """

    def __init__(self, linker: SapbertLinker, n_names: int, threshold: float = 0.0) -> None:
        self._linker, self._n_names, self._threshold = linker, n_names, threshold

    def __call__(self, mentions: Iterable[Span]) -> list[list[Any]]:
        """Find the candidates of mentions.

        mentions (Iterable[Span]): The mentions.
        RETURNS (list[list[Entity]]): Best first, as spacy-llm's entities; NIL alone where there is no candidate.
        """
        from spacy_llm.tasks.entity_linker.ty import Entity

        found = [
            [candidate for candidate in candidates if candidate["score"] >= self._threshold]
            for candidates in self._linker.link_spans(mentions)
        ]
        ids = [[candidate["concept_id"] for candidate in candidates] or [NIL] for candidates in found]
        return [[Entity(id=id_, description=self.get_entity_description(id_)) for id_ in row] for row in ids]

    def get_entity_description(self, entity_id: str) -> str:
        """Describe a concept: its names, its semantic types, its definition.

        entity_id (str): Its id.
        RETURNS (str): One line; a sentence that there is none for an unknown id.
        """
        concept = self._linker.terminology.get(entity_id)
        if concept is None:
            return NO_DESCRIPTION
        others = [name for name in concept.names if name != concept.canonical_name][: self._n_names]
        parts = [concept.canonical_name + (f" (also: {'; '.join(others)})" if others else "")]
        if concept.types:
            parts.append(", ".join(map(name_type, concept.types)))
        return ". ".join([*parts, " ".join(concept.definition.split())] if concept.definition else parts)


def make_candidate_selector(
    path: str, linker: str = "sapbert_linker", top_n: int = 5, threshold: float = 0.0, n_names: int = 5
) -> CandidateSelector:
    """Register the candidate selector, which loads the linker of a saved pipeline.

    path (str): The folder of the pipeline.
    linker (str): The linker's name in it.
    top_n (int): Candidates for a mention.
    threshold (float): Cosine that a candidate needs.
    n_names (int): Names in a description, beside the canonical one.
    RETURNS (CandidateSelector): The selector.
    RAISES (OSError): If there is no such linker.
    """
    from .knowledge_base import load_linker

    loaded = load_linker(path, linker)
    loaded.k = top_n
    return CandidateSelector(loaded, n_names, threshold)
