"""Systems that look queries up in a dictionary: by equality, by shared characters, by vectors."""

from .backoff import DictionaryBackoff
from .base import System, pad, take_best
from .biosyn import BioSynSystem
from .encoder import SIMILARITIES, EncoderSystem, Similarity
from .exact import ExactMatch
from .linker import LinkerSystem
from .tfidf import CharacterTfidf
from .word_vectors import WordVectorSystem

__all__ = [
    "SIMILARITIES",
    "BioSynSystem",
    "CharacterTfidf",
    "DictionaryBackoff",
    "EncoderSystem",
    "ExactMatch",
    "LinkerSystem",
    "Similarity",
    "System",
    "WordVectorSystem",
    "pad",
    "take_best",
]
