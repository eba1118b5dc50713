"""Terminologies: concepts and their names in one immutable table, and what reads them from files."""

from .builder import TerminologyBuilder
from .diff import ReleaseDiff, diff_releases, diff_terminologies
from .merge import merge
from .readers.jsonl import read_jsonl
from .readers.obo import read_obo
from .readers.saved import read_saved
from .readers.table import read_table
from .rrf.reader import read_rrf
from .rrf.writer import write_rrf
from .table import Concept, Terminology

__all__ = [
    "Concept",
    "ReleaseDiff",
    "Terminology",
    "TerminologyBuilder",
    "diff_releases",
    "diff_terminologies",
    "merge",
    "read_jsonl",
    "read_obo",
    "read_rrf",
    "read_saved",
    "read_table",
    "write_rrf",
]
