"""Nearest-neighbour search among vectors, independent of strings and concepts."""

from .exact import ExactIndex
from .factories import make_auto_index, make_exact_index, make_scann_index, make_usearch_index
from .kinds import is_as_configured, read_index
from .memory import warn_of_memory
from .nearest import exact_search
from .scann import ScannIndex
from .storage import INDEX_FILE, choose_dtype
from .subset import Subset
from .usearch import UsearchIndex

__all__ = [
    "INDEX_FILE",
    "ExactIndex",
    "ScannIndex",
    "Subset",
    "UsearchIndex",
    "choose_dtype",
    "exact_search",
    "is_as_configured",
    "make_auto_index",
    "make_exact_index",
    "make_scann_index",
    "make_usearch_index",
    "read_index",
    "warn_of_memory",
]
