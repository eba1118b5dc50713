"""The objective of SapBERT: a loss over the mined pairs of a batch."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ...engine.objectives import Loss, PairMiner, list_pairs


class Counts(NamedTuple):
    """Numbers of mined pairs, in both directions.

    positives (int): Pairs of one concept.
    negatives (int): Pairs of two concepts.
    """

    positives: int
    negatives: int


class Objective:
    """A loss and a miner.

    loss (Loss): The loss.
    miner (PairMiner | None): The miner; None for all pairs.
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
        names (torch.Tensor | None): A number for each distinct name, to exclude homonyms from the negatives; None to
            include them.
        RETURNS (tuple[torch.Tensor, Counts]): The loss, and the numbers of mined pairs.
        """
        pairs = list_pairs(labels, names)
        if self.miner is not None:
            pairs = self.miner(embeddings, pairs)
        return self.loss(embeddings, pairs), Counts(int(pairs.positives.sum()), int(pairs.negatives.sum()))
