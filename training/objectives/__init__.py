"""What an encoder is trained for: which pairs of a batch count, and what they cost."""

from .losses import LOSSES, Loss, make_loss
from .miner import PairMiner, Pairs, list_pairs, make_miner

__all__ = ["LOSSES", "Loss", "PairMiner", "Pairs", "list_pairs", "make_loss", "make_miner"]
