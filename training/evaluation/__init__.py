"""What weighs an encoder: linking tasks, the corpora they are read from, and accuracy."""

from .accuracy import RANKS, measure_accuracy, measure_system
from .cleaning import NCBI_SPELLING
from .corpora import Corpus, read_corpora, read_task
from .mentions import Mention, read_corpus_mentions
from .protocols import PROTOCOLS, EvaluationProtocol, get_protocol, make_task
from .scores import ScoreBook, describe_results, format_scores
from .systems import CharacterTfidf, EncoderSystem, ExactMatch, System
from .task import LinkingTask

__all__ = [
    "NCBI_SPELLING",
    "PROTOCOLS",
    "RANKS",
    "CharacterTfidf",
    "Corpus",
    "EncoderSystem",
    "EvaluationProtocol",
    "ExactMatch",
    "LinkingTask",
    "Mention",
    "ScoreBook",
    "System",
    "describe_results",
    "format_scores",
    "get_protocol",
    "make_task",
    "measure_accuracy",
    "measure_system",
    "read_corpora",
    "read_corpus_mentions",
    "read_task",
]
