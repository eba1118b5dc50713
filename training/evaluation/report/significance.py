"""Tests of significance: between two systems, or a system and a published figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ...errors import Errors

ONE_SAMPLE, PAIRED, WELCH = "one-sample t-test", "paired t-test", "Welch's t-test"
MCNEMAR = "McNemar's exact test"
# Deviations below it are rounding: scores are per cent.
NO_VARIANCE = 1e-9


@dataclass(frozen=True)
class TestResult:
    """The result of a two-sided test.

    test (str): The test.
    sizes (str): The compared samples, such as "5 seeds".
    p (float | None): The probability of such a difference, or a greater one, if there were none; None if it is not
        defined.
    note (str): Why it is not defined; empty if it is.
    """

    # Its name begins like those that pytest collects.
    __test__ = False

    test: str
    sizes: str
    p: float | None
    note: str = ""

    def __str__(self) -> str:
        if self.p is None:
            return f"no p value ({self.test}, {self.sizes}: {self.note})"
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        return f"{p} ({self.test}, {self.sizes})"


def compare_with_figure(scores: Sequence[float], published: float) -> TestResult:
    """Compare the scores of seeds with one published figure: a one-sample t-test.

    The published figure counts as exact, since how much it varies is not known. That SapBERT's authors tested like this
    is likely, but they don't say (Liu et al., 2021, Table 1).

    scores (Sequence[float]): A score for each seed, in per cent.
    published (float): The published figure, in per cent.
    RETURNS (TestResult): The result.
    """
    return _test_differences([score - published for score in scores], ONE_SAMPLE)


def compare_seeds(first: Sequence[float], second: Sequence[float]) -> TestResult:
    """Compare two systems whose runs share seeds: a paired t-test.

    first (Sequence[float]): A score for each seed, in per cent.
    second (Sequence[float]): Those of the other system, of the same seeds in the same order.
    RETURNS (TestResult): The result.
    RAISES (ValueError): If there are not as many scores.
    """
    if len(first) != len(second):
        raise ValueError(Errors.E783.format(what="seeds", first=len(first), second=len(second)))
    return _test_differences([left - right for left, right in zip(first, second, strict=True)], PAIRED)


def compare_means(first: Sequence[float], second: Sequence[float]) -> TestResult:
    """Compare two systems whose runs share nothing: Welch's t-test.

    first (Sequence[float]): A score for each seed, in per cent.
    second (Sequence[float]): Those of the other system.
    RETURNS (TestResult): The result.
    """
    sizes = f"{len(first)} and {len(second)} seeds"
    if min(len(first), len(second)) < 2:
        return TestResult(WELCH, sizes, None, "each system needs two seeds or more")
    deviations = stdev(first), stdev(second)
    if max(deviations) < NO_VARIANCE:
        return TestResult(WELCH, sizes, None, "the scores of each system are all the same")
    # Only reports need it.
    from scipy.stats import ttest_ind_from_stats

    result = ttest_ind_from_stats(
        fmean(first), deviations[0], len(first), fmean(second), deviations[1], len(second), equal_var=False
    )
    return TestResult(WELCH, sizes, float(result.pvalue))


def compare_hits(first: Sequence[bool], second: Sequence[bool]) -> TestResult:
    """Compare two systems on the same mentions: McNemar's exact test, of those that only one of them has right.

    Mentions count as independent, which repeated ones are not: a small p value says less than it seems to.

    first (Sequence[bool]): Whether each mention is right.
    second (Sequence[bool]): The same of the other system, in the same order.
    RETURNS (TestResult): The result.
    RAISES (ValueError): If there are not as many mentions.
    """
    if len(first) != len(second):
        raise ValueError(Errors.E783.format(what="mentions", first=len(first), second=len(second)))
    only_first = sum(left and not right for left, right in zip(first, second, strict=True))
    only_second = sum(right and not left for left, right in zip(first, second, strict=True))
    sizes = f"{only_first} mentions right only in the one, {only_second} only in the other"
    if not only_first + only_second:
        return TestResult(MCNEMAR, sizes, 1.0)
    # Only reports need it.
    from scipy.stats import binomtest

    return TestResult(MCNEMAR, sizes, float(binomtest(only_first, only_first + only_second).pvalue))


def _test_differences(differences: list[float], test: str) -> TestResult:
    sizes = f"{len(differences)} seed{'' if len(differences) == 1 else 's'}"
    if len(differences) < 2:
        return TestResult(test, sizes, None, "it needs two seeds or more")
    if stdev(differences) < NO_VARIANCE:
        return TestResult(test, sizes, None, "the differences are all the same")
    # Only reports need it.
    from scipy.stats import ttest_1samp

    return TestResult(test, sizes, float(ttest_1samp(differences, 0.0).pvalue))
