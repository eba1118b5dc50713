"""Readers of corpora in their original formats. All return the same uniform form."""

from .convert import convert_corpus
from .formats import FORMATS, Format
from .inputs import InputFile, open_input
from .records import CorpusParts
from .report import ReadingReport

__all__ = [
    "FORMATS",
    "CorpusParts",
    "Format",
    "InputFile",
    "ReadingReport",
    "convert_corpus",
    "open_input",
]
