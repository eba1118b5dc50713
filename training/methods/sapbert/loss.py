"""The loss of SapBERT: all names of a batch against each other, by the pairs that a miner keeps."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...engine.objectives import Loss, PairMiner, list_pairs


class Counts(NamedTuple):
    """Pairs that count, in both directions.

    positives (int): Pairs of one concept.
    negatives (int): Pairs of two concepts.
    """

    positives: int
    negatives: int


class Objective:
    """A loss, a miner and what counts as a negative.

    loss (Loss): The loss.
    miner (PairMiner | None): Chooses pairs; None for all.
    """

    def __init__(self, loss: Loss, miner: PairMiner | None) -> None:
        self.loss = loss
        self.miner = miner

    def __call__(
        self, embeddings: torch.Tensor, labels: torch.Tensor, names: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Counts]:
        """Compute the loss of a batch.

        embeddings (torch.Tensor): Shape (n, width).
        labels (torch.Tensor): The concept of each name, shape (n,).
        names (torch.Tensor | None): A number for each distinct name, to leave homonyms alone; None to push them apart.
        RETURNS (tuple[torch.Tensor, Counts]): The loss, and pairs that count.
        """
        pairs = list_pairs(labels, names)
        if self.miner is not None:
            pairs = self.miner(embeddings, pairs)
        return self.loss(embeddings, pairs), Counts(int(pairs.positives.sum()), int(pairs.negatives.sum()))
