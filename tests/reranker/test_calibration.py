"""Maps from a softmax to shares of right decisions, and measures of how far they can be trusted."""

import numpy as np
import pytest

from spacy_sapbert.reranker.calibration import (
    ENOUGH_FOR_STEPS,
    area_under_roc,
    bin_confidences,
    calibration_error,
    choose_threshold,
    coverage_at,
    fit_curve,
    nil_scores,
    risk_coverage,
)
from spacy_sapbert.reranker.memory import IDENTITY


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


def test_curves_of_probabilities_that_say_little():
    # Falling shares are pooled; the points in front and behind keep the ends away from 0 and 1.
    is_right = np.arange(ENOUGH_FOR_STEPS) % 2 == 0
    curve = fit_curve(np.linspace(0.001, 0.999, ENOUGH_FOR_STEPS), is_right)
    assert curve.apply(np.array([0.2, 0.5, 0.8])) == pytest.approx([0.5, 0.5, 0.5], abs=0.01)
    # The wrong ones have the higher probability: a falling map would turn the order of candidates around.
    curve = fit_curve(np.array([0.9, 0.8, 0.7, 0.2, 0.1]), np.array([False, False, False, True, True]))
    assert np.ptp(curve.apply(np.linspace(0.01, 0.99, 9))) == pytest.approx(0, abs=1e-6)
    # Decisions that are all right, or none, teach nothing.
    assert fit_curve(np.array([0.2, 0.9]), np.array([True, True])) is IDENTITY
    assert fit_curve(np.zeros(0), np.zeros(0, dtype=bool)) is IDENTITY


@pytest.mark.parametrize("n", [200, ENOUGH_FOR_STEPS])
def test_equal_probabilities_become_one_in_any_order_of_the_decisions(n):
    probabilities = np.repeat([0.3, 0.9], n // 2)
    is_right = np.arange(n) % (n // 2) < n // 4
    first, last = (fit_curve(probabilities, right).apply(np.array([0.3, 0.9])) for right in (is_right, is_right[::-1]))
    assert first == pytest.approx(last) and last == pytest.approx([0.5, 0.5], abs=0.02)


def test_calibration_error_is_the_weighted_gap_of_the_bins():
    # Two bins: .9 with half of them right, .1 with none right.
    probabilities = np.array([0.9, 0.9, 0.1, 0.1])
    is_right = np.array([True, False, False, False])
    assert calibration_error(probabilities, is_right) == pytest.approx((2 * 0.4 + 2 * 0.1) / 4)
    assert calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0
    assert calibration_error(np.zeros(0), np.zeros(0, dtype=bool)) == 0.0


def test_area_under_roc_counts_pairs():
    probabilities = np.array([0.9, 0.5, 0.5, 0.2])
    is_right = np.array([True, True, False, False])
    # Of the four pairs, three are in order and one is tied.
    assert area_under_roc(probabilities, is_right) == pytest.approx(3.5 / 4)
    assert area_under_roc(probabilities, ~is_right) == pytest.approx(0.5 / 4)
    assert area_under_roc(probabilities, np.ones(4, dtype=bool)) is None


def test_the_threshold_keeps_the_promise_with_the_largest_coverage():
    probabilities = np.array([0.2, 0.9, 0.8, 0.7, 0.7])
    is_right = np.array([False, True, True, True, False])
    assert choose_threshold(probabilities, is_right, 1.0) == (0.8, 1.0, 0.4)
    # Equal probabilities are on one side together.
    assert choose_threshold(probabilities, is_right, 0.75) == (0.7, 0.75, 0.8)
    assert choose_threshold(probabilities, is_right, 0.6) == (0.2, 0.6, 1.0)
    # No threshold is that precise.
    assert choose_threshold(np.array([0.9, 0.8]), np.array([False, True]), 0.95) == (0.8, 0.5, 1.0)
    # Nothing is right, so nothing is chosen.
    assert choose_threshold(np.array([0.9, 0.01]), np.array([False, False]), 0.95) == (1.0, 0.0, 0.0)


def test_bins_and_curves_of_confidence():
    confidence, is_right = np.array([0.95, 0.9, 0.9, 0.6, 0.2]), np.array([True, True, False, True, False])
    bins = bin_confidences(confidence, is_right)
    assert [found.n for found in bins] == [1, 1, 2, 1] and bins[2] == (pytest.approx(0.9), 0.5, 2)
    coverages, precisions = risk_coverage(confidence, is_right)
    assert coverages.tolist() == [0.2, 0.6, 0.8, 1.0] and precisions == pytest.approx([1, 2 / 3, 3 / 4, 3 / 5])
    assert coverage_at(confidence, is_right) == 0.2 and coverage_at(confidence, is_right, 0.7) == 0.8
    assert coverage_at(confidence, ~is_right) == 0.0


def test_scores_of_nil():
    nil, predicted = np.array([True, True, False]), np.array([True, False, False])
    assert nil_scores(nil, predicted) == (1.0, 0.5, pytest.approx(2 / 3)) and nil_scores(~nil, nil) == (0.0, 0.0, 0.0)
    assert nil_scores(nil & False, nil & False) == (0.0, 0.0, 0.0)
