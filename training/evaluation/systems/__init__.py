"""Systems that look queries up in a dictionary: by equality, by shared characters, by vectors."""

from .base import System, pad, take_best
from .encoder import SIMILARITIES, EncoderSystem, Similarity
from .exact import ExactMatch
from .tfidf import CharacterTfidf

__all__ = [
    "SIMILARITIES",
    "CharacterTfidf",
    "EncoderSystem",
    "ExactMatch",
    "Similarity",
    "System",
    "pad",
    "take_best",
]
