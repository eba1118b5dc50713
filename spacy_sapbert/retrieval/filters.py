"""Filters: the concepts and names that mentions may be linked to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import Errors
from ..semantic_types import find_types

if TYPE_CHECKING:
    import polars as pl

    from ..terminology import Terminology

# Joins the sources of a name that several of them have.
SOURCE_SEPARATOR = "|"
# Values listed in a message.
EXAMPLES = 10
# The values that a filter's fields contain.
FIELDS = {"types": "types", "label_types": "types", "sources": "sources", "languages": "languages"}


@dataclass(frozen=True)
class ConceptFilter:
    """Conditions on names and concepts. All must hold; None is no condition.

    types (Collection[str] | None): Semantic types, of which the concept needs one.
    sources (Collection[str] | None): Sources, of which the name needs one.
    languages (Collection[str] | None): Languages, of which the name needs one.
    ids (Collection[str] | None): Ids of concepts.
    label_types (Collection[str] | None): Semantic types, of which the concept needs one as well: those that belong
        to a mention's label.
    coded_in (str | None): The source in which the concept needs a code. Of concepts that share their first code there,
        only the nearest is found.
    below (Collection[str] | None): Ids of concepts: the concept is one of them, or has one among its ancestors.
    """

    types: Collection[str] | None = None
    sources: Collection[str] | None = None
    languages: Collection[str] | None = None
    ids: Collection[str] | None = None
    label_types: Collection[str] | None = None
    coded_in: str | None = None
    below: Collection[str] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "coded_in" or value is None:
                continue
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise ValueError(
                    Errors.E404.format(name=field.name, where="", value=value, allowed="a list of strings")
                )
            # Any collection may be given, but only frozen sets can be hashed, and compared whatever their order.
            object.__setattr__(self, field.name, frozenset(value))

    @cached_property
    def is_open(self) -> bool:
        """Whether everything is allowed."""
        return all(getattr(self, field.name) is None for field in fields(self))


class Allowed(NamedTuple):
    """A filter, applied to a terminology and its index.

    filter (ConceptFilter): The filter.
    names (ndarray): For each name whether it is allowed; bool.
    rows (ndarray): For each index row whether any of its names is allowed; bool.
    n_rows (int): Rows that are allowed.
    n_concepts (int): Concepts that can be found.
    """

    filter: ConceptFilter
    names: np.ndarray
    rows: np.ndarray
    n_rows: int
    n_concepts: int


class FilterTable:
    """A terminology's types, sources and languages, encoded as small numbers when a filter first asks for them.

    Filters run in numpy and pyarrow on single columns. Operations of polars on whole tables may wait forever in a
    forked process, which lacks the threads of polars.

    terminology (Terminology): Concepts and names.
    """

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology

    def check(self, allowed: ConceptFilter) -> None:
        """Refuse types, sources and languages that the terminology lacks, because they are probably misspelled.

        allowed (ConceptFilter): The filter.
        RAISES (ValueError): With the unknown values and examples of known ones.
        """
        for key, what in FIELDS.items():
            wanted = getattr(allowed, key)
            if wanted is not None:
                known = getattr(self, f"_{what}").known
                wanted = self.find_types(wanted) if what == "types" else wanted
                _check_known(key, what, wanted - known, known)

    def apply(self, allowed: ConceptFilter, offsets: np.ndarray, name_rows: np.ndarray) -> Allowed:
        """Find the names and the index rows that a filter allows.

        allowed (ConceptFilter): The filter.
        offsets (ndarray): Where each index row's names start in `name_rows`. Rows of removed names have none.
        name_rows (ndarray): Rows of the terminology's names, grouped by index row.
        RETURNS (Allowed): The allowed names and rows.
        RAISES (ValueError): If the filter has a value that the terminology lacks.
        """
        names = self.match(allowed)
        # Names that cannot be encoded are in no row of the index.
        is_found = names[name_rows]
        found_before = np.concatenate([[0], np.cumsum(is_found)])
        rows = found_before[offsets[1:]] > found_before[offsets[:-1]]
        concepts = np.zeros(len(self._terminology), dtype=bool)
        concepts[self._terminology.name_concept[name_rows[is_found]]] = True
        return Allowed(allowed, names, rows, int(rows.sum()), int(concepts.sum()))

    def find_types(self, wanted: Collection[str]) -> frozenset[str]:
        """Find the types that are meant.

        wanted (Collection[str]): Semantic types, by identifier ("T047") or name ("Disease or Syndrome").
        RETURNS (frozenset[str]): As the terminology has them.
        """
        return find_types(wanted, self._types.known)

    def match(self, allowed: ConceptFilter) -> np.ndarray:
        """Find the names that a filter allows.

        allowed (ConceptFilter): The filter.
        RETURNS (ndarray): For each name of the terminology whether it is allowed; bool.
        RAISES (ValueError): If the filter has a value that the terminology lacks.
        """
        self.check(allowed)
        concepts = np.ones(len(self._terminology), dtype=bool)
        for wanted in (allowed.types, allowed.label_types):
            if wanted is not None:
                concepts &= _any_in_list(self._types.match(self.find_types(wanted)), self._type_offsets)
        if allowed.ids is not None:
            concepts &= self._match_ids(allowed.ids, "ids")
        if allowed.below is not None:
            concepts &= self._match_below(allowed.below)
        if allowed.coded_in is not None:
            concepts &= self._match_codes(allowed.coded_in)
        names: np.ndarray = concepts[self._terminology.name_concept]
        if allowed.sources is not None:
            names &= self._sources.match(allowed.sources)
        if allowed.languages is not None:
            names &= self._languages.match(allowed.languages)
        return names

    @cached_property
    def _types(self) -> _Column:
        return _Column(_to_arrow(self._terminology.concepts["types"]).flatten())

    @cached_property
    def _type_offsets(self) -> np.ndarray:
        return _list_offsets(_to_arrow(self._terminology.concepts["types"]))

    @cached_property
    def _sources(self) -> _Column:
        return _Column(_to_arrow(self._terminology.names["source"]), SOURCE_SEPARATOR)

    @cached_property
    def _languages(self) -> _Column:
        return _Column(_to_arrow(self._terminology.names["language"]))

    @cached_property
    def _parents(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all parents, -1 for those that the terminology lacks, and where each concept's start."""
        import pyarrow.compute as pc

        lists = _to_arrow(self._terminology.concepts["parents"])
        found = pc.index_in(lists.flatten(), value_set=_to_arrow(self._terminology.concepts["id"]))
        return pc.fill_null(found, -1).to_numpy(zero_copy_only=False), _list_offsets(lists)

    def _match_below(self, wanted: Collection[str]) -> np.ndarray:
        matched = self._match_ids(wanted, "below")
        parents, offsets = self._parents
        if not (parents >= 0).any():
            raise ValueError(Errors.E434.format(n=len(self._terminology)))
        n_matched = 0
        while n_matched < matched.sum():
            n_matched = matched.sum()
            matched |= _any_in_list((parents >= 0) & matched[parents], offsets)
        return matched

    def _match_ids(self, wanted: Collection[str], key: str) -> np.ndarray:
        import pyarrow as pa
        import pyarrow.compute as pc

        from ..terminology.readers.lines import invalid_utf8

        ids = self._terminology.concepts["id"]
        # Arrow cannot hold half of a character, and no id has one.
        valid = sorted(id_ for id_ in wanted if invalid_utf8(id_) is None)
        found = pc.is_in(_to_arrow(ids), value_set=pa.array(valid, pa.large_string()))
        matched: np.ndarray = found.to_numpy(zero_copy_only=False)
        if matched.sum() < len(wanted):
            known = [ids[row] for row in range(min(EXAMPLES, len(ids)))]
            _check_known(key, "ids", {id_ for id_ in wanted if id_ not in self._terminology}, known, total=len(ids))
        return matched

    def _match_codes(self, source: str) -> np.ndarray:
        import pyarrow.compute as pc

        lists = _to_arrow(self._terminology.concepts["codes"])
        codes = lists.flatten()
        prefix = f"{source}:"
        # A source ends at the first colon, so none holds one; and a code of no characters could not be an id.
        has_code = pc.and_(pc.starts_with(codes, prefix), pc.greater(pc.binary_length(codes), len(prefix.encode())))
        matched = has_code.to_numpy(zero_copy_only=False)
        if ":" in source or not matched.any():
            known = set(pc.replace_substring_regex(codes, "(?s):.*", "").unique().to_pylist())
            raise ValueError(Errors.E431.format(source=source, n=len(known), examples=_list_some(known)))
        return _any_in_list(matched, _list_offsets(lists))


class _Column:
    """Texts of which few are distinct.

    texts (pyarrow.Array): The texts.
    separator (str | None): What joins the values that one text holds.
    """

    def __init__(self, texts: Any, separator: str | None = None) -> None:
        encoded = texts.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        self._values = [text.split(separator) if separator else [text] for text in distinct]
        self._codes = encoded.indices.to_numpy().astype(np.min_scalar_type(len(distinct)))
        self.known = frozenset(value for values in self._values for value in values)

    def match(self, wanted: Collection[str]) -> np.ndarray:
        is_wanted = [any(value in wanted for value in values) for values in self._values]
        matched: np.ndarray = np.array(is_wanted, dtype=bool)[self._codes]
        return matched


def _to_arrow(series: pl.Series) -> Any:
    import polars as pl

    # pyarrow computes on plain strings in every version, on string views not yet.
    return series.to_arrow(compat_level=pl.CompatLevel.oldest())


def _list_offsets(lists: Any) -> np.ndarray:
    offsets = lists.offsets.to_numpy()
    starts: np.ndarray = offsets - offsets[0]
    return starts


def _any_in_list(matched: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Tell for each list whether any of its values matched; not by `reduceat`, which is wrong for empty lists."""
    before = np.concatenate([[0], np.cumsum(matched)])
    any_matched: np.ndarray = before[offsets[1:]] > before[offsets[:-1]]
    return any_matched


def _check_known(
    key: str, what: str, unknown: Collection[str], known: Collection[str], *, total: int | None = None
) -> None:
    if unknown:
        raise ValueError(
            Errors.E430.format(
                key=key,
                what=what,
                unknown=_list_some(unknown),
                n=len(known) if total is None else total,
                examples=_list_some(known),
            )
        )


def _list_some(values: Collection[str]) -> str:
    listed = ", ".join(map(repr, sorted(values)[:EXAMPLES]))
    return f"{listed}, ..." if len(values) > EXAMPLES else listed or "none"
