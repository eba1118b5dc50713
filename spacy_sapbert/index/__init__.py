"""From vectors to the rows of their nearest neighbours. Knows neither strings nor concepts."""

from .exact import ExactIndex, exact_search, make_exact_index
from .scann_index import ScannIndex, make_scann_index
from .storage import read_index

__all__ = [
    "ExactIndex",
    "ScannIndex",
    "exact_search",
    "make_exact_index",
    "make_scann_index",
    "read_index",
]
