"""Candidates on the Doc: the span attributes, and the plain data stored in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spacy.tokens import Span

from .types import Candidate

if TYPE_CHECKING:
    from .retrieval.retriever import Hit
    from .terminology import Terminology


def register_extensions() -> None:
    """Register `span._.kb_candidates` and, for those who come from scispaCy, `span._.kb_ents`.

    Call it to read the candidates of saved documents in a process without the linker.
    """
    if not Span.has_extension("kb_candidates"):
        Span.set_extension("kb_candidates", default=[])
    if not Span.has_extension("kb_ents"):
        # Computed on access: stored tuples would come back from a saved Doc as lists.
        Span.set_extension("kb_ents", getter=get_kb_ents)


def get_kb_ents(span: Span) -> list[tuple[str, float]]:
    """Get the ids and scores of a span's candidates.

    span (Span): A linked span.
    RETURNS (List[Tuple[str, float]]): The candidate's `id` and cosine, best first.
    """
    return [(candidate["id"], candidate["score"]) for candidate in span._.kb_candidates]


def make_candidates(
    terminology: Terminology,
    texts: Sequence[str],
    hits: Sequence[Sequence[Hit]],
    output_source: str | None = None,
) -> list[list[Candidate]]:
    """Turn hits into plain data.

    terminology (Terminology): Concepts and names.
    texts (Sequence[str]): The mentions.
    hits (Sequence[Sequence[Hit]]): The concepts found for each; all have a code in the output source.
    output_source (Optional[str]): The source whose codes are the candidates' ids, of several codes the first; None for
        the concepts' own ids.
    RETURNS (List[List[Candidate]]): The candidates of each mention, in the order of its hits.
    """
    # One value at a time: whatever polars does on whole tables may run on its threads, which a forked process lacks,
    # so that it would wait forever.
    columns = [terminology.concepts[column] for column in ("id", "canonical_name", "types")]
    names = terminology.names["name"]
    concepts = {}
    for row in {hit.concept for found in hits for hit in found}:
        concept_id, canonical_name, types = (column[row] for column in columns)
        id_ = terminology.codes(concept_id, output_source)[0] if output_source is not None else concept_id
        concepts[row] = id_, concept_id, canonical_name, types.to_list()
    return [
        [_make_candidate(text, hit, concepts[hit.concept], names[hit.name]) for hit in found]
        for text, found in zip(texts, hits, strict=True)
    ]


def merge_candidates(first: Sequence[Candidate], second: Sequence[Candidate], k: int) -> list[Candidate]:
    """Merge the candidates of two forms of one mention; each id keeps its better score.

    A concept has one id, so concepts come once each; of concepts with the same code as their id, the better one stays.

    first (Sequence[Candidate]): Candidates of the form that wins where scores are equal.
    second (Sequence[Candidate]): Candidates of the other form.
    k (int): Candidates to keep, and those with the score of the last one.
    RETURNS (List[Candidate]): Best first.
    """
    best: dict[str, Candidate] = {}
    for candidate in sorted((*first, *second), key=_descending):
        best.setdefault(candidate["id"], candidate)
    ranked = list(best.values())
    return [candidate for candidate in ranked if _descending(candidate) <= _descending(ranked[:k][-1])]


def _descending(candidate: Candidate) -> float:
    # Rounded, so that two exact matches are equal; sorting is stable, so the first form then wins.
    return -round(candidate["score"], 6)


def _make_candidate(text: str, hit: Hit, concept: tuple[str, str, str, list[str]], name: str) -> Candidate:
    id_, concept_id, canonical_name, types = concept
    return {
        "id": id_,
        "concept_id": concept_id,
        # Rounding can make the cosine of equal vectors a little more than 1.
        "score": min(hit.score, 1.0),
        "name": name,
        "canonical_name": canonical_name,
        "types": types,
        "mention": text,
    }
