"""Calibration: from a softmax to the share of right decisions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Below so many mentions two parameters are fitted, from there on a step function of any form.
ENOUGH_FOR_STEPS = 500
# The logit of a probability of 0 or 1.
EDGE = 1e-6
# Steps of Newton's method, the smallest one, and points of the function that are stored.
NEWTON_STEPS, TINY, PLATT_POINTS = 30, 1e-9, 1025


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


def _fit_platt(probabilities: np.ndarray, right: np.ndarray) -> Curve:
    """Fit a logistic function of the logit by Newton's method, with Platt's smoothed targets."""
    n_right = right.sum()
    targets = np.where(right > 0, (n_right + 1) / (n_right + 2), 1 / (len(right) - n_right + 2))
    logits = _logit(probabilities)
    design = np.stack([logits, np.ones_like(logits)], axis=1)

    def get_loss(weights: np.ndarray) -> float:
        scores = design @ weights
        return float((np.logaddexp(0, scores) - targets * scores).sum())

    weights = np.array([1.0, 0.0])
    for _ in range(NEWTON_STEPS):
        found = _sigmoid(design @ weights)
        curvature = (design * (found * (1 - found))[:, None]).T @ design + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, design.T @ (found - targets))
        while get_loss(weights - step) > get_loss(weights) and np.abs(step).max() > TINY:
            step = step / 2
        weights = weights - step
    if weights[0] <= 0:
        # A falling map would turn the order around: the probabilities say nothing.
        weights = np.array([0.0, float(_logit(targets.mean()))])
    x = np.linspace(0, 1, PLATT_POINTS)
    return Curve(x, _sigmoid(_logit(x) * weights[0] + weights[1]))


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    values: np.ndarray = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
    return values


def _logit(probabilities: np.ndarray) -> np.ndarray:
    clipped = np.clip(probabilities, EDGE, 1 - EDGE)
    logits: np.ndarray = np.log(clipped / (1 - clipped))
    return logits
