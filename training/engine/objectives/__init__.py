"""Training objectives: miners, which choose pairs of a batch, and losses."""

from .distances import cosines_between
from .losses import LOSSES, Loss, MultiSimilarityLoss, make_loss
from .miner import PairMiner, Pairs, list_pairs, make_miner

__all__ = [
    "LOSSES",
    "Loss",
    "MultiSimilarityLoss",
    "PairMiner",
    "Pairs",
    "cosines_between",
    "list_pairs",
    "make_loss",
    "make_miner",
]
