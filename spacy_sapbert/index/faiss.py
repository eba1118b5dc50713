"""Approximate search with FAISS, tuned to a target recall."""

from __future__ import annotations

import math
from errno import EIO
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import DAMAGED, MISSING
from ..forking import is_forked
from ..settings import with_settings
from .approximate import IndexSettings
from .leaves import SAMPLE_PER_LEAF, SEED, SOAR_LAMBDA, TRAINING_PASSES, LeafIndex

FILE = "leaves.faiss"
# Numbers hashed together to 4 bits: the first of these that divides the width of the vectors. Among 6.7 million names,
# 3 find more than 4 in the same time.
HASHED_TOGETHER = (3, 4, 2, 1)
HASH_BITS = 4
# A row's second leaf is one of its nearest leaves. Groups of leaves are searched for these, because comparing each row
# with all leaves takes three times as long: of 144 groups, 24 have 98 % of the nearest leaves.
NEAREST, GROUPS_PER_ROOT, SEARCHED_GROUPS = 16, 2.0, 24
# Rows compared with the leaves at once: few enough to stay near the processor.
ASSIGNED = 1 << 16


@with_settings(IndexSettings)
class FaissIndex(LeafIndex):
    """Search with FAISS: leaves, product quantisation inside them, exact rescoring of the best. It is read from disk in
    a fraction of ScaNN's time.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    kind: ClassVar[str] = "faiss"
    module: ClassVar[str] = "faiss"

    @classmethod
    def import_package(cls) -> Any:
        """Import the package. Its threads do not exist in a forked process."""
        package = super().import_package()
        if is_forked():
            package.omp_set_num_threads(1)
        return package

    def _build_structure(self) -> Any:
        faiss, sample, width, leaves = self.import_package(), self._draw_sample(), self.width, self._count_leaves()
        hashes = width // next(numbers for numbers in HASHED_TOGETHER if width % numbers == 0)
        centres = faiss.IndexFlatIP(width)
        arranged = faiss.IndexIVFPQ(centres, width, leaves, hashes, HASH_BITS, faiss.METRIC_INNER_PRODUCT)
        add_preassigned = import_module("faiss.contrib.ivf_tools").add_preassigned
        _set_training(arranged.cp, niter=TRAINING_PASSES, max_points_per_centroid=SAMPLE_PER_LEAF)
        arranged.train(sample)
        finder = LeafFinder(faiss, centres.reconstruct_n(0, leaves))
        for start, block in self._take_blocks():
            for first in range(0, len(block), ASSIGNED):
                rows = block[first : first + ASSIGNED]
                numbers = np.arange(start + first, start + first + len(rows), dtype=np.int64)
                for leaf in finder.find(rows):
                    add_preassigned(arranged, rows, leaf, numbers)
        # A copy, which owns all of its parts.
        return faiss.clone_index(faiss.IndexIVFPQFastScan(arranged))

    def _search_leaves(self, queries: np.ndarray, wanted: int, leaves: int) -> np.ndarray:
        parameters = self.import_package().SearchParametersIVF(nprobe=leaves)
        _, rows = self._structure.search(queries, wanted, params=parameters)
        rows = -np.sort(-rows, axis=1)
        rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1
        return rows

    def _write_structure(self, folder: Path) -> None:
        faiss = self.import_package()
        try:
            # Not the path: FAISS does not notice that the last few kilobytes cannot be written.
            with (folder / FILE).open("wb") as file:
                faiss.write_index(self._structure, faiss.PyCallbackIOWriter(file.write))
        except RuntimeError as error:
            raise OSError(EIO, f"{error}. The disk is probably full", str(folder)) from error

    def _read_structure(self, folder: Path, listed: set[str], memory_map: bool) -> Any:
        faiss, path = self.import_package(), folder / FILE
        if FILE not in listed:
            raise FileNotFoundError(MISSING.format(path=path))
        try:
            found = faiss.read_index(str(path))
        except RuntimeError as error:
            raise OSError(DAMAGED.format(path=path, reason=error)) from error
        rows, width = self._built.shape
        if not isinstance(found, faiss.IndexIVFPQFastScan) or (found.ntotal, found.d) != (2 * rows, width):
            reason = f"it holds {found.ntotal} entries of width {found.d}, not {2 * rows} of {width}"
            raise OSError(DAMAGED.format(path=path, reason=reason))
        lists = [(found.invlists.get_ids(leaf), found.invlists.list_size(leaf)) for leaf in range(found.nlist)]
        ids = [faiss.rev_swig_ptr(*of_leaf) for of_leaf in lists if of_leaf[1]]
        if any(of_leaf.min() < 0 or of_leaf.max() >= rows for of_leaf in ids):
            raise OSError(DAMAGED.format(path=path, reason=f"it has rows that the {rows} vectors lack"))
        return found


class LeafFinder:
    """Find the two leaves of each row: the nearest one, and the one that covers what the first misses. Its residual is
    the shortest, counting again what is parallel to the first one's residual (SOAR)."""

    def __init__(self, faiss: Any, centres: np.ndarray) -> None:
        width, n_groups = centres.shape[1], round(GROUPS_PER_ROOT * math.sqrt(len(centres)))
        self._groups = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, n_groups, faiss.METRIC_INNER_PRODUCT)
        _set_training(self._groups.cp)
        self._groups.train(centres)
        self._groups.add(centres)
        self._groups.nprobe = SEARCHED_GROUPS
        self._products = centres @ centres.T

    def find(self, rows: np.ndarray) -> np.ndarray:
        """Find the first leaves and the second leaves of rows, shape (2, n)."""
        products, leaves = self._groups.search(rows, NEAREST)
        # Where the groups have fewer leaves, the first one again.
        is_missing = leaves < 0
        leaves, products = (np.where(is_missing, found[:, :1], found) for found in (leaves, products))
        first, others, lengths = leaves[:, :1], leaves[:, 1:], np.einsum("ij,ij->i", rows, rows)[:, None]
        squares = np.diag(self._products)
        # Of the residuals: squared lengths, and the product of the first and each other one.
        of_first = lengths - 2 * products[:, :1] + squares[first]
        of_others = lengths - 2 * products[:, 1:] + squares[others]
        of_both = lengths - products[:, :1] - products[:, 1:] + self._products[first, others]
        costs = of_others + SOAR_LAMBDA * of_both**2 / np.maximum(of_first, np.finfo(np.float32).tiny)
        return np.stack([first[:, 0], others[np.arange(len(rows)), costs.argmin(axis=1)]])


def _set_training(parameters: Any, **values: Any) -> None:
    for name, value in {"spherical": True, "seed": SEED, "min_points_per_centroid": 1, **values}.items():
        setattr(parameters, name, value)
