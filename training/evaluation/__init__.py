"""What weighs an encoder: linking tasks, the corpora they are read from, and accuracy."""

from .accuracy import RANKS, measure_accuracy
from .corpora import Corpus, read_corpora, read_task
from .task import LinkingTask

__all__ = ["RANKS", "Corpus", "LinkingTask", "measure_accuracy", "read_corpora", "read_task"]
