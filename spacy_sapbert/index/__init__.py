"""Nearest-neighbour search among vectors, independent of strings and concepts."""

from .base import INDEX_FILE, Index, Subset, choose_dtype
from .kinds import (
    is_as_configured,
    make_auto_index,
    read_index,
    warn_of_memory,
)
from .nearest import exact_search
from .scann import ScannIndex
from .usearch import UsearchIndex

__all__ = [
    "INDEX_FILE",
    "Index",
    "ScannIndex",
    "Subset",
    "UsearchIndex",
    "choose_dtype",
    "exact_search",
    "is_as_configured",
    "make_auto_index",
    "read_index",
    "warn_of_memory",
]
