"""Measures of how far probabilities can be trusted, on cases that are counted by hand."""

import numpy as np
import pytest

from spacy_sapbert.reliability import area_under_roc, calibration_error, choose_threshold


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
