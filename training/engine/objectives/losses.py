"""The losses compared in the SapBERT paper (Liu et al., NAACL 2021, table 6), over masks of pairs.

All use cosines in single precision and log-sum-exp, so nothing overflows. The loss of a batch without pairs is 0 and
can be backpropagated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch.nn.functional import relu, softplus

from ...errors import Errors
from .distances import cosines, distances
from .miner import Pairs

LossPreset = Literal["paper", "released"]


class Loss(Protocol):
    """A loss function over the pairs of a batch."""

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """Compute the loss.

        embeddings (torch.Tensor): Shape (n, width).
        pairs (Pairs): The positive and negative pairs.
        RETURNS (torch.Tensor): A scalar, float32.
        """
        ...


@dataclass(frozen=True)
class MultiSimilarityLoss:
    """Multi-Similarity loss (Wang et al., CVPR 2019), with alpha for positive and beta for negative pairs; Eq. 2 of the
    SapBERT paper swaps the letters. The mean over all names of the batch.
    """

    alpha: float = 2.0
    beta: float = 50.0
    base: float = 0.5

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        return _anchored(self.sum_up(cosines(embeddings), pairs), embeddings)

    def sum_up(self, similarities: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """Compute the loss of given similarities, also between two sets.

        similarities (torch.Tensor): Shape (n, m).
        pairs (Pairs): The positive and negative pairs, of the same shape.
        RETURNS (torch.Tensor): The mean over the n rows.
        """
        pull = softplus(_log_sum_exp(-self.alpha * (similarities - self.base), pairs.positives)) / self.alpha
        push = softplus(_log_sum_exp(self.beta * (similarities - self.base), pairs.negatives)) / self.beta
        return (pull + push).mean()


@dataclass(frozen=True)
class CosineLoss:
    """Cosine loss: 1 - cosine of positive pairs, and the positive part of the cosine of negative pairs, each averaged
    over its non-zero values. The paper cites Phan et al. (ACL 2019); the released code has no such loss.
    """

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        similarities = cosines(embeddings)
        pull = _mean_of_non_zero(relu(1.0 - similarities[pairs.positives]))
        push = _mean_of_non_zero(relu(similarities[pairs.negatives]))
        return _anchored(pull + push, embeddings)


@dataclass(frozen=True)
class TripletLoss:
    """Triplet loss: the positive part of d(a, p) - d(a, n) + margin, averaged over its non-zero values."""

    margin: float = 0.2

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        far = distances(cosines(embeddings))
        anchors, partners = pairs.positives.nonzero(as_tuple=True)
        costs = relu(far[anchors, partners][:, None] - far[anchors] + self.margin)[pairs.negatives[anchors]]
        return _anchored(_mean_of_non_zero(costs), embeddings)


@dataclass(frozen=True)
class NcaLoss:
    """Neighbourhood components analysis (Goldberger et al., NIPS 2005) over all names of the batch. The mined pairs
    only weight the names, by the number of pairs that each occurs in.
    """

    scale: float = 20.0

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        logits = -self.scale * distances(cosines(embeddings)) ** 2
        logits = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool, device=logits.device), -torch.inf)
        has_partner = pairs.same.any(dim=1)
        costs = torch.logsumexp(logits, dim=1) - _log_sum_exp(logits, pairs.same)
        chosen = (pairs.positives | pairs.negatives).float()
        parts = chosen.sum(dim=0) + chosen.sum(dim=1)
        weights = parts / parts.max() if parts.any() else torch.ones_like(parts)
        costs = torch.where(has_partner, costs, torch.zeros_like(costs)) * weights
        return _anchored(costs.sum() / has_partner.sum().clamp(min=1), embeddings)


@dataclass(frozen=True)
class LiftedStructureLoss:
    """Lifted structure loss (Oh Song et al., CVPR 2016): each positive pair against all negatives of both names."""

    margin: float = 0.5

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        far = distances(cosines(embeddings))
        anchors, partners = pairs.positives.nonzero(as_tuple=True)
        if not len(anchors) or not pairs.negatives.any():
            return _anchored(embeddings.new_zeros((), dtype=torch.float32), embeddings)
        per_name = _log_sum_exp(self.margin - far, pairs.negatives)
        push = torch.logaddexp(per_name[anchors], per_name[partners])
        push = torch.where(torch.isfinite(push), push, torch.zeros_like(push))
        return _anchored((relu(push + far[anchors, partners]) ** 2 / 2).mean(), embeddings)


@dataclass(frozen=True)
class InfoNceLoss:
    """InfoNCE (Oord et al., 2018): each positive pair against all negatives of its anchor, averaged over pairs."""

    temperature: float = 0.07

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        logits = cosines(embeddings) / self.temperature
        anchors, partners = pairs.positives.nonzero(as_tuple=True)
        if not len(anchors) or not pairs.negatives.any():
            return _anchored(embeddings.new_zeros((), dtype=torch.float32), embeddings)
        push = _log_sum_exp(logits, pairs.negatives)[anchors]
        # -log(e^s / (e^s + sum e^n)) = softplus(log sum e^n - s)
        return _anchored(softplus(push - logits[anchors, partners]).mean(), embeddings)


@dataclass(frozen=True)
class CircleLoss:
    """Circle loss (Sun et al., CVPR 2020), averaged over the names with both positives and negatives."""

    m: float = 0.25
    gamma: float = 256.0

    def __call__(self, embeddings: torch.Tensor, pairs: Pairs) -> torch.Tensor:
        """See `Loss`."""
        similarities = cosines(embeddings)
        fixed = similarities.detach()
        pull = -self.gamma * relu(1.0 + self.m - fixed) * (similarities - (1.0 - self.m))
        push = self.gamma * relu(fixed + self.m) * (similarities - self.m)
        costs = softplus(_log_sum_exp(pull, pairs.positives) + _log_sum_exp(push, pairs.negatives))
        return _anchored(_mean_of_non_zero(costs), embeddings)


LOSSES: dict[str, Callable[..., Loss]] = {
    "multi_similarity": MultiSimilarityLoss,
    "cosine": CosineLoss,
    "triplet": TripletLoss,
    "nca": NcaLoss,
    "lifted_structure": LiftedStructureLoss,
    "info_nce": InfoNceLoss,
    "circle": CircleLoss,
}
# The released code mentions the paper's constants in comments, but uses others.
RELEASED: dict[str, Mapping[str, Any]] = {
    "multi_similarity": {"alpha": 1.0, "beta": 60.0, "base": 0.5},
    "triplet": {"margin": 0.05},
    "nca": {"scale": 1.0},
    "lifted_structure": {"margin": 1.0},
    "info_nce": {"temperature": 0.07},
    "circle": {"m": 0.4, "gamma": 80.0},
}


def make_loss(name: str, preset: LossPreset = "paper", **constants: Any) -> Loss:
    """Make a loss.

    name (str): One of `LOSSES`.
    preset (str): "paper" for the starred constants of table 6, "released" for those of the released code.
    **constants (Any): Constants that override the preset.
    RETURNS (Loss): The loss.
    RAISES (ValueError): If there is no such loss, preset or constant.
    """
    if name not in LOSSES:
        raise ValueError(Errors.E620.format(what="loss", value=name, allowed=", ".join(LOSSES)))
    if preset not in ("paper", "released") or (preset == "released" and name not in RELEASED):
        allowed = "paper, released" if name in RELEASED else "paper"
        raise ValueError(Errors.E620.format(what=f"preset of the loss {name}", value=preset, allowed=allowed))
    defaults = RELEASED[name] if preset == "released" else {}
    for constant, value in constants.items():
        # Similarities lie around the base, and every other constant scales or widens a distance.
        if constant != "base" and not (value > 0 or (value == 0 and constant in ("m", "margin"))):
            wanted = "0 or more" if constant in ("m", "margin") else "more than 0"
            raise ValueError(Errors.E621.format(loss=name, reason=f"{constant} is {value}, but has to be {wanted}"))
    try:
        return LOSSES[name](**{**defaults, **constants})
    except TypeError as error:
        raise ValueError(Errors.E621.format(loss=name, reason=error)) from error


def _log_sum_exp(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Compute the log-sum-exp of each row over the mask. An empty row gives minus infinity, without a gradient."""
    masked = values.masked_fill(~mask, -torch.inf)
    has_any = mask.any(dim=1)
    # The gradient of an empty sum is NaN, even if it is unused.
    safe = torch.where(has_any[:, None], masked, torch.zeros_like(masked))
    return torch.where(has_any, torch.logsumexp(safe, dim=1), -torch.inf)


def _mean_of_non_zero(costs: torch.Tensor) -> torch.Tensor:
    return costs.sum() / (costs > 0).sum().clamp(min=1)


def _anchored(loss: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    """Connect a loss of 0 to the embeddings, so that a step without pairs can be backpropagated."""
    return loss if loss.requires_grad or not embeddings.requires_grad else loss + 0.0 * embeddings.float().sum()
