"""Apply filters to a terminology: which names and index rows they allow, and what a search among these costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..candidates import ConceptFilter
from ..columns import CodedColumn, ListColumn, read_chunks
from ..errors import warn
from ..ragged import make_offsets, sum_lists
from ..semantic_types import find_types
from ..terminology.codes import SOURCE_SEPARATOR
from ..terminology.hierarchy import Hierarchy

if TYPE_CHECKING:
    from ..terminology import Terminology

# Values listed in a message.
EXAMPLES = 10
# The values that a filter's fields contain, and the columns of concepts or names that have them.
FIELDS = {"types": "types", "label_types": "types", "sources": "sources", "languages": "languages"}
COLUMNS = {"types": "types", "sources": "source", "languages": "language"}
# What a search with a filter costs: the number of rows that could be compared exactly in the same time (measured on
# 72,000 names) for any search of the index, for a row fetched from it, and for searching all of it, as a share of all
# rows: that is what a search comes to where a filter allows only names far from a mention.
FREE_ROWS = 4000
ROWS_PER_FETCHED = 25
SHARE = 0.1
# Fetching more rows than this for every query takes memory, and an approximate index does not have them all.
MOST_FETCHED = 10_000


class Allowed(NamedTuple):
    """A filter, applied to a terminology and its index."""

    filter: ConceptFilter
    names: np.ndarray  # for each name whether it is allowed; bool
    rows: np.ndarray  # for each index row whether any of its names is; bool
    n_rows: int  # rows that are allowed
    n_concepts: int  # concepts that can be found


class FilterTable:
    """What filters ask of a terminology: its types, sources and languages, its hierarchy and its codes."""

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology
        self.hierarchy = Hierarchy(terminology)
        self._columns = cache(partial(_read_column, terminology))
        # Each label of `label_types` has a filter with the same output source.
        self._match_codes = lru_cache(4)(lambda source: _match_codes(terminology.concepts["codes"], source))

    def check(self, allowed: ConceptFilter) -> None:
        """Refuse types, sources or languages if the terminology has none of them, and warn of those that it lacks: they
        are misspelled, or the release is smaller than others."""
        for key, what in FIELDS.items():
            values = getattr(allowed, key)
            if values is None:
                continue
            present = self._columns(what).known
            values = self.find_types(values) if what == "types" else frozenset(values)
            unknown = values - present
            if not unknown:
                continue
            message = _tell_unknown(key, what, unknown, present)
            if unknown == values:
                raise ValueError(message)
            warn(f"{message} Values that it lacks are ignored.")

    def check_settings(self, allowed: ConceptFilter, label_types: Mapping[str, Collection[str]]) -> None:
        """Refuse settings of a component that hold what the terminology lacks, or ask for a hierarchy or codes that it
        does not have."""
        if not allowed.is_open:
            self.match(allowed)
        for types in label_types.values():
            self.check(ConceptFilter(label_types=types))

    def apply(self, allowed: ConceptFilter, offsets: np.ndarray, name_rows: np.ndarray) -> Allowed:
        """Find the names and the index rows that a filter allows."""
        names = self.match(allowed)
        # Names that cannot be encoded are in no row of the index.
        is_found = names[name_rows]
        rows = sum_lists(is_found, offsets) > 0
        concepts = np.zeros(len(self._terminology), dtype=bool)
        concepts[self._terminology.name_concept[name_rows[is_found]]] = True
        return Allowed(allowed, names, rows, int(rows.sum()), int(concepts.sum()))

    def find_outside(self, *filters: ConceptFilter) -> np.ndarray:
        """Tell for each name whether its concept is of another kind than filters allow: by `types`, `below` or
        `not_below`. Names in other languages than theirs say nothing."""
        kinds = (ConceptFilter(of.types, below=of.below, not_below=of.not_below) for of in filters)
        languages = (ConceptFilter(languages=of.languages) for of in filters)
        is_of_kind, is_known = (np.logical_and.reduce([*map(self.match, of)]) for of in (kinds, languages))
        outside: np.ndarray = is_known & ~is_of_kind
        return outside

    def find_types(self, wanted: Collection[str]) -> frozenset[str]:
        """Find the types that are meant by identifiers ("T047") or names ("Disease or Syndrome")."""
        return find_types(wanted, self._columns("types").known)

    def list_languages(self) -> list[str]:
        """List the languages of the names, sorted."""
        return sorted(self._columns("languages").known)

    def find_unknown_ids(self, ids: Sequence[str], source: str | None = None) -> list[str]:
        """Find the ids that no concept has; with a source, those that are no code in it."""
        if source is None:
            rows = self._terminology.find_rows(ids)
            return [ids[place] for place in np.flatnonzero(rows < 0).tolist()]
        codes = {f"{source}:{id_}" for id_ in ids}
        for of_concept in chain.from_iterable(read_chunks(self._terminology.concepts["codes"])) if codes else ():
            codes.difference_update(of_concept)
        return [id_ for id_ in ids if f"{source}:{id_}" in codes]

    def match(self, allowed: ConceptFilter) -> np.ndarray:
        """Tell for each name whether a filter allows it."""
        self.check(allowed)
        concepts = np.ones(len(self._terminology), dtype=bool)
        for types in (allowed.types, allowed.label_types):
            if types is not None:
                concepts &= self._columns("types").match(self.find_types(types))
        if allowed.ids is not None:
            concepts &= self._match_ids(allowed.ids, "ids")
        if allowed.below is not None:
            concepts &= self._match_below(allowed.below, "below")
        # No ids leave nothing out, which needs no hierarchy.
        if allowed.not_below:
            concepts &= ~self._match_below(allowed.not_below, "not_below")
        if allowed.coded_in is not None:
            concepts &= self._match_codes(allowed.coded_in)
        names: np.ndarray = concepts[self._terminology.name_concept]
        for what, of_names in (("sources", allowed.sources), ("languages", allowed.languages)):
            if of_names is not None:
                names &= self._columns(what).match(of_names)
        return names

    def _match_below(self, wanted: Collection[str], key: str) -> np.ndarray:
        matched = self._match_ids(wanted, key)
        if not len(self.hierarchy.parents[0]):
            instead = "use `ids`" if key == "below" else "take the concepts out of the terminology"
            raise ValueError(
                f"`{key}` asks for the descendants of concepts, but none of the terminology's {len(self._terminology)} "
                "concepts has a parent there. Read it from a source with a hierarchy (OBO, or RRF with MRREL), or "
                f"{instead}."
            )
        return self.hierarchy.find_below(matched)

    def _match_ids(self, wanted: Collection[str], key: str) -> np.ndarray:
        ids = self._terminology.concepts["id"]
        listed = list(wanted)
        rows = self._terminology.find_rows(listed)
        if (rows < 0).any():
            # One more than a message lists, so that it says that there are others.
            examples = [ids[row] for row in range(min(EXAMPLES + 1, len(ids)))]
            unknown = {listed[place] for place in np.flatnonzero(rows < 0)}
            raise ValueError(_tell_unknown(key, "ids", unknown, examples, len(ids)))
        matched = np.zeros(len(ids), dtype=bool)
        matched[rows] = True
        return matched


class _Column:
    """Texts, or lists of texts, few of them distinct; a text may hold several values, joined by a separator."""

    def __init__(self, column: CodedColumn | ListColumn, separator: str | None = None) -> None:
        texts = column.child if isinstance(column, ListColumn) else column
        assert isinstance(texts, CodedColumn)
        self.values = [text.split(separator) if separator else [text] for text in texts.values]
        self.codes = texts.codes
        # Where the values of each list start; nothing but a zero for texts.
        self.offsets = column.offsets if isinstance(column, ListColumn) else make_offsets([])
        self.known = frozenset(value for values in self.values for value in values)

    def match(self, wanted: Collection[str]) -> np.ndarray:
        """Tell for each row whether any of its values is wanted."""
        is_wanted = [any(value in wanted for value in values) for values in self.values]
        matched: np.ndarray = np.array(is_wanted, dtype=bool)[self.codes]
        return matched if len(self.offsets) == 1 else sum_lists(matched, self.offsets) > 0


def _read_column(terminology: Terminology, what: str) -> _Column:
    table = terminology.concepts if what == "types" else terminology.names
    return _Column(table[COLUMNS[what]], SOURCE_SEPARATOR if what == "sources" else None)


def _match_codes(column: ListColumn, source: str) -> np.ndarray:
    # A source ends at the first colon, so none holds one; and a code of no characters could not be an id.
    prefix = f"{source}:"
    lists = chain.from_iterable(read_chunks(column))
    has_code = [any(code.startswith(prefix) and code != prefix for code in codes) for codes in lists]
    if ":" in source or not any(has_code):
        lists = chain.from_iterable(read_chunks(column))
        sources = {code.partition(":")[0] for codes in lists for code in codes}
        raise ValueError(
            f"No concept of the terminology has a code in '{source}', which output_source asks for. A code's source is "
            f"what stands before its first colon, compared exactly. There are codes in {len(sources)} sources: "
            f"{_list_some(sources)}."
        )
    return np.array(has_code, dtype=bool)


def _tell_unknown(key: str, what: str, unknown: Collection[str], known: Collection[str], total: int = 0) -> str:
    does = "leaves out" if key == "not_below" else "allows"
    return (
        f"The filter {key} {does} {_list_some(unknown)}, which no concept or name of the terminology has. Values "
        f"are compared exactly, case included. There are {total or len(known)} {what}: {_list_some(known)}."
    )


def _list_some(values: Collection[str]) -> str:
    listed = ", ".join(map(repr, sorted(values)[:EXAMPLES]))
    return f"{listed}, ..." if len(values) > EXAMPLES else listed or "none"


def grow_while_cheap(wanted: int, n_allowed: int, n_rows: int) -> Iterator[int]:
    """Yield growing numbers of rows to fetch, as long as that is faster than comparing with all allowed rows."""
    # If allowed rows are spread evenly, the first number contains the wanted rows.
    fetch = -(-wanted * n_rows // n_allowed)
    while fetch <= MOST_FETCHED:
        if FREE_ROWS + ROWS_PER_FETCHED * fetch + SHARE * n_rows >= n_allowed:
            break
        yield fetch
        fetch *= 4
