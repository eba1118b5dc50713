"""What weighs an encoder: linking tasks, the corpora they are read from, and accuracy."""

from .accuracy import RANKS, measure_accuracy
from .corpora import Corpus, read_corpora, read_task
from .scores import ScoreBook, describe_results, format_scores
from .task import LinkingTask

__all__ = [
    "RANKS",
    "Corpus",
    "LinkingTask",
    "ScoreBook",
    "describe_results",
    "format_scores",
    "measure_accuracy",
    "read_corpora",
    "read_task",
]
