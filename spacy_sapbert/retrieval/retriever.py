"""From mentions to concepts: the terminology, the encoder and the index working together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import Errors
from ..files import fill_folder, hash_file, pack_folder, read_manifest, unpack_folder, write_manifest
from ..index import INDEX_FILE, ExactIndex, Subset, read_index
from .cache import LRUCache
from .fetching import get_effort, grow_to, grow_while_cheap
from .filters import Allowed, ConceptFilter, FilterTable
from .token_rows import encode_groups, group_by_tokens, make_row_table, warn_of_unsayable
from .vector_store import VectorStore

if TYPE_CHECKING:
    from ..encoder.shim import EncoderShim
    from ..terminology.table import Terminology

RETRIEVER_FILE = "retriever.json"
ARRAYS = ("offsets", "name_rows", "keys")
FORMAT_VERSION = 2
# Scores of equal vectors can differ by this much.
TIE = 1e-6
# Filters, and copies of the vectors that they allow, that are kept: a linker has one for each label of `label_types`.
KEPT_FILTERS = 32
KEPT_SUBSETS = 8
# Takes vectors and the number of rows to fetch for each; gives rows and scores.
RowSearch = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


class Hit(NamedTuple):
    """A concept found for a mention.

    concept (int): Its row in the terminology's concepts.
    name (int): Row, in the terminology's names, of the name that matched best.
    score (float): Cosine of mention and name.
    """

    concept: int
    name: int
    score: float


class _Batch(NamedTuple):
    """Mentions that are searched for together, and what is found."""

    texts: Sequence[str]
    vectors: np.ndarray
    k: int
    allowed: Allowed | None
    found: list[list[Hit]]
    # Gives a concept's id, by which hits are distinct; None where each concept has its own.
    get_id: Callable[[int], str] | None = None


class Retriever:
    """Find the concepts whose names are nearest to a mention.

    An index row stands for all names with the same tokens, because these have the same vector: names that belong to
    several concepts, or differ only in what the tokenizer ignores, are found together or not at all.

    terminology (Terminology): Concepts and names.
    index (ExactIndex): An index of vectors.
    offsets (ndarray): Where each index row's names start in `name_rows`; shape (rows + 1,), int64. A row whose names
        were removed has none.
    name_rows (ndarray): Rows of the terminology's names, grouped by index row; int64.
    keys (ndarray): The key of each index row's tokens, as `TokenGroups` has them.
    """

    def __init__(
        self,
        terminology: Terminology,
        index: ExactIndex,
        offsets: np.ndarray,
        name_rows: np.ndarray,
        keys: np.ndarray,
    ) -> None:
        self.terminology = terminology
        self.index = index
        self.keys = np.asarray(keys)
        # Plain views: single items of a memmap are slow to get.
        self._offsets = np.asarray(offsets)
        self._name_rows = np.asarray(name_rows)
        self._name_strings = terminology.names["name"]
        self._preferred = terminology.names["preferred"]
        self._filter_table = FilterTable(terminology)
        self._allowed: LRUCache[Allowed] = LRUCache(KEPT_FILTERS)
        self._subsets: LRUCache[Subset] = LRUCache(KEPT_SUBSETS)

    @classmethod
    def build(
        cls,
        terminology: Terminology,
        encoder: EncoderShim,
        index: ExactIndex,
        *,
        batch_size: int = 256,
        vectors_path: str | Path | None = None,
    ) -> Retriever:
        """Encode all names and build the index.

        terminology (Terminology): Concepts and names.
        encoder (EncoderShim): The encoder.
        index (ExactIndex): An index; what it held before is gone.
        batch_size (int): Names in one forward pass.
        vectors_path (str | Path | None): A folder that keeps the vectors, so that what it holds is not encoded.
        RETURNS (Retriever): Ready to search.
        RAISES (ValueError): If no name can be encoded.
        """
        # Before the names are tokenised: a path that is no folder would otherwise be noticed after minutes.
        store = None if vectors_path is None else VectorStore(vectors_path, encoder)
        groups = group_by_tokens(terminology.names["name"], encoder)
        if not groups.tokens:
            raise ValueError(Errors.E410.format(n=terminology.n_names))
        warn_of_unsayable(groups)
        vectors = encode_groups(groups, encoder, batch_size=batch_size, store=store)
        index.build(vectors, fingerprint=encoder.fingerprint)
        return cls(terminology, index, *make_row_table(groups.row_of_name, len(index)), groups.keys)

    @property
    def row_of_name(self) -> np.ndarray:
        """Return the index row of each name.

        RETURNS (ndarray): Shape (names,), int64; -1 for names that cannot be found.
        """
        rows = np.full(self.terminology.n_names, -1, dtype=np.int64)
        rows[self._name_rows] = np.repeat(np.arange(len(self.index)), np.diff(self._offsets))
        return rows

    def allow(self, concept_filter: ConceptFilter) -> Allowed:
        """Apply a filter. The last ones are remembered.

        concept_filter (ConceptFilter): The filter.
        RETURNS (Allowed): The names and rows that it allows.
        RAISES (ValueError): If it holds what occurs nowhere in the terminology.
        """
        allowed = self._allowed.get(concept_filter)
        if allowed is None:
            allowed = self._filter_table.apply(concept_filter, self._offsets, self._name_rows)
            self._allowed.put(concept_filter, allowed)
        return allowed

    def check_filter(self, concept_filter: ConceptFilter) -> None:
        """Refuse types, sources and languages that occur nowhere in the terminology, without applying the filter.

        concept_filter (ConceptFilter): The filter.
        RAISES (ValueError): Naming them.
        """
        self._filter_table.check(concept_filter)

    def search(
        self, texts: Sequence[str], vectors: np.ndarray, k: int, allowed: ConceptFilter | None = None
    ) -> list[list[Hit]]:
        """Find the nearest concepts of each mention.

        texts (Sequence[str]): The mentions; used to choose between names with the same vector.
        vectors (ndarray): Their vectors, shape (n, width).
        k (int): Distinct concepts wanted, or distinct codes with a filter for `coded_in`. There are more where the last
            ones have the same score.
        allowed (ConceptFilter | None): The concepts and names that may be found; None for all.
        RETURNS (list[list[Hit]]): For each mention its concepts, best first. Of equal scores, the concept comes first
            whose name is written like the mention, then the one of which it is a preferred name, then the smaller id.
        RAISES (ValueError): If the filter holds what occurs nowhere in the terminology.
        """
        found: list[list[Hit]] = [[] for _ in texts]
        pending = np.arange(len(texts))
        if allowed is None or allowed.is_open:
            batch = _Batch(texts, vectors, k, None, found)
            self._look(batch, pending, self.index.search, grow_to(len(self.index), 2 * k + 8))
        else:
            names = self.allow(allowed)
            if names.n_concepts:
                get_id = None if allowed.coded_in is None else cache(partial(allowed.get_id, self.terminology))
                batch = _Batch(texts, vectors, min(k, names.n_concepts), names, found, get_id)
                self._look_among(batch, names, pending)
        return found

    def _look_among(self, batch: _Batch, allowed: Allowed, pending: np.ndarray) -> None:
        """Search with a filter: in the index as long as dropping what is not allowed is cheaper than exact search."""
        wanted = 2 * batch.k + 8

        def search(vectors: np.ndarray, fetch: int) -> tuple[np.ndarray, np.ndarray]:
            return self.index.search(vectors, fetch, effort=get_effort(fetch, wanted))

        pending = self._look(batch, pending, search, grow_while_cheap(wanted, allowed.n_rows, len(self.index)))
        if not len(pending):
            return
        subset = self._subsets.get(allowed.filter)
        if subset is None:
            subset = Subset(self.index, np.flatnonzero(allowed.rows))
            self._subsets.put(allowed.filter, subset)
        self._look(batch, pending, subset.search, grow_to(len(subset), wanted))

    def _look(self, batch: _Batch, pending: np.ndarray, search: RowSearch, fetches: Iterable[int]) -> np.ndarray:
        """Search for some of the mentions with more and more rows. Return those that would need still more."""
        for fetch in fetches:
            if not len(pending):
                break
            rows, scores = search(batch.vectors[pending], fetch)
            kept = None if batch.allowed is None else (rows >= 0) & batch.allowed.rows[rows]
            unfinished = []
            for place, query in enumerate(pending.tolist()):
                part = slice(None) if kept is None else kept[place]
                lowest = float(scores[place, -1])
                is_complete = self._collect(
                    batch, query, rows[place, part].tolist(), scores[place, part].tolist(), lowest
                )
                if not is_complete:
                    unfinished.append(query)
            # Concepts with many similar names can fill the first rows: look further for these mentions only.
            pending = np.array(unfinished, dtype=np.int64)
        return pending

    def _collect(self, batch: _Batch, query: int, rows: list[int], scores: list[float], lowest: float) -> bool:
        """Take distinct concepts or codes from index rows until there are enough. Tell whether that is certain.

        The lowest score is that of the last row fetched, which the filter may have dropped.
        """
        text, k = batch.texts[query], batch.k
        best: dict[int, tuple[Hit, tuple[bool, bool]]] = {}
        ids: set[str] = set()
        distinct: Collection[Any] = best if batch.get_id is None else ids
        last = np.inf
        is_complete = False
        for row, score in zip(rows, scores, strict=True):
            if row < 0 or (len(distinct) >= k and score < last - TIE):
                is_complete = True
                break
            last = score
            for name_row in self._name_rows[self._offsets[row] : self._offsets[row + 1]].tolist():
                if batch.allowed is not None and not batch.allowed.names[name_row]:
                    continue
                hit = Hit(int(self.terminology.name_concept[name_row]), name_row, score)
                rank = self._rank(text, name_row)
                known = best.get(hit.concept)
                if known is None or (hit.score >= known[0].score - TIE and rank < known[1]):
                    best[hit.concept] = (hit, rank)
                    if batch.get_id is not None:
                        ids.add(batch.get_id(hit.concept))
        ordered = sorted(best.values(), key=lambda item: (-round(item[0].score, 6), item[1], item[0].concept))
        hits: dict[Any, Hit] = {}
        for hit, _ in ordered:
            hits.setdefault(hit.concept if batch.get_id is None else batch.get_id(hit.concept), hit)
        batch.found[query] = list(hits.values())
        return is_complete or (len(distinct) >= k and lowest < last - TIE)

    def _rank(self, text: str, name_row: int) -> tuple[bool, bool]:
        """Order names with the same vector: written like the mention first, then preferred ones."""
        return self._name_strings[name_row] != text, not self._preferred[name_row]

    def to_disk(self, path: str | Path) -> None:
        """Save index and row table to a folder. The terminology is saved on its own.

        path (str | Path): The folder; other files in it are left alone.
        """
        with fill_folder(Path(path), last=RETRIEVER_FILE) as folder:
            np.save(folder / "offsets.npy", self._offsets)
            np.save(folder / "name_rows.npy", self._name_rows)
            np.save(folder / "keys.npy", self.keys)
            self.index.to_disk(folder / "index")
            data = {
                "terminology": self.terminology.fingerprint,
                "encoder": self.index.fingerprint,
                "index": hash_file(folder / "index" / INDEX_FILE),
            }
            write_manifest(folder / RETRIEVER_FILE, FORMAT_VERSION, data, below=False)

    @classmethod
    def from_disk(cls, path: str | Path, terminology: Terminology, *, memory_map: bool = True) -> Retriever:
        """Load what `to_disk` has saved.

        path (str | Path): The folder.
        terminology (Terminology): The terminology that was saved with it.
        memory_map (bool): Leave on disk what is not needed at once.
        RETURNS (Retriever): Ready to search.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If the terminology or the index is another one.
        """
        path = Path(path)
        data = read_manifest(path / RETRIEVER_FILE, FORMAT_VERSION)
        if data["terminology"] != terminology.fingerprint:
            raise ValueError(Errors.E412.format(path=path))
        arrays = [np.load(path / f"{name}.npy", mmap_mode="r" if memory_map else None) for name in ARRAYS]
        index = read_index(path / "index", memory_map=memory_map)
        # The index has a manifest of its own, so one that was copied in from elsewhere is whole and still wrong.
        if hash_file(path / "index" / INDEX_FILE) != data["index"]:
            raise ValueError(Errors.E413.format(path=path / "index"))
        return cls(terminology, index, *arrays)

    def to_bytes(self) -> bytes:
        """Serialise index and row table to bytes.

        RETURNS (bytes): The packed folder.
        """
        with TemporaryDirectory() as temporary:
            self.to_disk(Path(temporary) / "retriever")
            return pack_folder(Path(temporary) / "retriever")

    @classmethod
    def from_bytes(cls, data: bytes, terminology: Terminology) -> Retriever:
        """Load what `to_bytes` has packed.

        data (bytes): The packed folder.
        terminology (Terminology): The terminology that was saved with it.
        RETURNS (Retriever): Ready to search.
        """
        with TemporaryDirectory() as temporary:
            unpack_folder(data, Path(temporary))
            return cls.from_disk(temporary, terminology, memory_map=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Retriever.from_bytes, (self.to_bytes(), self.terminology)
