"""The base of all indexes: rows of vectors, exact search among them, and the folder in which they are saved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from typing_extensions import TypedDict

from ..arrays import ArrayFolder, save_array
from ..files import check_listed, fill_folder, pack_with, read_manifest, unpack_with, write_manifest
from ..ragged import count_offsets
from .coarse import CoarseRows, Vectors

INDEX_FILE = "index.json"
# Vectors that the index was built from, their scales if they have 8-bit numbers, vectors that were added, and those of
# altered names.
ARRAYS = VECTORS, SCALES, ADDED, ALTERED = "dataset", "scales", "added", "altered"
ARRAY_FILES = tuple(f"{name}.npy" for name in ARRAYS)
# The files that the package of an approximate index writes.
STRUCTURE_FOLDER = "structure"
PARTS = (*ARRAY_FILES, STRUCTURE_FOLDER)
FORMAT_VERSION = 1
# The configuration of a search that compares a query with all rows.
EXACT = {"scoring": "exact"}
# From this number of rows on, vectors are stored in half precision: 10 million vectors of 256 numbers take 5 GB instead
# of 10. A cosine changes by 2e-4 at most. Where strings are encoded again to score them, 8 bits are enough.
HALF_PRECISION_FROM = 2_000_000
# Above this share of unused rows, an index is rebuilt.
UNUSED_SHARE = 0.25
# Smaller subsets are copied. The vectors of larger ones are collected at each search.
COPIED_BYTES = 64 * 2**20
# The products of a block, 16 MB, stay near the processor while the best of them are picked.
QUERY_BLOCK = 128
ROW_BLOCK = 32_768
# Scores in a group, whose best one is found first. Few others are as high as the best ones of the best groups.
GROUP = 32
# Rows of candidates that are collected at once: few enough to stay near the processor.
COLLECTED = 1024


def choose_dtype(rows: int) -> np.dtype[Any]:
    """Choose the precision of an index's vectors: float32, or float16 for large indexes."""
    return np.dtype(np.float32 if rows < HALF_PRECISION_FROM else np.float16)


def make_room(rows: int, width: int, *, is_encoded_again: bool) -> Vectors:
    """Make room for an index's vectors. `is_encoded_again` says that whoever searches encodes the best rows again."""
    if is_encoded_again and rows >= HALF_PRECISION_FROM:
        return CoarseRows.empty(rows, width)
    return np.empty((rows, width), dtype=choose_dtype(rows))


class IndexManifest(TypedDict):
    """What the manifest says of an index."""

    kind: str
    rows: int
    fingerprint: str  # of the encoder
    settings: dict[str, Any]
    configuration: dict[str, Any]
    recall: dict[str, Any]
    files: dict[str, str]


class Rows(Protocol):
    """Rows of vectors, which need not be in memory: they are read in blocks."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


def exact_search(vectors: Rows, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the k rows with the highest inner products, in blocks that limit memory: best first, equal ones by row."""
    parts = [queries[start : start + QUERY_BLOCK] for start in range(0, len(queries), QUERY_BLOCK)]
    best = [np.empty((len(part), 0), dtype=np.int64) for part in parts]
    # Each block is read once.
    for start in range(0, len(vectors), ROW_BLOCK):
        block = widen(np.asarray(vectors[start : start + ROW_BLOCK])).T
        for number, part in enumerate(parts):
            scores = part @ block
            # The vectors of a damaged file: a row without a score is far from everything.
            if np.isnan(scores.min()):
                scores[np.isnan(scores)] = -np.inf
            ranks = _rank_highest(scores, k, start)
            ranks = np.concatenate([best[number], ranks], axis=1)
            best[number] = _take_lowest(ranks, k)
    return _read_ranks(np.concatenate(best))


def take_best(rows: np.ndarray, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the rows with the highest scores of each query: best first, equal ones by row. Scores are float32."""
    return _read_ranks(_take_lowest(_rank(rows, scores), k))


def _rank(rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Make one number of a row and its score, the lower the better. To sort numbers takes a tenth of the time of
    finding the order of two columns."""
    bits = scores.view(np.int32)
    # The bits of floats below zero are in the opposite order.
    ordered = (bits ^ (bits >> 31 & 0x7FFFFFFF)).astype(np.int64)
    return ~ordered << 32 | rows & 0xFFFFFFFF


def _read_ranks(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bits = (~ranks >> 32).astype(np.int32)
    # The lower half, with its sign: the row -1 stands for none.
    return ranks.astype(np.int32).astype(np.int64), (bits ^ (bits >> 31 & 0x7FFFFFFF)).view(np.float32)


def _take_lowest(ranks: np.ndarray, k: int) -> np.ndarray:
    if k < ranks.shape[1]:
        ranks = np.partition(ranks, k - 1, axis=1)[:, :k]
    return np.sort(ranks, axis=1)


def _rank_highest(scores: np.ndarray, k: int, start: int) -> np.ndarray:
    """Rank the highest scores of each query, at least k of them; all if there are few. Their rows follow `start`."""
    n, m = scores.shape
    n_groups = m // GROUP
    if n_groups < k:
        return _rank(np.arange(start, start + m), scores)
    # A group has every `n_groups`th score. The k best groups have at least k scores that are not lower than this.
    tops = scores[:, : n_groups * GROUP].reshape(n, GROUP, n_groups).max(axis=1)
    lowest = np.partition(tops, -k, axis=1)[:, -k, None]
    places = np.flatnonzero(scores >= lowest)
    query, row = np.divmod(places, m)
    offsets = count_offsets(query, n)
    column = np.arange(len(places)) - offsets[query]
    ranks = np.full((n, np.diff(offsets).max()), np.iinfo(np.int64).max)
    ranks[query, column] = _rank(start + row, scores.ravel()[places])
    return ranks


def score_rows(vectors: Vectors, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute the cosines of queries and their candidate rows, shape (n, m), in blocks; -inf where a row is -1."""
    # A mapped array is a class of its own, which takes longer.
    numbers = np.asarray(vectors.codes if isinstance(vectors, CoarseRows) else vectors)
    scores = np.empty(rows.shape, dtype=np.float32)
    block = max(1, COLLECTED // rows.shape[1])
    for start in range(0, len(queries), block):
        part = slice(start, start + block)
        # -1 reads the last row, whose score is replaced below.
        of_query = widen(numbers.take(rows[part], axis=0, mode="wrap"))
        np.matmul(of_query, queries[part, :, None], out=scores[part, :, None])
    if isinstance(vectors, CoarseRows):
        scores *= vectors.scales.take(rows, mode="wrap")
    is_missing = (rows < 0) | np.isnan(scores)
    scores[is_missing] = -np.inf
    return scores


def widen(vectors: np.ndarray) -> np.ndarray:
    """Make float32 of finite float16 numbers, exactly, in a quarter of NumPy's time, and of 8-bit ones; float32 stays
    as it is."""
    if vectors.dtype != np.float16:
        return vectors.astype(np.float32, copy=False)
    # Sign, exponent and fraction move to their places in 32 bits, where the exponent is 112 too small.
    bits = np.ascontiguousarray(vectors).view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= ~0x70000000
    numbers: np.ndarray = bits.view(np.float32)
    numbers *= np.float32(2.0**112)
    return numbers


def check_vectors(vectors: np.ndarray, width: int, dtype: Any = np.float32) -> np.ndarray:
    """Refuse vectors of another width, and those that are not finite, because their scores would be meaningless."""
    vectors = np.ascontiguousarray(vectors, dtype=dtype)
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise ValueError(f"Vectors have the shape {vectors.shape}, not (n, {width}): are they of another encoder?")
    # A sum is not finite if any of its terms is not, and takes no memory; ScaNN answers [0, 0, 0] to a NaN.
    bad = ~np.isfinite(vectors.sum(axis=1))
    if bad.any():
        raise ValueError(
            f"{bad.sum()} vectors are not finite, the first in row {np.flatnonzero(bad)[0]}. The encoder's weights are "
            "damaged, or overflow in this precision: try precision = 'fp32'"
        )
    return vectors


class Index:
    """The vectors of names, and the search that compares each query with each of them. Subclasses approximate it."""

    kind: ClassVar[str] = "exact"
    # Whether the config left the choice of the kind to the platform.
    is_auto = False

    def __init__(self) -> None:
        self._vectors: Vectors | None = None
        # Rows added later, separate from the built rows, which may be memory-mapped and arranged for search.
        self._added: np.ndarray | None = None
        self.fingerprint = ""
        self.configuration: dict[str, Any] = EXACT
        self.recall: dict[str, Any] = {}
        # What a package has arranged for an approximate search.
        self._structure: Any = None
        # Vectors of altered names, with which recall is measured. An index built of the same rows needs them again.
        self._altered: np.ndarray | None = None

    def __len__(self) -> int:
        return sum(len(part) for part in (self._vectors, self._added) if part is not None)

    @property
    def vectors(self) -> Vectors:
        """Return the vectors of all rows, as they are stored: mapped from disk, or a copy if rows have been added."""
        built = self._built
        if self._added is None:
            return built
        if isinstance(built, CoarseRows):
            return built.joined(self._added)
        return np.concatenate([built, self._added])

    @property
    def is_coarse(self) -> bool:
        """Whether scores are off by some thousandths, so that the best rows have to be encoded again."""
        return isinstance(self._vectors, CoarseRows)

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        return int(self._built.shape[1])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Copy the vectors of some rows."""
        is_built = rows < len(self._built)
        vectors = np.empty((len(rows), self.width), dtype=self._built.dtype)
        vectors[is_built] = self._built[rows[is_built]]
        if self._added is not None:
            vectors[~is_built] = self._added[rows[~is_built] - len(self._built)]
        return vectors

    def empty(self) -> Index:
        """Make an index with the same settings and no rows."""
        return type(self)(**self._arguments())

    def build(
        self,
        vectors: Vectors,
        *,
        fingerprint: str = "",
        make_altered: Callable[[], np.ndarray] | None = None,
    ) -> None:
        """Build the index and replace its content.

        vectors (ndarray | CoarseRows): Shape (rows, width), L2-normalised. They are copied only to change their type;
            those of 8-bit numbers stay as they are.
        fingerprint (str): That of the encoder which made the vectors.
        make_altered (Callable[[], ndarray] | None): Encodes altered names, shape (n, width), with which an approximate
            index measures its recall as well.
        RAISES (ValueError): If vectors have no numbers, or some are not finite.
        """
        if not isinstance(vectors, CoarseRows):
            vectors = check_vectors(vectors, np.shape(vectors)[-1], choose_dtype(len(vectors)))
        if not vectors.shape[1]:
            raise ValueError(f"an index needs vectors of at least one number, but these have the shape {vectors.shape}")
        self._vectors = vectors
        self._added = None
        self.fingerprint = fingerprint
        self._altered = make_altered() if make_altered is not None and self._is_approximate() else None
        self._arrange()

    def extended(self, vectors: np.ndarray) -> Index:
        """Make an index with additional rows, with which every query is compared. This index does not change.

        The new index shares its rows, and row numbers go on where the present ones end.
        """
        vectors = check_vectors(vectors, self.width)
        twin = self.empty()
        twin.__dict__.update(self.__dict__)
        twin._added = vectors if self._added is None else np.concatenate([self._added, vectors])
        return twin

    def is_worn(self, unused: int) -> bool:
        """Return whether enough rows are unused to call `rearranged`."""
        return unused > UNUSED_SHARE * len(self)

    def rearranged(self, rows: np.ndarray, make_altered: Callable[[], np.ndarray] | None = None) -> Index:
        """Build an index of some rows, given in ascending order and numbered from 0 then. This one does not change."""
        twin = self.empty()
        altered = self._altered
        get_altered = make_altered if altered is None else lambda: altered
        vectors = self.vectors.take(rows) if isinstance(self._built, CoarseRows) else self.take(rows)
        twin.build(vectors, fingerprint=self.fingerprint, make_altered=get_altered)
        return twin

    def search(
        self, queries: np.ndarray, k: int, *, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the rows with the highest cosine for each query.

        queries (ndarray): Shape (n, width), L2-normalised.
        k (int): Rows wanted.
        allowed (ndarray | None): For each row whether a filter allows it. All are found, but where no allowed one is
            near, an approximate search covers more of the index.
        RETURNS (tuple[ndarray, ndarray]): Rows, shape (n, k), int64, padded with -1 where the index has fewer; and
            their cosines, float32, padded with -inf. Best first.
        RAISES (ValueError): If there are no queries, their width is wrong, or some are not finite.
        """
        queries = check_vectors(queries, self.width)
        if not len(queries) or k < 1:
            raise ValueError(f"k is {k} for {len(queries)} queries, but a search needs at least one of both")
        rows, scores = self._search(queries, min(k, len(self._built)), allowed=allowed)
        if self._added is not None:
            added, added_scores = exact_search(self._added, queries, min(k, len(self._added)))
            rows = np.concatenate([rows, added + len(self._built)], axis=1)
            scores = np.concatenate([scores, added_scores], axis=1)
            rows, scores = take_best(rows, scores, k)
        missing = k - rows.shape[1]
        if missing > 0:
            padding = (0, 0), (0, missing)
            rows = np.pad(rows, padding, constant_values=-1)
            scores = np.pad(scores, padding, constant_values=-np.inf)
        return rows, scores

    def to_disk(self, path: str | Path) -> None:
        """Save to a folder, completely or not at all.

        path (str | Path): The folder; other files in it are left alone.
        RAISES (ValueError): If the index has not been built.
        """
        built = self._built
        parts = (built.codes, built.scales) if isinstance(built, CoarseRows) else (built, None)
        arrays = dict(zip(ARRAY_FILES, (*parts, self._added, self._altered), strict=True))
        data = {
            "kind": self.kind,
            "rows": len(self),
            "fingerprint": self.fingerprint,
            "settings": self._arguments(),
            "configuration": self.configuration,
            "recall": self.recall,
        }
        # An index that lay in the folder before may have files that this one lacks.
        with fill_folder(Path(path), last=INDEX_FILE, remove=PARTS) as folder:
            for name, vectors in arrays.items():
                if vectors is not None:
                    save_array(folder / name, vectors)
            if self._structure is not None:
                (folder / STRUCTURE_FOLDER).mkdir()
                self._write_structure(folder / STRUCTURE_FOLDER)
            write_manifest(folder / INDEX_FILE, FORMAT_VERSION, data)

    def read(self, folder: Path, memory_map: bool = True) -> IndexManifest:
        """Load a folder that an index of any kind has written, and return its manifest. See `read_index`."""
        data = read_manifest(folder / INDEX_FILE, FORMAT_VERSION, IndexManifest, parts=PARTS, used=["*.npy"])
        check_listed(folder / INDEX_FILE, data["files"], [f"{VECTORS}.npy"])
        arrays = ArrayFolder(folder, memory_map=memory_map)
        vectors = arrays.read(VECTORS, np.float32, np.float16, np.int8, shape=(None, None))
        self._vectors = vectors
        if vectors.dtype == np.int8:
            check_listed(folder / INDEX_FILE, data["files"], [f"{SCALES}.npy"])
            self._vectors = CoarseRows.read(arrays, vectors, SCALES)
        self._added = None
        self._altered = None
        width = self.width
        if f"{ADDED}.npy" in data["files"]:
            self._added = arrays.read(ADDED, np.float32, shape=(None, width))
        if f"{ALTERED}.npy" in data["files"]:
            self._altered = arrays.read(ALTERED, np.float32, shape=(None, width))
        if not width or data["rows"] != len(self):
            reason = f"it has {len(self):,} vectors of {width} numbers, where {data['rows']:,} were saved"
            raise arrays.refuse(VECTORS, reason)
        self.fingerprint = data["fingerprint"]
        return data

    def __reduce__(self) -> tuple[Any, ...]:
        packed = None if self._vectors is None else pack_with(self.to_disk)
        return partial(type(self), **self._arguments()), (), packed

    def __setstate__(self, packed: bytes) -> None:
        unpack_with(partial(self.read, memory_map=False), packed)

    @property
    def _built(self) -> Vectors:
        """The vectors that the index was built from, without those that were added."""
        if self._vectors is None:
            raise ValueError("the index is empty: call the linker's `initialize`, or load a saved pipeline")
        return self._vectors

    # What subclasses replace.

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments, for saving and unpickling."""
        return {}

    def _is_approximate(self) -> bool:
        """Return whether an index of as many rows is searched approximately."""
        return False

    def _arrange(self) -> None:
        """Prepare the search after the vectors have been set."""

    def _search(
        self, queries: np.ndarray, k: int, ignored: int = 0, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search the built rows, at least k. The best `ignored` ones, and those that are not allowed, do not count in
        the decision to go on."""
        return exact_search(self._built, queries, k)

    def _write_structure(self, folder: Path) -> None:
        """Write the structure to an empty folder."""


class Subset:
    """Compare queries with selected rows of an index of any kind."""

    def __init__(self, index: Index, rows: np.ndarray) -> None:
        self._index = index
        # In ascending order, int64.
        self._rows = rows
        is_small = len(rows) * index.width * np.dtype(np.float32).itemsize <= COPIED_BYTES
        self._copied = index.take(rows) if is_small else None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, part: slice) -> np.ndarray:
        return self._index.take(self._rows[part]) if self._copied is None else self._copied[part]

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the k selected rows with the highest cosine for each query, as `Index.search` does."""
        rows, scores = exact_search(self, check_vectors(queries, self._index.width), k)
        return self._rows[rows], scores
