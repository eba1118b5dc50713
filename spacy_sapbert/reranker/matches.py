"""How probable a concept is for words that the matcher has found. They may be no mention, or mean something else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..candidates import Matched
from .calibration import logit, sigmoid

# The logit of the probability that a match and its concept are right, fitted by
# `python -m spacy project run prior projects/reranker`.
FOUND = {
    "bias": -0.533,
    "chance": 0.376,
    "doubt": 1.0,
    "trust": 0.49,
    "trust_other": -0.528,
    "several": 0.835,
    "as form": 0.12,
    "as classes": 0.443,
    "as coordination": 1.05,
    "as definition": -0.045,
    "as derived": 1.429,
    "as said": 1.043,
    "as spelling": -1.394,
    "as gap": 0.444,
}
# Words that are those of the name, or stand for it in the document. Trust in the name says less of other words.
NAMES = ("exact", "form", "definition")
# Concepts are doubtful with a logit below this, for a mention that somebody else has found.
DOUBTFUL = -1.5
Match = tuple[tuple[str, ...], Matched]  # the strings to look up for a mention, and what the matcher has found


def make_match_signals(chance: np.ndarray, matches: Sequence[Match]) -> dict[str, np.ndarray]:
    """Make what the probability of each match depends on, by the names in `FOUND`, given how probable its concept would
    be for a mention that somebody else has found."""
    # Its expressions take long to compile, and spaCy imports this module whenever it makes a pipeline.
    from ..lexicon.trust import WAYS

    forms, found = zip(*matches, strict=True) if matches else ((), ())
    trust, score = logit(np.array([match.trust for match in found])), logit(chance)
    way = np.array([match.how for match in found], dtype=str)
    several = np.array([" " in of[0] if of else False for of in forms], dtype=bool)
    return {
        "bias": np.ones_like(chance),
        "chance": score,
        "doubt": np.minimum(score - DOUBTFUL, 0),
        "trust": trust,
        "trust_other": trust * ~np.isin(way, NAMES),
        "several": several * (way == "exact"),
        **{f"as {other}": np.float64(way == other) for other in WAYS if other != "exact"},
    }


def judge_matches(chance: np.ndarray, matches: Sequence[Match]) -> np.ndarray:
    """Compute how probable concepts are, given this for mentions that somebody else has found, which keep theirs."""
    signals = make_match_signals(chance, matches)
    total = sum((weight * signals[name] for name, weight in FOUND.items()), np.zeros_like(chance))
    is_found = np.array([bool(match.how) for _, match in matches], dtype=bool)
    return np.where(is_found & (chance > 0), sigmoid(total), chance)
