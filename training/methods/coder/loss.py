"""The losses of CODER: between names of one concept, and between heads and tails (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...engine.objectives import MultiSimilarityLoss, PairMiner, Pairs, cosines_between, list_pairs
from .family_settings import ResolvedConstants, resolve
from .relations import Relations
from .settings import CoderSettings


class BatchLabels(NamedTuple):
    """Labels of the names of a batch: of k heads, then of k tails, and of k random concepts if there are.

    concepts (torch.Tensor): The concept of each, shape (2k,) or (3k,), int64.
    relations (torch.Tensor): The label of each triplet, shape (k,), int64.
    known (torch.Tensor | None): Whether head i has its relation to tail j, shape (k, k), bool; None to count
        other triples of the graph as negatives.
    names (torch.Tensor | None): A number for each name, shaped like `concepts`, to leave homonyms alone; None to push
        them apart.
    """

    concepts: torch.Tensor
    relations: torch.Tensor
    known: torch.Tensor | None = None
    names: torch.Tensor | None = None


class MinedLoss(NamedTuple):
    """A loss, and the pairs that it counts.

    loss (torch.Tensor): One number.
    positives, negatives (int): Pairs that count.
    share (float): Share of all pairs that count.
    """

    loss: torch.Tensor
    positives: int
    negatives: int
    share: float


class SimilarityObjective:
    """The Multi-Similarity loss of the pairs that its miner keeps.

    constants (ResolvedConstants): Of both.
    """

    def __init__(self, constants: ResolvedConstants) -> None:
        self.loss = MultiSimilarityLoss(constants.alpha, constants.beta, constants.base)
        self.miner = PairMiner(constants.margin, "cosine")

    def __call__(self, similarities: torch.Tensor, pairs: Pairs) -> MinedLoss:
        """Compute the loss.

        similarities (torch.Tensor): Shape (n, m).
        pairs (Pairs): All pairs, of the same shape.
        RETURNS (MinedLoss): Loss and counts.
        """
        # The miner compares differences only, so that a negative similarity is as good as a distance.
        mined = self.miner.choose(-similarities, pairs)
        positives, negatives = int(mined.positives.sum()), int(mined.negatives.sum())
        n_pairs = int(pairs.positives.sum()) + int(pairs.negatives.sum())
        share = (positives + negatives) / max(1, n_pairs)
        return MinedLoss(self.loss.sum_up(similarities, mined), positives, negatives, share)


class MarginObjective:
    """max(0, margin + |h + r - t| - |h + r - t'|) with a random concept t' (TransE: Bordes et al., NIPS 2013).

    margin (float): How much farther the random concept has to be than the tail.
    """

    def __init__(self, margin: float) -> None:
        self.margin = margin

    def __call__(self, right: torch.Tensor, wrong: torch.Tensor) -> MinedLoss:
        """Compute the mean over triplets.

        right (torch.Tensor): Minus the distance to the tail, shape (k,).
        wrong (torch.Tensor): Minus the distance to the random concept, shape (k,).
        RETURNS (MinedLoss): Loss, and the triplets for which it is not 0.
        """
        costs = torch.relu(self.margin + wrong - right)
        n_violated = int((costs > 0).sum())
        return MinedLoss(costs.mean(), n_violated, n_violated, n_violated / len(costs))


class CoderLoss:
    """L = L_MS + mu L_MS^rel; or, of the released code, L_MS and a margin.

    settings (CoderSettings): Constants.
    relations (Relations | None): They map heads; None for the loss of terms alone.
    width (int): Of the vectors.
    """

    def __init__(self, settings: CoderSettings, relations: Relations | None, width: int) -> None:
        kind, weight = settings.loss.relations, settings.relations.weight
        self.relations = relations
        self.of_terms = SimilarityObjective(resolve(settings.terms, "none", width))
        constants = resolve(settings.relations, kind, width)
        self.of_relations = SimilarityObjective(constants)
        self.of_margins = MarginObjective(constants.margin) if kind == "transe_margin" else None
        # As in the paper, which gives translations less weight.
        self.weight = (0.1 if kind == "transe" else 1.0) if weight is None else weight

    def __call__(
        self, embeddings: torch.Tensor, labels: BatchLabels
    ) -> tuple[torch.Tensor, tuple[MinedLoss, MinedLoss | None]]:
        """Compute the loss of a batch.

        embeddings (torch.Tensor): Of k heads, then of k tails, and of k random concepts for margins: shape (2k, width)
            or (3k, width).
        labels (BatchLabels): What they are.
        RETURNS (tuple[torch.Tensor, tuple[MinedLoss, MinedLoss | None]]): The sum, and both parts.
        """
        terms = self.of_terms(cosines_between(embeddings, embeddings), list_pairs(labels.concepts, labels.names))
        if self.relations is None:
            return terms.loss, (terms, None)
        heads, tails, *others = embeddings.split(len(labels.relations))
        similarities = self.relations(heads, labels.relations, tails)
        if self.of_margins is None:
            relations = self.of_relations(similarities, list_relation_pairs(labels))
        else:
            wrong = self.relations(heads, labels.relations, others[0])
            relations = self.of_margins(similarities.diagonal(), wrong.diagonal())
        return terms.loss + self.weight * relations.loss, (terms, relations)


def list_relation_pairs(labels: BatchLabels) -> Pairs:
    """Mark the right tails of each head: names of the tail of its triplet.

    labels (BatchLabels): What heads and tails are.
    RETURNS (Pairs): Masks of shape (k, k).
    """
    tails = labels.concepts.chunk(2)[1]
    same = tails[:, None] == tails[None, :]
    negatives = ~same if labels.known is None else ~same & ~labels.known
    return Pairs(same, same, negatives)
