"""The rows of a table of candidates, for comparisons."""

from itertools import pairwise
from typing import NamedTuple


class Hit(NamedTuple):
    """A concept that was found, by a name, with a score."""

    concept: int
    name: int
    score: float


def list_hits(found):
    """List what was found for each mention."""
    rows = [*map(Hit, found.concept.tolist(), found.name.tolist(), found.score.tolist())]
    return [rows[start:end] for start, end in pairwise(found.offsets.tolist())]
