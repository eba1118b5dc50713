"""Figures and case studies: what vectors look like, beside how well they do."""

from .case_studies import find_neighbours, find_translations, format_table
from .histograms import NameBatch, draw_batch, draw_histograms, read_pair_data, split_cosines
from .names import draw_concepts, limit_names, list_names
from .scatter import draw_scatter
from .separation import Separation, measure_separation
from .vectors import Vectors, compute_vectors

__all__ = [
    "NameBatch",
    "Separation",
    "Vectors",
    "compute_vectors",
    "draw_batch",
    "draw_concepts",
    "draw_histograms",
    "draw_scatter",
    "find_neighbours",
    "find_translations",
    "format_table",
    "limit_names",
    "list_names",
    "measure_separation",
    "read_pair_data",
    "split_cosines",
]
