"""Exact search, on which all indexes are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ..errors import Errors
from .effort import Steps, search_as_needed
from .nearest import check_finite, exact_search, take_best
from .storage import StoredIndex, choose_dtype

# Above this share of unused rows, an index is rebuilt.
UNUSED_SHARE = 0.25


class ExactIndex(StoredIndex):
    """Compare each query with every row. The recall of approximate indexes is measured against this search."""

    kind: ClassVar[str] = "exact"
    # When an approximate search is repeated with more effort.
    steps: ClassVar[Steps] = ()
    # Whether the config left the choice of the kind to the platform.
    is_auto = False

    def __len__(self) -> int:
        """Return the number of rows, 0 before `build`."""
        return sum(len(part) for part in (self._vectors, self._added) if part is not None)

    @property
    def vectors(self) -> np.ndarray:
        """Return the vectors of all rows.

        RETURNS (ndarray): Shape (rows, width), float32 or float16 as they are stored; memory-mapped if the index was
            loaded from disk, but a copy if rows have been added to it.
        RAISES (ValueError): If the index has not been built.
        """
        return self._arranged if self._added is None else np.concatenate([self._arranged, self._added])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Copy the vectors of some rows.

        rows (ndarray): The rows, ascending.
        RETURNS (ndarray): Shape (rows, width), float32 or float16, as they are stored.
        """
        vectors = np.empty((len(rows), self.width), dtype=self._arranged.dtype)
        first_added = len(self._arranged)
        split = int(np.searchsorted(rows, first_added))
        vectors[:split] = self._arranged[rows[:split]]
        if self._added is not None:
            vectors[split:] = self._added[rows[split:] - first_added]
        return vectors

    @property
    def _arranged(self) -> np.ndarray:
        """Return the vectors that the index was built from."""
        if self._vectors is None:
            raise ValueError(Errors.E301)
        return self._vectors

    @property
    def width(self) -> int:
        """Return the width of the vectors.

        RETURNS (int): Numbers in a vector.
        """
        return int(self._arranged.shape[1])

    def empty(self) -> ExactIndex:
        """Make an index with the same settings and no rows.

        RETURNS (ExactIndex): The new index.
        """
        return type(self)(**self._arguments())

    def build(
        self, vectors: np.ndarray, *, fingerprint: str = "", make_altered: Callable[[], np.ndarray] | None = None
    ) -> None:
        """Build the index and replace its content.

        vectors (ndarray): Shape (rows, width), L2-normalised. They are not copied if they have the type that
            `choose_dtype` chooses.
        fingerprint (str): That of the encoder which made the vectors.
        make_altered (Callable[[], ndarray] | None): Encodes altered names of the rows, shape (n, width). Called if the
            index is approximate, which then measures its recall on them as well.
        RAISES (ValueError): If there are no vectors, or some are not finite.
        """
        vectors = np.ascontiguousarray(vectors, dtype=choose_dtype(len(vectors)))
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise ValueError(Errors.E302.format(shape=vectors.shape))
        check_finite(vectors)
        self._vectors = vectors
        self._added = None
        self.fingerprint = fingerprint
        self._altered = make_altered() if make_altered is not None and self._is_approximate() else None
        self._arrange()

    def extended(self, vectors: np.ndarray) -> ExactIndex:
        """Make an index with additional rows. It shares the rows of this index, which does not change.

        Every query is compared with all new rows, as in exact search.

        vectors (ndarray): Shape (rows, width), L2-normalised, of the same encoder. Row numbers go on where the present
            ones end.
        RETURNS (ExactIndex): The new index.
        RAISES (ValueError): If the width differs, or some are not finite.
        """
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.width:
            raise ValueError(Errors.E330.format(shape=vectors.shape, width=self.width))
        check_finite(vectors)
        twin = self.empty()
        twin.__dict__.update(self.__dict__)
        twin._added = vectors if self._added is None else np.concatenate([self._added, vectors])
        return twin

    def is_worn(self, unused: int) -> bool:
        """Tell whether the index should be rebuilt.

        unused (int): Rows without names.
        RETURNS (bool): Whether to call `rearranged`.
        """
        return unused > UNUSED_SHARE * len(self)

    def rearranged(self, rows: np.ndarray, make_altered: Callable[[], np.ndarray] | None = None) -> ExactIndex:
        """Build an index of some of the rows. This index does not change.

        rows (ndarray): The rows to keep, ascending.
        make_altered (Callable[[], ndarray] | None): Encodes altered names, if this index has none.
        RETURNS (ExactIndex): The new index, whose rows are numbered from 0.
        """
        twin = self.empty()
        altered = self._altered
        twin.build(
            self.take(rows),
            fingerprint=self.fingerprint,
            make_altered=make_altered if altered is None else lambda: altered,
        )
        return twin

    def search(
        self, queries: np.ndarray, k: int, *, effort: int = 1, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the rows with the highest cosine for each query.

        An approximate search is repeated with more effort for queries that are far from all rows found.

        queries (ndarray): Shape (n, width), L2-normalised.
        k (int): Rows wanted.
        effort (int): How many times the usual part of the index an approximate search covers. Filters need more,
            because allowed rows may not be among the nearest.
        own (ndarray | None): A row of each query that does not count when it is decided whether to search again.
        RETURNS (tuple[ndarray, ndarray]): Rows, shape (n, k), int64, padded with -1 where the index has fewer; and
            their cosines, float32, padded with -inf. Best first.
        RAISES (ValueError): If there are no queries, their width is wrong, or some are not finite.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[0] == 0 or queries.shape[1] != self.width:
            raise ValueError(Errors.E303.format(shape=queries.shape, width=self.width))
        if k < 1:
            raise ValueError(Errors.E304.format(k=k))
        check_finite(queries)
        wanted = min(k, len(self._arranged))
        if self.configuration["scoring"] == "exact":
            rows, scores = self._search(queries, wanted, effort)
        else:
            rows, scores = search_as_needed(self._search, self.steps, self._arranged, queries, wanted, effort, own)
        if self._added is not None:
            added, added_scores = exact_search(self._added, queries, min(k, len(self._added)))
            rows = np.concatenate([rows, added + len(self._arranged)], axis=1)
            rows, scores = take_best(rows, np.concatenate([scores, added_scores], axis=1), k)
        missing = k - rows.shape[1]
        if missing > 0:
            rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=-1)
            scores = np.pad(scores, ((0, 0), (0, missing)), constant_values=-np.inf)
        return rows, scores

    def _is_approximate(self) -> bool:
        """Tell whether an index of as many rows is searched approximately."""
        return False

    def _arrange(self) -> None:
        """Prepare the search after the vectors have been set."""

    def _search(self, queries: np.ndarray, k: int, effort: int) -> tuple[np.ndarray, np.ndarray]:
        """Search approximately, if the index can."""
        return exact_search(self._arranged, queries, k)
