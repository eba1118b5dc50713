"""What decides without annotations: the order of a mention's candidates, and how probable each one is.

A candidate's score is its cosine, plus a weight times the logarithm of the descendants of its concept, because mentions
are more general than the names nearest to them; more if its concept has the mention as a name, here or in the bridge;
and less if its name says the opposite. Where a candidate's name has the words of the mention, the cosine alone decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .network import Lists

if TYPE_CHECKING:
    from ..candidates import Candidates
    from .bridge import BridgedTerminology

# Chosen on development documents and on names of sources that were left out of the bridge (docs/results.md).
SIZE, BRIDGE, OPPOSITE = 0.0135, 0.2, 0.3
# Candidates that are farther behind the nearest are left alone.
WINDOW = 0.25
# Scores that differ by less are equal.
TIE = 1e-6
# The logit of a candidate's probability, fitted by `python -m spacy project run prior projects/reranker`.
CHANCE = {
    "bias": -6.269,
    "cosine": 5.612,
    "above_low": 3.528,
    "above_high": -7.777,
    "ahead": 7.35,
    "behind": -16.0,
    "tied": -0.711,
    "bridge": 0.656,
    "canonical_trigrams": 1.664,
    "opposite": -5.0,
}
# The cosine has another weight below, between and above these.
LOW, HIGH = 0.6, 0.8
# The probability that the best candidate needs for an id.
MIN_CHANCE = 0.3
# How far a candidate is ahead of the others counts up to these.
MOST_AHEAD, MOST_BEHIND = 0.3, 0.5
PRIOR = {
    "size": "a concept with others below it",
    "bridge": "its concept has the mention as a name",
    "opposite": "its name says the opposite",
    "prior": "first without annotations",
    "chance": "probable without annotations",
}

# Features that reasons before training are made of, where they are more than zero.
NAMED = frozenset(("name_same_words", "bridge", "size", "opposite"))


class Compared(NamedTuple):
    """What is known of candidates when the prior is computed: one value each."""

    cosine: np.ndarray
    same_words: np.ndarray  # whether the name has the words of the mention
    canonical_trigrams: np.ndarray  # how alike the canonical name and the mention are spelt


def compute_prior(
    found: Candidates,
    lists: Lists,
    compared: Compared,
    list_names: Callable[[np.ndarray], list[str]],
    known: BridgedTerminology,
) -> np.ndarray:
    """Compute the columns of `PRIOR`: shape (candidates, PRIOR), float32. `list_names` lists the names of candidates,
    given by their rows."""
    size, bridge, opposite = _consult(found, lists, compared, list_names, known)
    prior = compared.cosine + SIZE * size + BRIDGE * bridge - OPPOSITE * opposite
    signals = make_signals(lists, prior, bridge, opposite, compared)
    logit = sum((weight * signals[name] for name, weight in CHANCE.items()), np.zeros(len(prior)))
    chance = 1 / (1 + np.exp(-logit))
    return np.stack([size, bridge, opposite, prior, chance], axis=1).astype(np.float32)


def _consult(
    found: Candidates,
    lists: Lists,
    compared: Compared,
    list_names: Callable[[np.ndarray], list[str]],
    known: BridgedTerminology,
) -> tuple[np.ndarray, ...]:
    """Look up the candidates near the first one, unless one has the words of the mention. Return the logarithm of their
    sizes, whether their concepts have the mention as a name, and whether their names are opposites."""
    # Not at the top, because spaCy imports this module whenever it makes a pipeline.
    from .bridge import is_opposite, make_keys

    has_exact = lists.best(compared.same_words)[lists.mention] > 0
    is_near = compared.cosine >= lists.best(compared.cosine)[lists.mention] - WINDOW
    rows = np.flatnonzero(is_near & ~has_exact)
    keys = make_keys([forms[0] if forms else "" for forms in found.forms])
    of_mention, key_of = known.bridge.find(keys), keys.tolist()
    concepts = found.concept[rows].tolist()
    facts = known.look_up(concepts)
    size, bridge, opposite = np.zeros((3, lists.n_candidates))
    bridge[has_exact & (compared.same_words > 0)] = 1
    asked = zip(rows.tolist(), lists.mention[rows].tolist(), found.form[rows].tolist(), list_names(rows), strict=True)
    for concept, (row, mention, form, name) in zip(concepts, asked, strict=True):
        of_concept = facts[concept]
        size[row] = of_concept.size
        bridge[row] = key_of[mention] in of_concept.keys or not of_concept.clusters.isdisjoint(of_mention[mention])
        opposite[row] = is_opposite(found.forms[mention][form], name, known.bridge)
    return size, bridge, opposite


def make_signals(
    lists: Lists,
    prior: np.ndarray,
    bridge: np.ndarray,
    opposite: np.ndarray,
    compared: Compared,
) -> dict[str, np.ndarray]:
    """Make what the probability of each candidate depends on, by the names in `CHANCE`."""
    order = lists.sort(prior)
    ordered = prior[order]
    first = np.repeat(lists.first(ordered), lists.lengths)
    second = lists.first(np.append(ordered[1:], -1.0)) if len(ordered) else np.zeros(lists.n_mentions)
    second[lists.lengths < 2] = -1.0
    gap = np.empty_like(prior)
    gap[order] = np.where(lists.place == 0, ordered - second[lists.mention], ordered - first)
    return {
        "bias": np.ones_like(prior),
        "cosine": compared.cosine,
        "above_low": np.maximum(compared.cosine - LOW, 0),
        "above_high": np.maximum(compared.cosine - HIGH, 0),
        "ahead": np.clip(gap, 0, MOST_AHEAD),
        "behind": np.clip(-gap, 0, MOST_BEHIND),
        "tied": np.abs(gap) < TIE,
        "bridge": bridge,
        "canonical_trigrams": compared.canonical_trigrams,
        "opposite": opposite,
    }
