"""Reports of measurements, with published figures, significance tests and an analysis of errors."""

from .error_analysis import ErrorAnalysis, analyse_errors
from .literature import PublishedFigure, published_value, read_literature, read_sources
from .predictions import Prediction, read_predictions
from .report import make_report
from .significance import TestResult, compare_hits, compare_means, compare_seeds, compare_with_figure

__all__ = [
    "ErrorAnalysis",
    "Prediction",
    "PublishedFigure",
    "TestResult",
    "analyse_errors",
    "compare_hits",
    "compare_means",
    "compare_seeds",
    "compare_with_figure",
    "make_report",
    "published_value",
    "read_literature",
    "read_predictions",
    "read_sources",
]
