"""Training objectives: the pairs of a batch, the miner that chooses hard ones (Liu et al., NAACL 2021, section 2), and
the losses compared in the paper's table 6, over masks of pairs.

All compute in single precision, and their memory grows with the square of the batch. So do the losses of
pytorch-metric-learning, except for three which list all pairs of pairs: these are written here. The loss of a batch
without pairs is 0 and can be backpropagated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from pytorch_metric_learning import losses as library
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.reducers import AvgNonZeroReducer
from torch.nn.functional import normalize, relu, softplus


class Pairs(NamedTuple):
    """Pairs of names of a batch, as masks of shape (n, n), bool; or pairs between two sets, of shape (n, m)."""

    # All pairs of one label. A name is not paired with itself.
    same: torch.Tensor
    # The chosen pairs, of one label and of different labels.
    positives: torch.Tensor
    negatives: torch.Tensor


# Computes the loss of embeddings, shape (n, width), their labels, shape (n,), and their pairs: a scalar, float32.
Loss = Callable[[torch.Tensor, torch.Tensor, Pairs], torch.Tensor]


def cosines_between(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Compute all cosines between vectors of any length: shape (n, m), float32, or float64 for float64."""
    # Half precision overflows: exp(50 (s - 0.5)) exceeds it from s = 0.72 on.
    dtype = torch.promote_types(torch.promote_types(left.dtype, right.dtype), torch.float32)
    return normalize(left.to(dtype), dim=1) @ normalize(right.to(dtype), dim=1).T


def cosines(embeddings: torch.Tensor) -> torch.Tensor:
    """Compute all cosines of a batch, in float32."""
    unit = normalize(embeddings.float(), dim=1)
    return unit @ unit.T


def distances(similarities: torch.Tensor) -> torch.Tensor:
    """Convert cosines to Euclidean distances of unit vectors: d² = 2 - 2 cos."""
    # The square root has no gradient at 0; single precision doesn't resolve so small a number.
    return (2.0 - 2.0 * similarities).clamp(min=1e-12).sqrt()


def list_pairs(labels: torch.Tensor, names: torch.Tensor | None = None) -> Pairs:
    """List the pairs of a batch with equal and with different labels. Homonyms, equal names of different concepts, are
    negatives as in the paper, unless `names` has a number for each distinct name.
    """
    same = labels[:, None] == labels[None, :]
    positives = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    negatives = ~same
    if names is not None:
        negatives = negatives & (names[:, None] != names[None, :])
    return Pairs(positives, positives, negatives)


@dataclass(frozen=True)
class PairMiner:
    """Keep the pairs that occur in a triplet violating the margin.

    A triplet (anchor, positive, negative) violates the margin if d(a, n) <= d(a, p) + margin. Eq. 1 of the paper prints
    the opposite sign; the published search space of the margin and the released code agree with this one. A positive
    pair is kept if the nearest negative violates the margin with it, a negative pair if the farthest positive does. So
    triplets need not be listed, and memory grows with the square of the batch size, not its cube.
    """

    margin: float = 0.2
    # Distances of unit vectors, or 1 - cosine.
    metric: Literal["euclidean", "cosine"] = "euclidean"

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> Pairs:
        """Choose hard pairs of embeddings, shape (n, width). The choice has no gradient."""
        with torch.no_grad():
            similarities = cosines(embeddings)
            far = distances(similarities) if self.metric == "euclidean" else 1.0 - similarities
        return self.choose(far, pairs)

    def choose(self, far: torch.Tensor, pairs: Pairs) -> Pairs:
        """Choose hard pairs by any distances between anchors and another set, shape (n, m)."""
        with torch.no_grad():
            nearest_negative = far.masked_fill(~pairs.negatives, torch.inf).amin(dim=1, keepdim=True)
            farthest_positive = far.masked_fill(~pairs.positives, -torch.inf).amax(dim=1, keepdim=True)
            # As a difference, like the triplet condition itself, so that rounding is the same.
            positives = pairs.positives & (nearest_negative - far <= self.margin)
            negatives = pairs.negatives & (far - farthest_positive <= self.margin)
        return Pairs(pairs.same, positives, negatives)


def make_miner(preset: str, margin: float | None = None) -> PairMiner | None:
    """Make the miner "sapbert" (Euclidean, 0.2) or "coder" (cosine, 0.1), with another margin if one is given; None for
    "off", which takes all pairs.
    """
    miner = {"sapbert": PairMiner(0.2, "euclidean"), "coder": PairMiner(0.1, "cosine"), "off": None}[preset]
    if margin is None:
        return miner
    if miner is None or margin < 0:
        raise ValueError(
            f"objective.margin is {margin}, with the miner {preset!r}. A margin is 0 or more, and needs a miner: set "
            'objective.miner to "sapbert" or "coder", or objective.margin to null.'
        )
    return replace(miner, margin=margin)


class MultiSimilarityLoss(NamedTuple):
    """The Multi-Similarity loss of given similarities, also between two sets, which the library's does not take. Of
    alpha for positive and beta for negative pairs; Eq. 2 of the SapBERT paper swaps the letters.
    """

    alpha: float = 2.0
    beta: float = 50.0
    base: float = 0.5

    def sum_up(self, similarities: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """Compute the mean over the rows of similarities, shape (n, m)."""
        pull = softplus(_log_sum_exp(-self.alpha * (similarities - self.base), pairs.positives)) / self.alpha
        push = softplus(_log_sum_exp(self.beta * (similarities - self.base), pairs.negatives)) / self.beta
        return (pull + push).mean()


def make_multi_similarity(alpha: float = 2.0, beta: float = 50.0, base: float = 0.5) -> Loss:
    """Multi-Similarity loss (Wang et al., CVPR 2019), the mean over all names of the batch."""
    return _of_library(library.MultiSimilarityLoss(alpha, beta, base))


def make_cosine() -> Loss:
    """Cosine loss: 1 - cosine of positive pairs, and the positive part of the cosine of negative pairs, each averaged
    over its non-zero values. The paper cites Phan et al. (ACL 2019); the released code has no such loss.
    """
    return _of_library(library.ContrastiveLoss(pos_margin=1, neg_margin=0, distance=CosineSimilarity()))


def make_triplet(margin: float = 0.2) -> Loss:
    """Triplet loss: the positive part of d(a, p) - d(a, n) + margin, averaged over its non-zero values."""

    def cost(similar: torch.Tensor, negatives: torch.Tensor, anchors: torch.Tensor, partners: torch.Tensor) -> Any:
        far = distances(similar)
        costs = relu(far[anchors, partners][:, None] - far[anchors] + margin)[negatives[anchors]]
        return costs.sum() / (costs > 0).sum().clamp(min=1)

    return _of_positives(cost)


def make_nca(scale: float = 20.0) -> Loss:
    """Neighbourhood components analysis (Goldberger et al., NIPS 2005) over all names of the batch. The mined pairs
    only weight the names, by the number of pairs that each occurs in.
    """
    # -d² = 2 cos - 2, and a constant changes no softmax.
    loss = _of_library(library.NCALoss(2 * scale, distance=CosineSimilarity()))

    def compute(embeddings: torch.Tensor, labels: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        # The library's mean of no names is NaN.
        return loss(embeddings, labels, pairs) if pairs.same.any() else 0.0 * embeddings.float().sum()

    return compute


def make_lifted_structure(margin: float = 0.5) -> Loss:
    """Lifted structure loss (Oh Song et al., CVPR 2016): each positive pair against all negatives of both names."""

    def cost(similar: torch.Tensor, negatives: torch.Tensor, anchors: torch.Tensor, partners: torch.Tensor) -> Any:
        far = distances(similar)
        per_name = _log_sum_exp(margin - far, negatives)
        push = torch.logaddexp(per_name[anchors], per_name[partners])
        push = torch.where(torch.isfinite(push), push, torch.zeros_like(push))
        return (relu(push + far[anchors, partners]) ** 2 / 2).mean()

    return _of_positives(cost)


def make_info_nce(temperature: float = 0.07) -> Loss:
    """InfoNCE (Oord et al., 2018): each positive pair against all negatives of its anchor, averaged over pairs."""

    def cost(similar: torch.Tensor, negatives: torch.Tensor, anchors: torch.Tensor, partners: torch.Tensor) -> Any:
        logits = similar / temperature
        push = _log_sum_exp(logits, negatives)[anchors]
        # -log(e^s / (e^s + sum e^n)) = softplus(log sum e^n - s)
        return softplus(push - logits[anchors, partners]).mean()

    return _of_positives(cost)


def make_circle(m: float = 0.25, gamma: float = 256.0) -> Loss:
    """Circle loss (Sun et al., CVPR 2020), averaged over the names with both positives and negatives."""
    return _of_library(library.CircleLoss(m, gamma, reducer=AvgNonZeroReducer()))


# The settings `objective.loss` and `objective.constants` name one of them and its arguments.
LOSSES: dict[str, Callable[..., Loss]] = {
    "multi_similarity": make_multi_similarity,
    "cosine": make_cosine,
    "triplet": make_triplet,
    "nca": make_nca,
    "lifted_structure": make_lifted_structure,
    "info_nce": make_info_nce,
    "circle": make_circle,
}


def make_loss(name: str, **constants: float) -> Loss:
    """Make a loss of `LOSSES`: with the starred constants of table 6, or with others."""
    if name not in LOSSES:
        raise ValueError(f"There is no loss {name!r}. The setting objective.loss has to be one of {', '.join(LOSSES)}.")
    parameters = list(inspect.signature(LOSSES[name]).parameters)
    for constant, value in constants.items():
        is_margin = constant in ("m", "margin")
        if constant not in parameters:
            reason = f"there is no constant {constant}, only {', '.join(parameters) or 'none'}"
        # Similarities lie around the base, and every other constant scales or widens a distance.
        elif constant == "base" or value > 0 or (value == 0 and is_margin):
            continue
        else:
            reason = f"{constant} is {value}, but has to be {'0 or more' if is_margin else 'more than 0'}"
        raise ValueError(f"The loss {name} can't be made: {reason}. Correct objective.constants.")
    return LOSSES[name](**constants)


def _of_library(loss: torch.nn.Module) -> Loss:
    """Let a loss of the library take masks of pairs."""

    def compute(embeddings: torch.Tensor, labels: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        indices = (*pairs.positives.nonzero(as_tuple=True), *pairs.negatives.nonzero(as_tuple=True))
        value: torch.Tensor = loss(embeddings.float(), labels, indices)
        return value

    return compute


def _of_positives(cost: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> Loss:
    """Make a loss of a cost of all cosines, the mask of negatives, and the anchors and partners of positive pairs."""

    def compute(embeddings: torch.Tensor, labels: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        anchors, partners = pairs.positives.nonzero(as_tuple=True)
        if not len(anchors) or not pairs.negatives.any():
            return 0.0 * embeddings.float().sum()
        return cost(cosines(embeddings), pairs.negatives, anchors, partners)

    return compute


def _log_sum_exp(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Compute the log-sum-exp of each row over the mask. An empty row gives minus infinity, without a gradient."""
    masked = values.masked_fill(~mask, -torch.inf)
    has_any = mask.any(dim=1)
    # The gradient of an empty sum is NaN, even if it is unused.
    safe = torch.where(has_any[:, None], masked, torch.zeros_like(masked))
    return torch.where(has_any, torch.logsumexp(safe, dim=1), -torch.inf)
