"""What weighs an encoder: linking tasks, the corpora they are read from, and accuracy."""

from ..data.mentions import Mention
from ..data.task import LinkingTask
from .corpora.listing import Corpus, read_corpora, read_corpus_mentions, read_task
from .linking.accuracy import RANKS, measure_accuracy, measure_system
from .linking.cleaning import NCBI_SPELLING
from .linking.protocols import PROTOCOLS, EvaluationProtocol, get_protocol, make_task
from .linking.scores import ScoreBook, describe_results, format_scores
from .systems import CharacterTfidf, EncoderSystem, ExactMatch, System

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
