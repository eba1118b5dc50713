"""The losses of CODER: over names of one concept, and over heads and tails (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ...engine.objectives import MultiSimilarityLoss, PairMiner, Pairs, cosines_between, list_pairs
from .family_settings import ResolvedConstants, resolve
from .relations import Relations
from .settings import CoderSettings


class BatchLabels(NamedTuple):
    """Labels of the names of a batch: k heads, then k tails, and optionally k random concepts.

    concepts (torch.Tensor): The concept of each, shape (2k,) or (3k,), int64.
    relations (torch.Tensor): The label of each triplet, shape (k,), int64.
    known (torch.Tensor | None): Whether head i has its relation to tail j in the graph, shape (k, k), bool, to exclude
        such pairs from the negatives; None to count them as negatives.
    names (torch.Tensor | None): A number for each distinct name, shaped like `concepts`, to exclude homonyms from the
        negatives; None to count them as negatives.
    """

    concepts: torch.Tensor
    relations: torch.Tensor
    known: torch.Tensor | None = None
    names: torch.Tensor | None = None


class MinedLoss(NamedTuple):
    """A loss, and the numbers of mined pairs.

    loss (torch.Tensor): One number.
    positives, negatives (int): Mined pairs.
    share (float): Share of mined pairs among all pairs.
    """

    loss: torch.Tensor
    positives: int
    negatives: int
    share: float


class SimilarityObjective:
    """The Multi-Similarity loss of mined pairs.

    constants (ResolvedConstants): The constants of loss and miner.
    """

    def __init__(self, constants: ResolvedConstants) -> None:
        self.loss = MultiSimilarityLoss(constants.alpha, constants.beta, constants.base)
        self.miner = PairMiner(constants.margin, "cosine")

    def __call__(self, similarities: torch.Tensor, pairs: Pairs) -> MinedLoss:
        """Compute the loss."""
        # The miner only compares differences, so negative similarities serve as distances.
        mined = self.miner.choose(-similarities, pairs)
        positives, negatives = int(mined.positives.sum()), int(mined.negatives.sum())
        n_pairs = int(pairs.positives.sum()) + int(pairs.negatives.sum())
        share = (positives + negatives) / max(1, n_pairs)
        return MinedLoss(self.loss.sum_up(similarities, mined), positives, negatives, share)


class MarginObjective:
    """max(0, margin + |h + r - t| - |h + r - t'|) with a random concept t' (TransE: Bordes et al., NIPS 2013).

    margin (float): The required extra distance of the random concept.
    """

    def __init__(self, margin: float) -> None:
        self.margin = margin

    def __call__(self, right: torch.Tensor, wrong: torch.Tensor) -> MinedLoss:
        """Compute the mean over triplets."""
        costs = torch.relu(self.margin + wrong - right)
        n_violated = int((costs > 0).sum())
        return MinedLoss(costs.mean(), n_violated, n_violated, n_violated / len(costs))


class CoderLoss:
    """L = L_MS + mu L_MS^rel, or the released code's variant: L_MS and a margin loss.

    settings (CoderSettings): Constants.
    relations (Relations | None): The relations, which map heads; None for only the term loss.
    width (int): Width of the vectors.
    """

    def __init__(self, settings: CoderSettings, relations: Relations | None, width: int) -> None:
        kind, weight = settings.loss.relations, settings.relations.weight
        self.relations = relations
        self.of_terms = SimilarityObjective(resolve(settings.terms, "none", width))
        constants = resolve(settings.relations, kind, width)
        self.of_relations = SimilarityObjective(constants)
        self.of_margins = MarginObjective(constants.margin) if kind == "transe_margin" else None
        # As in the paper: translations have a smaller weight.
        self.weight = (0.1 if kind == "transe" else 1.0) if weight is None else weight

    def __call__(
        self, embeddings: torch.Tensor, labels: BatchLabels
    ) -> tuple[torch.Tensor, tuple[MinedLoss, MinedLoss | None]]:
        """Compute the loss of a batch."""
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
    """Label the positive tails of each head: names of the tail of its triplet."""
    tails = labels.concepts.chunk(2)[1]
    same = tails[:, None] == tails[None, :]
    negatives = ~same if labels.known is None else ~same & ~labels.known
    return Pairs(same, same, negatives)


def group_by_decay(transformer: torch.nn.Module) -> list[dict[str, Any]]:
    """Group parameters for AdamW. As in CODER's released code, biases and layer normalisation do not decay."""
    decaying: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for module in transformer.modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_spared = name == "bias" or isinstance(module, torch.nn.LayerNorm)
            (others if is_spared else decaying).append(parameter)
    return [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
