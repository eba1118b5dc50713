"""Find the concepts of mentions with a terminology and an index of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import Errors
from ..index import Index, Subset, choose_dtype, warn_of_memory
from .altered_names import encode_altered_names
from .cache import LRUCache
from .collecting import Collector, Found, IdNumbers, Names
from .filter_cost import get_effort, grow_while_cheap
from .filters import Allowed, ConceptFilter, FilterTable
from .hits import Hit, Hits
from .name_table import NameTable
from .ties import TieBreaker
from .token_rows import encode_groups, group_by_tokens, make_row_table, warn_of_unsayable
from .vector_store import VectorStore
from .words import OWN_CASE_LENGTH, own_case_forms

if TYPE_CHECKING:
    from ..encoder.shim import EncoderShim
    from ..terminology.table import Terminology

# Cached filters, and cached copies of the vectors that they allow. Each label of `label_types` has a filter.
KEPT_FILTERS = 32
KEPT_SUBSETS = 8
# Takes vectors and the number of rows to fetch for each; gives rows and scores.
RowSearch = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


class _Batch(NamedTuple):
    """Mentions that are searched together, and their hits."""

    texts: Sequence[str]
    vectors: np.ndarray
    k: int
    allowed: Allowed | None
    found: list[Hits]
    # The numbers of ids that concepts can share; None if each has its own.
    number: Callable[[np.ndarray], np.ndarray] | None = None


class Retriever:
    """Find the concepts whose names are nearest to a mention.

    An index row stands for all names with the same tokens, because these have the same vector: names that belong to
    several concepts, or differ only in what the tokenizer ignores, are found together or not at all.

    terminology (Terminology): Concepts and names.
    index (Index): An index of vectors.
    offsets (ndarray): Where each index row's names start in `name_rows`; shape (rows + 1,), int64. A row whose names
        were removed has none.
    name_rows (ndarray): Rows of the terminology's names, grouped by index row; int64.
    keys (ndarray): The key of each index row's tokens, as `TokenGroups` has them.
    table (NameTable | None): Which names are written like a text; None to make it when it is first needed.
    """

    def __init__(
        self,
        terminology: Terminology,
        index: Index,
        offsets: np.ndarray,
        name_rows: np.ndarray,
        keys: np.ndarray,
        table: NameTable | None = None,
    ) -> None:
        self.terminology = terminology
        self.index = index
        self.keys = np.asarray(keys)
        # Plain views: single items of a memmap are slow to get.
        self.offsets = np.asarray(offsets)
        self.name_rows = np.asarray(name_rows)
        # Columns of the terminology, because getting one from its table takes longer than reading a value.
        self.concept_columns = [terminology.concepts[column] for column in ("id", "canonical_name", "types")]
        self.names = terminology.names["name"]
        self.filters = FilterTable(terminology)
        self._preferred = terminology.names["preferred"].to_numpy()
        names = Names(self.offsets, self.name_rows, terminology.name_concept, self.names, self._preferred)
        self._table, self._ties = table, TieBreaker(terminology)
        self._collector = Collector(names, self._ties)
        self._allowed: LRUCache[Allowed] = LRUCache(KEPT_FILTERS)
        self._subsets: LRUCache[Subset] = LRUCache(KEPT_SUBSETS)

    @classmethod
    def build(
        cls,
        terminology: Terminology,
        encoder: EncoderShim,
        index: Index,
        *,
        batch_size: int = 256,
        vectors_path: str | Path | None = None,
    ) -> Retriever:
        """Encode all names and build the index.

        terminology (Terminology): Concepts and names.
        encoder (EncoderShim): The encoder.
        index (Index): The index to fill. Its content is replaced.
        batch_size (int): Names in one forward pass.
        vectors_path (str | Path | None): A folder that keeps vectors. Names with a vector there are not encoded.
        RETURNS (Retriever): Ready to search.
        RAISES (ValueError): If no name can be encoded.
        """
        # Before tokenising, which takes minutes, so that a wrong path is refused at once.
        store = None if vectors_path is None else VectorStore(vectors_path, encoder)
        groups = group_by_tokens(terminology.names["name"], encoder)
        if not groups.tokens:
            raise ValueError(Errors.E410.format(n=terminology.n_names))
        warn_of_unsayable(groups)
        warn_of_memory(len(groups.tokens), encoder.width)
        dtype = choose_dtype(len(groups.tokens))
        vectors = encode_groups(groups, encoder, batch_size=batch_size, store=store, dtype=dtype)
        make_altered = partial(encode_altered_names, terminology.names["name"], encoder, batch_size=batch_size)
        index.build(vectors, fingerprint=encoder.fingerprint, make_altered=make_altered)
        rows = make_row_table(groups.row_of_name, len(index))
        return cls(terminology, index, *rows, groups.keys, NameTable.build(terminology.names["name"]))

    @property
    def table(self) -> NameTable:
        """Return which names are written like a text. Folders of 0.1.0 lack it.

        RETURNS (NameTable): The table.
        """
        if self._table is None:
            self._table = NameTable.build(self.names)
        return self._table

    @property
    def row_of_name(self) -> np.ndarray:
        """Return the index row of each name.

        RETURNS (ndarray): Shape (names,), int64; -1 for names that cannot be found.
        """
        rows = np.full(len(self.names), -1, dtype=np.int64)
        rows[self.name_rows] = np.repeat(np.arange(len(self.index)), np.diff(self.offsets))
        return rows

    def allow(self, concept_filter: ConceptFilter) -> Allowed:
        """Apply a filter. Recent results are cached.

        concept_filter (ConceptFilter): The filter.
        RETURNS (Allowed): The allowed names and rows.
        RAISES (ValueError): If the filter has a value that the terminology lacks.
        """
        allowed = self._allowed.get(concept_filter)
        if allowed is None:
            allowed = self.filters.apply(concept_filter, self.offsets, self.name_rows)
            self._allowed.put(concept_filter, allowed)
        return allowed

    def get_id(self, concept: int, coded_in: str | None) -> str:
        """Get the id that a concept has under a filter. Two concepts with one id are found as one.

        concept (int): The concept's row.
        coded_in (str | None): The filter's source of codes, in which the concept has one.
        RETURNS (str): Its first code in that source, or else its own id.
        """
        concept_id: str = self.concept_columns[0][concept]
        return concept_id if coded_in is None else self.terminology.codes(concept_id, coded_in)[0]

    def find_named(self, texts: Sequence[str], allowed: ConceptFilter | None = None) -> list[list[Hit]]:
        """Find the concepts that have each mention as a name, written like it or in another form: another case, number
        or spelling, with or without hyphens, with Greek letters or Roman numerals.

        texts (Sequence[str]): The mentions.
        allowed (ConceptFilter | None): The concepts and names that may be found; None for all.
        RETURNS (list[list[Hit]]): For each mention its concepts with the score 1, in the order of `TieBreaker`.
        RAISES (ValueError): If the filter has a value that the terminology lacks.
        """
        is_allowed = None if allowed is None or allowed.is_open else self.allow(allowed).names
        entries = self.table.find_whole(texts).tolist()
        return [
            [] if entry < 0 else self._name(text, entry, is_allowed) for text, entry in zip(texts, entries, strict=True)
        ]

    def _name(self, text: str, entry: int, is_allowed: np.ndarray | None) -> list[Hit]:
        rows = self.table.rows_of(entry)
        named: list[int] = (rows if is_allowed is None else rows[is_allowed[rows]]).tolist()
        if len(text) <= OWN_CASE_LENGTH:
            forms = own_case_forms(text)
            named = [row for row in named if not forms.isdisjoint(own_case_forms(self.names[row]))]
        if len(named) == 1:
            return [Hit(int(self.terminology.name_concept[named[0]]), named[0], 1.0)]
        small = text.lower()
        best: dict[int, int] = {}
        # Names written like the mention come first, then preferred ones.
        for row in sorted(named, key=lambda row: (self.names[row].lower() != small, not self._preferred[row])):
            best.setdefault(int(self.terminology.name_concept[row]), row)
        return self._ties.order(text, [Hit(concept, row, 1.0) for concept, row in best.items()])

    def search(
        self, texts: Sequence[str], vectors: np.ndarray, k: int, allowed: ConceptFilter | None = None
    ) -> list[Hits]:
        """Find the nearest concepts of each mention.

        texts (Sequence[str]): The mentions; used to choose between names with the same vector.
        vectors (ndarray): Their vectors, shape (n, width).
        k (int): Distinct concepts wanted, or distinct codes with a filter for `coded_in`. There are more where the last
            ones have the same score.
        allowed (ConceptFilter | None): The concepts and names that may be found; None for all.
        RETURNS (list[Hits]): For each mention its concepts, best first. `TieBreaker` has the order of equal ones.
        RAISES (ValueError): If the filter has a value that the terminology lacks.
        """
        found = [Hits.of([]) for _ in texts]
        pending = np.arange(len(texts))
        if allowed is None or allowed.is_open:
            fetches = grow_to(len(self.index), get_first_fetch(k))
            self._look(_Batch(texts, vectors, k, None, found), pending, self.index.search, fetches)
        else:
            names = self.allow(allowed)
            if names.n_concepts:
                number = (
                    None if allowed.coded_in is None else IdNumbers(partial(self.get_id, coded_in=allowed.coded_in))
                )
                batch = _Batch(texts, vectors, min(k, names.n_concepts), names, found, number)
                self._look_among(batch, names, pending)
        return found

    def _look_among(self, batch: _Batch, allowed: Allowed, pending: np.ndarray) -> None:
        """Search the index and drop excluded rows, then search the allowed rows exactly where that is cheaper."""
        wanted = get_first_fetch(batch.k)

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
        """Search pending mentions with more and more rows. Return the mentions that need still more rows."""
        for fetch in fetches:
            if not len(pending):
                break
            places = pending.tolist()
            texts = [batch.texts[place] for place in places]
            found = Found(texts, *search(batch.vectors[pending], fetch), batch.k, batch.allowed, batch.number)
            collected, is_complete = self._collector.collect(found)
            for place, hits in zip(places, collected, strict=True):
                batch.found[place] = hits
            # A concept with many similar names can fill the first rows. Only such mentions are searched again.
            pending = pending[~is_complete]
        return pending

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy can apply its filters itself.
        return Retriever, (self.terminology, self.index, self.offsets, self.name_rows, self.keys, self._table)


def get_first_fetch(k: int) -> int:
    """Get how many rows to fetch at first. The nearest concepts have few rows among them, those farther away more.

    k (int): Distinct concepts wanted.
    RETURNS (int): The number, with which one search is enough for most mentions.
    """
    return 2 * k + 8 + 3 * max(k - 10, 0)


def grow_to(n_rows: int, fetch: int) -> Iterator[int]:
    """Yield growing numbers of rows to fetch, up to all rows.

    n_rows (int): Rows of the index.
    fetch (int): The first number.
    YIELDS (int): Rows to fetch.
    """
    while fetch < n_rows:
        yield fetch
        fetch *= 4
    yield n_rows
