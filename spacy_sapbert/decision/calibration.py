"""Calibration: from a softmax to the share of right decisions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Below so many mentions two parameters are fitted, from there on a step function of any form.
ENOUGH_FOR_STEPS = 500
# The logit of a probability of 0 or 1.
EDGE = 1e-6


class Curve(NamedTuple):
    """A monotone map between probabilities, with straight lines between its points.

    x (ndarray): Probabilities of the softmax, rising; float64.
    y (ndarray): Calibrated ones, not falling; float64.
    """

    x: np.ndarray
    y: np.ndarray

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Calibrate probabilities.

        probabilities (ndarray): Of the softmax.
        RETURNS (ndarray): Calibrated.
        """
        found: np.ndarray = np.interp(probabilities, self.x, self.y)
        return found


IDENTITY = Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def fit_curve(probabilities: np.ndarray, is_right: np.ndarray) -> Curve:
    """Fit a monotone map to decisions: Platt's with few of them, else isotonic regression.

    probabilities (ndarray): Of the softmax.
    is_right (ndarray): Whether each decision was right; bool.
    RETURNS (Curve): The map; it leaves probabilities as they are if all decisions are right or all wrong.
    """
    right = np.asarray(is_right, dtype=np.float64)
    if not len(right) or right.min() == right.max():
        return IDENTITY
    if len(right) < ENOUGH_FOR_STEPS:
        return _fit_platt(np.asarray(probabilities, dtype=np.float64), right)
    return _fit_isotonic(np.asarray(probabilities, dtype=np.float64), right)


def _fit_isotonic(probabilities: np.ndarray, right: np.ndarray) -> Curve:
    """Pool adjacent violators, and put a point in the middle of each pool."""
    order = np.argsort(probabilities, kind="stable")
    # Each pool: sum of probabilities, of right ones, and their number. One of each in front and behind keeps the
    # outermost pools away from 0 and 1.
    pools: list[tuple[float, float, int]] = [(0.0, 0.5, 1)]
    for x, y in zip([*probabilities[order].tolist(), 1.0], [*right[order].tolist(), 0.5], strict=True):
        pool = (x, y, 1)
        while pools and pools[-1][1] * pool[2] >= pool[1] * pools[-1][2]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    sums = np.array(pools)
    return Curve(sums[:, 0] / sums[:, 2], sums[:, 1] / sums[:, 2])


def _fit_platt(probabilities: np.ndarray, right: np.ndarray, *, steps: int = 50) -> Curve:
    """Fit a logistic function of the logit by Newton's method, with Platt's smoothed targets."""
    n_right = right.sum()
    targets = np.where(right > 0, (n_right + 1) / (n_right + 2), 1 / (len(right) - n_right + 2))
    logits = _logit(probabilities)
    design = np.stack([logits, np.ones_like(logits)], axis=1)
    weights = np.array([1.0, 0.0])
    for _ in range(steps):
        found = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (found - targets)
        curvature = (design * (found * (1 - found))[:, None]).T @ design + 1e-3 * np.eye(2)
        weights -= np.clip(np.linalg.solve(curvature, gradient), -5, 5)
    # A falling map would turn the order around: the probabilities then say nothing.
    weights[0] = max(weights[0], 0.0)
    x = np.linspace(0, 1, 257)
    return Curve(x, 1 / (1 + np.exp(-np.clip(_logit(x) * weights[0] + weights[1], -30, 30))))


def _logit(probabilities: np.ndarray) -> np.ndarray:
    clipped = np.clip(probabilities, EDGE, 1 - EDGE)
    logits: np.ndarray = np.log(clipped / (1 - clipped))
    return logits


class Threshold(NamedTuple):
    """A threshold of the probability, and what it gives on the mentions that it was chosen on.

    threshold (float): The probability that a concept needs.
    precision (float): Share of right concepts among those that have it.
    coverage (float): Share of mentions whose best concept has it.
    """

    threshold: float
    precision: float
    coverage: float


def choose_threshold(probabilities: np.ndarray, is_right: np.ndarray, precision: float) -> Threshold | None:
    """Choose the threshold with the largest coverage at a promised precision.

    probabilities (ndarray): Of the best concept of each mention.
    is_right (ndarray): Whether it is right; bool.
    precision (float): The promised precision.
    RETURNS (Threshold | None): The threshold; None if no threshold keeps the promise.
    """
    order = np.argsort(-probabilities, kind="stable")
    sorted_, right = probabilities[order], np.cumsum(is_right[order])
    found = right / np.arange(1, len(right) + 1)
    # Equal probabilities are above a threshold together.
    is_end = np.append(sorted_[1:] != sorted_[:-1], True) if len(sorted_) else np.zeros(0, dtype=bool)
    kept = np.flatnonzero(is_end & (found >= precision))
    if not len(kept):
        return None
    last = kept[-1]
    return Threshold(float(sorted_[last]), float(found[last]), (last + 1) / len(right))
