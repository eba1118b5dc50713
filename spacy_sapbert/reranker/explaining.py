"""Why a candidate is where it is: the features that speak for it, in words, and its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..candidates import Candidate
from ..link_writing import Decision
from .deciding import Scored
from .features.listing import FEATURES
from .lists import Lists
from .network import ListInput, NetworkModel

if TYPE_CHECKING:
    from ..terminology.table import Terminology

# Features that a reason names, and the logit that each has to add.
NAMED, LEAST = 3, 0.1


def explain(
    decisions: Sequence[Decision],
    scored: Scored,
    model: NetworkModel,
    terminology: Terminology,
    features: Sequence[str],
) -> list[Decision]:
    """Add a definition and a reason to the candidates of decisions.

    decisions (Sequence[Decision]): The decisions.
    scored (Scored): What they were made from.
    model (Model[ListInput, ndarray]): The network.
    terminology (Terminology): The concepts.
    features (Sequence[str]): The features of the network.
    RETURNS (list[Decision]): The decisions with their candidates explained.
    """
    lengths = [len(decision.candidates) for decision in decisions]
    rows = [scored.order[start : start + n] for start, n in zip(scored.lists.offsets[:-1], lengths, strict=True)]
    kept = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
    given = ListInput(scored.given.features[kept], scored.given.scores[kept], Lists(lengths))
    reasons = iter(_find_reasons(given, model, [FEATURES[name] for name in features]))
    explained = []
    for decision in decisions:
        candidates = [_explain(candidate, next(reasons), terminology) for candidate in decision.candidates]
        explained.append(decision._replace(candidates=candidates))
    return explained


def _explain(candidate: Candidate, reason: str, terminology: Terminology) -> Candidate:
    definition = terminology[candidate["concept_id"]].definition
    return {**candidate, "definition": definition or "", "reason": reason}


def _find_reasons(given: ListInput, model: NetworkModel, words: Sequence[str]) -> list[str]:
    """Take each feature away, that is put its mean in its place, and see how much lower the candidates' logits are."""
    lists, mean = given.lists, model.get_param("mean")
    rows = np.arange(lists.n_candidates) + lists.mention
    logits = model.predict(given)[rows]
    gains = np.zeros_like(given.features)
    for column in range(given.features.shape[1]):
        features = given.features.copy()
        features[:, column] = mean[column]
        gains[:, column] = logits - model.predict(given._replace(features=features))[rows]
    # The words of a feature fit only where there is more of it than usual.
    gains[given.features <= mean] = 0
    best = np.argsort(-gains, axis=1)[:, :NAMED]
    return ["; ".join(words[f] for f in of if gains[row, f] > LEAST) for row, of in enumerate(best.tolist())]
