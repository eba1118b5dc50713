"""Significance tests between two systems, or a system and a published figure. Scores are per cent."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

# Smaller deviations are rounding errors.
NO_VARIANCE = 1e-9


class SignificanceTest(NamedTuple):
    """The result of a two-sided test: its name, the sizes of the samples, and p, or why there is none."""

    test: str
    sizes: str
    p: float | None
    note: str = ""

    def __str__(self) -> str:
        if self.p is None:
            return f"no p value ({self.test}, {self.sizes}: {self.note})"
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        return f"{p} ({self.test}, {self.sizes})"


def compare_with_figure(scores: Sequence[float], published: float) -> SignificanceTest:
    """Compare the scores of seeds with a published figure, which counts as exact as its spread is unknown. SapBERT's
    authors probably did the same, but don't say so (Liu et al., 2021, Table 1)."""
    return _test("one-sample t-test", [score - published for score in scores])


def compare_seeds(first: Sequence[float], second: Sequence[float]) -> SignificanceTest:
    """Compare two systems whose runs share seeds, by scores of the same seeds in the same order."""
    return _test("paired t-test", [left - right for left, right in zip(first, second, strict=True)])


def compare_means(first: Sequence[float], second: Sequence[float]) -> SignificanceTest:
    """Compare two systems whose runs share nothing."""
    return _test("Welch's t-test", first, second)


def compare_hits(first: Sequence[bool], second: Sequence[bool]) -> SignificanceTest:
    """Compare two systems by the mentions that only one of them gets right.

    The test takes mentions as independent. Repeated ones are not, so a small p value says less than it seems to.
    """
    from scipy.stats import binomtest  # here and below, because it takes seconds to import, and few reports need it

    only_first = sum(left and not right for left, right in zip(first, second, strict=True))
    only_second = sum(right and not left for left, right in zip(first, second, strict=True))
    sizes = f"{only_first} mentions right only in the one, {only_second} only in the other"
    n = only_first + only_second
    return SignificanceTest("McNemar's exact test", sizes, float(binomtest(only_first, n).pvalue) if n else 1.0)


def _test(test: str, *samples: Sequence[float]) -> SignificanceTest:
    """Compare two samples, or one with zero."""
    from scipy.stats import ttest_1samp, ttest_ind_from_stats

    sizes = " and ".join(str(len(scores)) for scores in samples)
    sizes += " seed" if sizes == "1" else " seeds"
    if min(map(len, samples)) < 2:
        return SignificanceTest(test, sizes, None, "it needs two seeds or more")
    if max(map(stdev, samples)) < NO_VARIANCE:
        return SignificanceTest(test, sizes, None, "the scores or their differences are all the same")
    if len(samples) == 1:
        return SignificanceTest(test, sizes, float(ttest_1samp(samples[0], 0.0).pvalue))
    # Not ttest_ind, which warns of scores that are all the same.
    first, second = [(fmean(scores), stdev(scores), len(scores)) for scores in samples]
    return SignificanceTest(test, sizes, float(ttest_ind_from_stats(*first, *second, equal_var=False).pvalue))
