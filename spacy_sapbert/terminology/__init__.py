"""Terminologies: concepts and their names in one immutable table, and what reads them from files."""

from .builder import TerminologyBuilder
from .jsonl import read_jsonl
from .merging import merge
from .obo import read_obo
from .release_diff import ReleaseDiff, diff_releases, diff_terminologies
from .rrf import read_rrf
from .rrf_writer import write_rrf
from .saved import read_saved
from .table import Concept, Terminology
from .tabular import read_table

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
