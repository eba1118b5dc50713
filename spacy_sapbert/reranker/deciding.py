"""From scores to decisions: the order of the candidates, their probabilities, and NIL."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..annotations import NIL
from ..candidates import Candidate
from ..link_writing import Decision
from .concepts import ConceptTable
from .learned import Learned
from .lists import Lists, Proposal
from .network import ListInput
from .settings import RerankerSettings


class Scored(NamedTuple):
    """Candidates of mentions with their probabilities.

    proposals (list[Proposal]): The candidates of each mention.
    given (ListInput): What the network saw.
    raw (ndarray): Probability of the softmax of each candidate.
    raw_nil (ndarray): Probability of the softmax of NIL for each mention.
    order (ndarray): Rows of the candidates, best first, mention after mention.
    """

    proposals: list[Proposal]
    given: ListInput
    raw: np.ndarray
    raw_nil: np.ndarray
    order: np.ndarray

    @property
    def lists(self) -> Lists:
        """Return which candidates are whose.

        RETURNS (Lists): Their places.
        """
        return self.given.lists

    @property
    def best(self) -> np.ndarray:
        """Return the probability of each mention's best candidate.

        RETURNS (ndarray): Of the softmax; zero for mentions without candidates.
        """
        return self.lists.first(self.raw[self.order])


def score_rows(proposals: list[Proposal], given: ListInput, logits: np.ndarray) -> Scored:
    """Turn the network's scores into probabilities and an order.

    proposals (list[Proposal]): The candidates of each mention.
    given (ListInput): What the network saw.
    logits (ndarray): The scores, with a row for NIL.
    RETURNS (Scored): The result. Candidates with equal scores stay in their order.
    """
    lists = given.lists
    probabilities = lists.softmax(logits)
    rows = np.arange(lists.n_candidates) + lists.mention
    return Scored(proposals, given, probabilities[rows], probabilities[lists.nil_rows], lists.sort(logits))


def decide(scored: Scored, settings: RerankerSettings, learned: Learned, table: ConceptTable) -> list[Decision]:
    """Decide on mentions.

    scored (Scored): Their candidates.
    settings (RerankerSettings): The reranker's settings.
    learned (Learned): Its calibration, and its threshold.
    table (ConceptTable): What the terminology says of concepts.
    RETURNS (list[Decision]): The best candidates of each mention, and its concept or NIL with the probability.
    """
    lists = scored.lists
    calibrated = learned.concept.apply(scored.raw[scored.order])
    nil = learned.nil.apply(scored.raw_nil)
    best = lists.first(calibrated)
    threshold = settings.nil_threshold if settings.nil_threshold is not None else learned.threshold
    is_nil = (scored.raw_nil > scored.best) if threshold is None else (best < threshold)
    is_nil |= lists.lengths == 0
    probabilities = np.where(is_nil, nil, best).tolist()
    empty = NIL if settings.set_nil else ""
    decisions = []
    for mention, (proposal, start, n) in enumerate(
        zip(scored.proposals, lists.offsets[:-1].tolist(), lists.lengths.tolist(), strict=True)
    ):
        end = start + min(n, settings.k)
        places = (scored.order[start:end] - start).tolist()
        kept = [
            _copy(proposal.made.get(place) or _make(proposal, place, table), probability)
            for place, probability in zip(places, calibrated[start:end].tolist(), strict=True)
        ]
        kb_id = empty if is_nil[mention] else kept[0]["id"]
        decisions.append(Decision(kept, kb_id, probabilities[mention]))
    return decisions


def _make(proposal: Proposal, place: int, table: ConceptTable) -> Candidate:
    form = proposal.forms[proposal.found_by[place]]
    return proposal.made.setdefault(place, table.make(form, proposal.get_hit(place)))


def _copy(candidate: Candidate, probability: float) -> Candidate:
    # Copies, because the kept ones serve other mentions too.
    return {**candidate, "types": [*candidate["types"]], "probability": probability}
