"""Score decisions: links as those of a linker, NIL, and how far the probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
from spacy.training import Example

from ..annotations import NIL, get_candidates
from ..scorer import iter_entities, linker_score
from .calibration import area_under_roc, calibration_error, coverage_at, nil_scores

NO_LINK = ("", NIL)
NIL_SCORES = ("nel_nil_p", "nel_nil_r", "nel_nil_f")


def make_reranker_scorer() -> Callable[..., dict[str, Any]]:
    """Create the scorer of the reranker, for the registry of scorers.

    RETURNS (Callable[..., dict[str, Any]]): The function `reranker_score`.
    """
    return reranker_score


def reranker_score(
    examples: Iterable[Example],
    *,
    linker: str,
    resolve: Callable[[str], Collection[str]] | None = None,
    **kwargs: Any,
) -> dict[str, float | None]:
    """Compare predicted with gold decisions on entities that have the same boundaries in both.

    examples (Iterable[Example]): The examples.
    linker (str): The name of the reranker.
    resolve (Callable[[str], Collection[str]] | None): Gives the terminology's ids of which any is right for a gold id.
        A gold id for which there are none counts as NIL.
    RETURNS (dict[str, float | None]): The scores of `linker_score`, and, None where nothing can be computed:
        nel_nil_p, nel_nil_r, nel_nil_f: precision, recall and F-score of NIL.
        nel_ece: expected calibration error of the best concepts' probabilities.
        nel_auroc: how often a right best concept has a higher probability than a wrong one.
        nel_coverage_at_95: share of mentions that the best threshold keeps at a precision of .95.
    """
    examples = list(examples)
    nil: list[bool] = []
    predicted_nil: list[bool] = []
    probabilities: list[float] = []
    is_right: list[bool] = []
    for gold, ent in iter_entities(examples):
        if ent is None or not gold.kb_id_:
            continue
        ids = {gold.kb_id_} if resolve is None else {*resolve(gold.kb_id_)}
        ids -= {*NO_LINK}
        nil.append(not ids)
        predicted_nil.append(ent.kb_id_ in NO_LINK)
        candidates = get_candidates(ent, linker)
        if candidates:
            probabilities.append(candidates[0]["probability"])
            is_right.append(candidates[0]["id"] in ids)
    scores = linker_score(examples, linker=linker, resolve=resolve, **kwargs)
    of_nil = nil_scores(np.array(nil), np.array(predicted_nil)) if any(nil) else (None,) * len(NIL_SCORES)
    scores |= dict(zip(NIL_SCORES, of_nil, strict=True))
    return scores | _score_probabilities(np.array(probabilities), np.array(is_right, dtype=bool))


def _score_probabilities(probabilities: np.ndarray, is_right: np.ndarray) -> dict[str, float | None]:
    if not len(probabilities):
        return dict.fromkeys(("nel_ece", "nel_auroc", "nel_coverage_at_95"))
    return {
        "nel_ece": calibration_error(probabilities, is_right),
        "nel_auroc": area_under_roc(probabilities, is_right),
        "nel_coverage_at_95": coverage_at(probabilities, is_right),
    }
