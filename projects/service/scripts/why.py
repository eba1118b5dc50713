"""Why a mention has no concept, with the figures that say so."""

from collections.abc import Sequence
from typing import Any

from spacy.tokens import Span

from spacy_sapbert.candidates import PROPOSED, SAME_STRING, Candidate
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.reranker.component import SapbertReranker

# "threshold", "filtered", "nil" or "unlinked" as `reason`, and figures of the best candidate.
Why = dict[str, Any]
# Settings of a linker that leave concepts out.
FILTERS = ("types", "sources", "languages", "ids", "below", "not_below", "output_source")


def explain_missing(ent: Span, linkers: Sequence[SapbertLinker], reranker: SapbertReranker | None) -> Why:
    """Say why a pipeline has chosen no concept for a mention."""
    using = [linker for linker in linkers if linker.fixed().links(ent.label_)]
    if not using:
        return {"reason": "unlinked", "label": ent.label_}
    candidates = ent._.kb_candidates or []
    if not candidates:
        return {"reason": "filtered" if any(_has_filter(linker, ent.label_) for linker in using) else "nil"}
    measure, least = _find_least(ent, using[0], reranker)
    # Rounded as the linker does.
    if least is not None and round(candidates[0].get(measure, 0.0), 6) < round(least, 6):
        return explain_threshold(candidates[0], measure, least)
    return {"reason": "nil", "best": describe_best(candidates[0])}


def explain_threshold(candidate: Candidate, measure: str, least: float) -> Why:
    """Say that the best candidate has less than it needs."""
    return {"reason": "threshold", "measure": measure, "least": least, "best": describe_best(candidate)}


def describe_best(candidate: Candidate) -> dict[str, Any]:
    """Name a candidate, with its figures."""
    keys = ("id", "canonical_name", "score", "probability")
    return {key: candidate[key] for key in keys if key in candidate}


def _find_least(ent: Span, linker: SapbertLinker, reranker: SapbertReranker | None) -> tuple[str, float | None]:
    """Find the figure that decides, and what it has to be; None if it has to beat the probability of NIL."""
    how = ent._.match
    if reranker is not None:
        return "probability", reranker.learned.get_threshold(reranker.min_probability, is_found=bool(how))
    # What a recogniser proposes needs the very words of a name.
    return "score", max(SAME_STRING, linker.min_score) if how == PROPOSED else linker.min_score


def _has_filter(linker: SapbertLinker, label: str) -> bool:
    return label in linker.label_types or any(getattr(linker, name) for name in FILTERS)
