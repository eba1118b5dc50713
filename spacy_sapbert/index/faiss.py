"""Approximate search with FAISS, tuned to a target recall."""

from __future__ import annotations

import math
from errno import EIO
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import OTHER_VERSION
from ..files import check_listed
from ..forking import is_forked
from ..settings import with_settings
from .approximate import IndexSettings
from .leaves import SAMPLE_PER_LEAF, SEED, SOAR_LAMBDA, TRAINING_PASSES, LeafIndex

FILE = "leaves.faiss"
# Numbers hashed together to 4 bits: the first of these that divides the width of the vectors. Among 6.7 million names,
# 3 find more than 4 in the same time.
HASHED_TOGETHER = (3, 4, 2, 1)
HASH_BITS = 4
# What an index, its hashes and the lists of its leaves say of themselves.
FIELDS = (
    "d",
    "metric_type",
    "nlist",
    "code_size",
    "by_residual",
    "bbs",
    "M",
    "M2",
    "ksub",
    "nbits",
    "implem",
    "qbs",
    "qbs2",
)
HASH_FIELDS = ("d", "M", "nbits", "dsub", "ksub", "code_size")
LIST_FIELDS = ("nlist", "code_size", "n_per_block", "block_size")
# A row's second leaf is one of its nearest leaves. Groups of leaves are searched for these, because comparing each row
# with all leaves takes three times as long: of 144 groups, 24 have 98 % of the nearest leaves.
NEAREST = 16
GROUPS_PER_ROOT = 2.0
SEARCHED_GROUPS = 24
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
        faiss = self.import_package()
        sample = self._draw_sample()
        leaves = self._count_leaves()
        centres = faiss.IndexFlatIP(self.width)
        arranged = self._make_empty(faiss.IndexIVFPQ, centres)
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

    def _make_empty(self, kind: Any, centres: Any) -> Any:
        faiss = self.import_package()
        width = self.width
        hashes = width // next(numbers for numbers in HASHED_TOGETHER if width % numbers == 0)
        return kind(centres, width, self._count_leaves(), hashes, HASH_BITS, faiss.METRIC_INNER_PRODUCT)

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
        faiss = self.import_package()
        path = folder / FILE
        check_listed(folder, listed, [FILE])
        try:
            arranged = faiss.read_index(str(path))
        except (RuntimeError, MemoryError) as error:
            raise OSError(OTHER_VERSION.format(path=path, reason=error)) from error
        if not self._is_own(arranged):
            reason = f"it holds no index of {len(self._built):,} rows as this version of FAISS makes it"
            raise OSError(OTHER_VERSION.format(path=path, reason=reason))
        return arranged

    def _is_own(self, arranged: Any) -> bool:
        """Return whether an index differs only in leaves and hashes from what is built of the rows. A search relies on
        its numbers."""
        faiss = self.import_package()
        rows = len(self._built)
        if not isinstance(arranged, faiss.IndexIVFPQFastScan):
            return False
        own = self._make_empty(faiss.IndexIVFPQFastScan, faiss.IndexFlatIP(self.width))
        # As it is where an index with hashes of residuals is packed for fast scans.
        own.by_residual = True
        centres = faiss.downcast_index(arranged.quantizer)
        lists = faiss.downcast_InvertedLists(arranged.invlists)
        if not isinstance(centres, faiss.IndexFlatIP) or not isinstance(lists, faiss.BlockInvertedLists):
            return False
        expected = faiss.downcast_InvertedLists(own.invlists)
        leaves = own.nlist
        width = self.width
        sizes = arranged.ntotal, centres.d, centres.ntotal, centres.codes.size(), arranged.pq.centroids.size()
        if sizes != (2 * rows, width, leaves, 4 * width * leaves, width << HASH_BITS):
            return False
        pairs = (arranged, own, FIELDS), (arranged.pq, own.pq, HASH_FIELDS), (lists, expected, LIST_FIELDS)
        if any(getattr(one, name) != getattr(other, name) for one, other, names in pairs for name in names):
            return False
        for leaf in range(leaves):
            if size := lists.list_size(leaf):
                ids = faiss.rev_swig_ptr(lists.get_ids(leaf), size)
                if ids.min() < 0 or ids.max() >= rows:
                    return False
        return True


class LeafFinder:
    """Find the two leaves of each row: the nearest one, and the one that covers what the first misses. Its residual is
    the shortest, counting again what is parallel to the first one's residual (SOAR)."""

    def __init__(self, faiss: Any, centres: np.ndarray) -> None:
        width = centres.shape[1]
        n_groups = round(GROUPS_PER_ROOT * math.sqrt(len(centres)))
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
        is_missing = leaves[:, 1:] < 0
        first = leaves[:, :1]
        others = np.where(is_missing, first, leaves[:, 1:])
        by_first = products[:, :1]
        by_others = np.where(is_missing, by_first, products[:, 1:])
        lengths = np.einsum("ij,ij->i", rows, rows)[:, None]
        squares = np.diag(self._products)
        # Of the residuals: squared lengths, and the product of the first and each other one.
        of_first = lengths - 2 * by_first + squares[first]
        of_others = lengths - 2 * by_others + squares[others]
        of_both = lengths - by_first - by_others + self._products[first, others]
        of_first = np.maximum(of_first, np.finfo(np.float32).tiny)
        costs = of_others + SOAR_LAMBDA * of_both**2 / of_first
        second = np.take_along_axis(others, costs.argmin(axis=1)[:, None], axis=1)
        return np.stack([first[:, 0], second[:, 0]])


def _set_training(parameters: Any, **values: Any) -> None:
    for name, value in {"spherical": True, "seed": SEED, "min_points_per_centroid": 1, **values}.items():
        setattr(parameters, name, value)
