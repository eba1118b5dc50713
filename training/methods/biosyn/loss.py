"""The loss of BioSyn, and the labels of its candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


def find_positives(gold: Sequence[frozenset[str]], ids: Sequence[frozenset[str]], candidates: np.ndarray) -> np.ndarray:
    """Label the positive candidates: their concepts include all concepts of the mention."""
    return np.array(
        [[wanted <= ids[row] for row in rows] for wanted, rows in zip(gold, candidates.tolist(), strict=True)]
    ).reshape(candidates.shape)


def marginal_loss(scores: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Compute the marginal negative log-likelihood of the right candidates (Sung et al., ACL 2020, section 3.3)."""
    counts = positives.any(dim=1)
    scores, positives = scores[counts].float(), positives[counts]
    right = scores.masked_fill(~positives, -torch.inf).logsumexp(dim=1)
    losses = scores.logsumexp(dim=1) - right
    return losses.sum() / max(1, len(losses))
