"""Maps from a softmax to shares of right decisions."""

import numpy as np
import pytest

from spacy_sapbert.reranker.calibration import ENOUGH_FOR_STEPS, IDENTITY, fit_curve
from spacy_sapbert.reranker.reliability import calibration_error


def draw(n, seed=0):
    """Draw probabilities that are too high: they are right as often as their square."""
    random = np.random.default_rng(seed)
    probabilities = random.random(n)
    return probabilities, random.random(n) < probabilities**2


@pytest.mark.parametrize("n", [200, ENOUGH_FOR_STEPS - 1, ENOUGH_FOR_STEPS, 5000])
def test_calibrating_lowers_the_error_on_other_decisions(n):
    curve = fit_curve(*draw(n))
    probabilities, is_right = draw(20_000, seed=1)
    before = calibration_error(probabilities, is_right)
    after = calibration_error(curve.apply(probabilities), is_right)
    assert before > 0.15 and after < 0.08
    # Monotone, so that the order of candidates and of mentions stays.
    assert np.all(np.diff(curve.apply(np.linspace(0, 1, 1001))) >= 0)
    assert 0 < curve.apply(np.array([0.0]))[0] and curve.apply(np.array([1.0]))[0] < 1


def test_isotonic_regression_is_that_of_pools():
    # Falling shares are pooled; the points in front and behind keep the ends away from 0 and 1.
    probabilities = np.linspace(0.001, 0.999, ENOUGH_FOR_STEPS)
    is_right = np.arange(ENOUGH_FOR_STEPS) % 2 == 0
    curve = fit_curve(probabilities, is_right)
    assert curve.apply(np.array([0.2, 0.5, 0.8])) == pytest.approx([0.5, 0.5, 0.5], abs=0.01)


def test_decisions_that_are_all_right_teach_nothing():
    assert fit_curve(np.array([0.2, 0.9]), np.array([True, True])) is IDENTITY
    assert fit_curve(np.zeros(0), np.zeros(0, dtype=bool)) is IDENTITY


def test_probabilities_that_say_nothing_become_the_share_of_right_ones():
    # The wrong ones have the higher probability: a falling map would turn the order of candidates around.
    curve = fit_curve(np.array([0.9, 0.8, 0.7, 0.2, 0.1]), np.array([False, False, False, True, True]))
    assert np.ptp(curve.apply(np.linspace(0.01, 0.99, 9))) == pytest.approx(0, abs=1e-6)
