"""Online mining of hard pairs in a batch (Liu et al., NAACL 2021, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch

from ...errors import Errors
from .distances import cosines, distances

MinerPreset = Literal["sapbert", "coder", "off"]


class Pairs(NamedTuple):
    """Pairs of names of a batch, as masks of shape (n, n), bool; or pairs between two sets, of shape (n, m).

    same (torch.Tensor): All pairs of one label. A name is not paired with itself.
    positives (torch.Tensor): The chosen pairs of one label.
    negatives (torch.Tensor): The chosen pairs of different labels.
    """

    same: torch.Tensor
    positives: torch.Tensor
    negatives: torch.Tensor


@dataclass(frozen=True)
class PairMiner:
    """Keep the pairs that occur in a triplet violating the margin.

    A triplet (anchor, positive, negative) violates the margin if d(a, n) <= d(a, p) + margin. Eq. 1 of the paper prints
    the opposite sign; the published search space of the margin and the released code agree with this one. A positive
    pair is kept if the nearest negative violates the margin with it, a negative pair if the farthest positive does. So
    triplets need not be listed, and memory grows with the square of the batch size, not its cube.

    margin (float): The required extra distance of negatives.
    metric (str): "euclidean" for distances of unit vectors (SapBERT, 0.2), "cosine" for 1 - cosine (CODER, 0.1).
    """

    margin: float = 0.2
    metric: Literal["euclidean", "cosine"] = "euclidean"

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> Pairs:
        """Choose pairs. The choice has no gradient.

        embeddings (torch.Tensor): Shape (n, width).
        pairs (Pairs): All pairs.
        RETURNS (Pairs): The hard pairs.
        """
        with torch.no_grad():
            similarities = cosines(embeddings)
            far = distances(similarities) if self.metric == "euclidean" else 1.0 - similarities
        return self.choose(far, pairs)

    def choose(self, far: torch.Tensor, pairs: Pairs) -> Pairs:
        """Choose pairs by any distances, also between two sets. The choice has no gradient.

        far (torch.Tensor): Distances between anchors and the other set, shape (n, m).
        pairs (Pairs): All pairs, of the same shape.
        RETURNS (Pairs): The hard pairs.
        """
        with torch.no_grad():
            nearest_negative = far.masked_fill(~pairs.negatives, torch.inf).amin(dim=1, keepdim=True)
            farthest_positive = far.masked_fill(~pairs.positives, -torch.inf).amax(dim=1, keepdim=True)
            # As a difference, like the triplet condition itself, so that rounding is the same.
            positives = pairs.positives & (nearest_negative - far <= self.margin)
            negatives = pairs.negatives & (far - farthest_positive <= self.margin)
        return Pairs(pairs.same, positives, negatives)


def make_miner(preset: MinerPreset, margin: float | None = None) -> PairMiner | None:
    """Make a miner with published constants.

    preset (str): "sapbert" (Euclidean, 0.2), "coder" (cosine, 0.1) or "off" for all pairs.
    margin (float | None): Another margin.
    RETURNS (PairMiner | None): The miner; None for all pairs.
    RAISES (ValueError): If the preset is unknown, or a margin is given without a miner.
    """
    presets = {"sapbert": PairMiner(0.2, "euclidean"), "coder": PairMiner(0.1, "cosine"), "off": None}
    if preset not in presets:
        raise ValueError(Errors.E620.format(what="miner", value=preset, allowed=", ".join(presets)))
    miner = presets[preset]
    if margin is None:
        return miner
    if miner is None or margin < 0:
        raise ValueError(Errors.E679.format(margin=margin, miner=preset))
    return replace(miner, margin=margin)


def list_pairs(labels: torch.Tensor, names: torch.Tensor | None = None) -> Pairs:
    """List the pairs of a batch with equal and with different labels.

    labels (torch.Tensor): A number for the concept of each name; shape (n,), int64.
    names (torch.Tensor | None): A number for each distinct name, shape (n,), to exclude homonyms (equal names of
        different concepts) from the negatives. None, as in the paper: homonyms are negatives.
    RETURNS (Pairs): All pairs of the batch.
    """
    same = labels[:, None] == labels[None, :]
    positives = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    negatives = ~same
    if names is not None:
        negatives = negatives & (names[:, None] != names[None, :])
    return Pairs(positives, positives, negatives)
