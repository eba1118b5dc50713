"""Significance: the tests of textbooks, and nothing that is not a number."""

import math
import warnings
from itertools import product
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind, ttest_rel

from training.report.significance import compare_hits, compare_means, compare_seeds, compare_with_figure

SCORES = st.lists(st.floats(0, 100), min_size=2, max_size=6)


def test_one_sample_by_hand_and_others_against_scipy():
    # t = (mean - 90) / (s / sqrt(n)) = 2 / (1 / sqrt(3)) = 3.4641; with two degrees of freedom the distribution has
    # the closed form F(t) = 1/2 + t / (2 sqrt(2 + t²)).
    t = 2 * math.sqrt(3)
    result = compare_with_figure([91.0, 92.0, 93.0], 90.0)
    assert result.p == pytest.approx(2 * (1 - (0.5 + t / (2 * math.sqrt(2 + t * t)))))
    assert str(result) == "p = 0.074 (one-sample t-test, 3 seeds)"
    first, second = [91.2, 90.8, 92.5, 91.9], [90.1, 90.6, 91.0, 91.8]
    assert compare_seeds(first, second).p == pytest.approx(ttest_rel(first, second).pvalue)
    assert compare_means(first, second[:3]).p == pytest.approx(ttest_ind(first, second[:3], equal_var=False).pvalue)


def exact_p(n_first, n_second):
    """All ways to share the mentions out, those at least as uneven counted."""
    n = n_first + n_second
    uneven = abs(n_first - n_second)
    ways = [abs(2 * sum(way) - n) >= uneven for way in product((0, 1), repeat=n)]
    return fmean(ways)


@pytest.mark.parametrize("n_first, n_second", [(0, 0), (1, 0), (3, 3), (6, 1), (0, 8), (5, 4)])
def test_mcnemar_counts_all_ways(n_first, n_second):
    first = [True] * n_first + [False] * n_second + [True, False] * 4
    second = [False] * n_first + [True] * n_second + [True, False] * 4
    assert compare_hits(first, second).p == pytest.approx(exact_p(n_first, n_second))
    assert compare_hits(second, first).p == pytest.approx(exact_p(n_first, n_second))


@pytest.mark.parametrize(
    "result, reason",
    [
        (compare_with_figure([91.0], 90.0), "1 seed: it needs two"),
        (compare_with_figure([91.1, 91.1, 91.1], 90.0), "all the same"),
        (compare_seeds([90.1, 91.1], [89.1, 90.1]), "all the same"),
        (compare_means([91.0], [90.0, 91.0]), "two seeds or more"),
        (compare_means([91.1, 91.1], [90.7, 90.7]), "all the same"),
    ],
)
def test_no_p_value_without_variance_or_seeds(result, reason):
    assert result.p is None
    assert reason in str(result)


@given(SCORES, SCORES, st.floats(0, 100))
def test_p_is_a_probability_or_missing(first, second, published):
    n = min(len(first), len(second))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [
            compare_with_figure(first, published),
            compare_means(first, second),
            compare_seeds(first[:n], second[:n]),
        ]
    for result in results:
        assert result.p is None or 0 <= result.p <= 1
    assert results[0].p is not None or stdev(first) < 1e-6
    assert compare_means(second, first).p == pytest.approx(results[1].p)


def test_small_p_is_not_zero():
    assert str(compare_hits([True] * 40, [False] * 40)).startswith("p < 0.001 (McNemar's exact test, 40 mentions")
