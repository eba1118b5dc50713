"""Tests of significance: between two systems, or a system and a published figure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.stats import binomtest, ttest_1samp, ttest_ind_from_stats

ONE_SAMPLE, PAIRED, WELCH = "one-sample t-test", "paired t-test", "Welch's t-test"
MCNEMAR = "McNemar's exact test"
# Deviations below it are rounding: scores are per cent.
NO_VARIANCE = 1e-9


class Comparison(NamedTuple):
    """The result of a two-sided test: the test, the samples, and p, or why there is none."""

    test: str
    sizes: str
    p: float | None
    note: str = ""

    def __str__(self) -> str:
        if self.p is None:
            return f"no p value ({self.test}, {self.sizes}: {self.note})"
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        return f"{p} ({self.test}, {self.sizes})"


def compare_with_figure(scores: Sequence[float], published: float) -> Comparison:
    """Compare the scores of seeds with one published figure, both in per cent.

    The published figure counts as exact, since how much it varies is not known. That SapBERT's authors tested like this
    is likely, but they don't say (Liu et al., 2021, Table 1).
    """
    return _test_differences([score - published for score in scores], ONE_SAMPLE)


def compare_seeds(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare two systems whose runs share seeds. Scores are per cent, of the same seeds in the same order."""
    return _test_differences([left - right for left, right in zip(first, second, strict=True)], PAIRED)


def compare_means(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare two systems whose runs share nothing. Scores are per cent."""
    sizes = f"{len(first)} and {len(second)} seeds"
    if min(len(first), len(second)) < 2:
        return Comparison(WELCH, sizes, None, "each system needs two seeds or more")
    if max(stdev(first), stdev(second)) < NO_VARIANCE:
        return Comparison(WELCH, sizes, None, "the scores of each system are all the same")
    # Not ttest_ind, which warns of scores that are all the same.
    samples = [(fmean(scores), stdev(scores), len(scores)) for scores in (first, second)]
    return Comparison(WELCH, sizes, float(ttest_ind_from_stats(*samples[0], *samples[1], equal_var=False).pvalue))


def compare_hits(first: Sequence[bool], second: Sequence[bool]) -> Comparison:
    """Compare two systems on the same mentions, by those that only one of them has right.

    Mentions count as independent, which repeated ones are not: a small p value says less than it seems to.
    """
    only_first = sum(left and not right for left, right in zip(first, second, strict=True))
    only_second = sum(right and not left for left, right in zip(first, second, strict=True))
    sizes = f"{only_first} mentions right only in the one, {only_second} only in the other"
    if not only_first + only_second:
        return Comparison(MCNEMAR, sizes, 1.0)
    return Comparison(MCNEMAR, sizes, float(binomtest(only_first, only_first + only_second).pvalue))


def _test_differences(differences: list[float], test: str) -> Comparison:
    sizes = f"{len(differences)} seed{'' if len(differences) == 1 else 's'}"
    if len(differences) < 2:
        return Comparison(test, sizes, None, "it needs two seeds or more")
    if stdev(differences) < NO_VARIANCE:
        return Comparison(test, sizes, None, "the differences are all the same")
    return Comparison(test, sizes, float(ttest_1samp(differences, 0.0).pvalue))
