"""The most similar concepts of each concept, for batches that contrast what is easily confused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import polars as pl

from spacy_sapbert.files import save_array
from spacy_sapbert.terminology import Terminology

from ..data.opposites import find_opposites
from ..data.pairs import PairData
from ..data.relatedness import Relatedness
from ..data.run_folder import write_whole
from .nearest import search_others

# Concepts to look through for each that is wanted, where related ones are left out.
LOOKED_THROUGH = 3


def find_neighbours(
    data: PairData,
    encode: Callable[[pl.Series], np.ndarray],
    n: int,
    path: Path,
    *,
    fingerprint: str,
    terminology: Terminology | None = None,
) -> np.ndarray:
    """Find the most similar concepts of each concept, by the vector of one name each.

    With a terminology, concepts that may be the same or contain each other are left out, and opposites, which are less
    similar than many others, take half of the places.

    data (PairData): The pairs.
    encode (Callable): Makes unit vectors of strings, shape (strings, width).
    n (int): Neighbours of a concept; fewer if there are fewer concepts.
    path (Path): The file (.npy) that stores them, so that a resumed run draws the same batches.
    fingerprint (str): Fingerprint of the encoder of the vectors.
    terminology (Terminology | None): What the pairs were made of.
    RETURNS (np.ndarray): Rows of concepts, opposites first, then the nearest, padded with -1; shape (concepts, n),
        int64.
    """
    n = min(n, len(data.concepts) - 1)
    kept = _read_neighbours(path, len(data.concepts))
    if kept is not None and kept.shape[1] >= n:
        return kept[:, :n]
    _, first_pair = np.unique(data.labels, return_index=True)
    vectors = encode(data.names.gather(data.left[first_pair]))
    wanted = n if terminology is None else min(LOOKED_THROUGH * n, len(vectors) - 1)
    neighbours, _ = search_others(vectors, np.arange(len(vectors)), wanted, fingerprint)
    if terminology is not None:
        neighbours = _tell_apart(neighbours, n, data.concepts.to_list(), terminology)
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as temporary, temporary.open("wb") as file:
        save_array(file, neighbours)
    return neighbours


def _tell_apart(neighbours: np.ndarray, n: int, ids: list[str], terminology: Terminology) -> np.ndarray:
    """Leave out related concepts, and add opposites, as often as it takes to fill half of the places."""
    relatedness = Relatedness(terminology)
    row_of = {id_: row for row, id_ in enumerate(ids)}
    opposites: dict[int, list[int]] = defaultdict(list)
    for pair in find_opposites(terminology):
        if pair.concept in row_of and pair.opposite in row_of:
            opposites[row_of[pair.concept]].append(row_of[pair.opposite])
    chosen = np.full((len(neighbours), n), -1, dtype=np.int64)
    for row, found in enumerate(neighbours.tolist()):
        first = list(islice(cycle(opposites[row]), n // 2)) if row in opposites else []
        others = (other for other in found if not relatedness.is_related(ids[row], ids[other]))
        kept = [*first, *islice(others, n - len(first))]
        chosen[row, : len(kept)] = kept
    return chosen


def _read_neighbours(path: Path, n_concepts: int) -> np.ndarray | None:
    """Read stored neighbours; None if there are none or the file is damaged: they are searched again."""
    try:
        kept = np.load(path)
    except (OSError, ValueError, EOFError):
        return None
    is_whole = kept.ndim == 2 and len(kept) == n_concepts and kept.dtype == np.int64 and kept.size
    return kept if is_whole and -1 <= kept.min() and kept.max() < n_concepts else None
