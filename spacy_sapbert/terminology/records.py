"""Unite what several records say of a concept, of a name or of a retired id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from .codes import LESSER_SCOPES, SOURCE_SEPARATOR
from .rows import Table, make_table
from .schemas import CONCEPTS, NAMES, RETIRED


class NameRecord(NamedTuple):
    """A name of a concept."""

    name: str
    language: str
    source: str
    term_type: str
    preferred: bool


class ConceptRecord(NamedTuple):
    """What is said of a concept."""

    canonical_name: str | None
    types: Sequence[str]
    definition: str | None
    codes: Sequence[str]
    parents: Sequence[str]


class RetiredRecord(NamedTuple):
    """What is said of a retired id."""

    replaced_by: str | None
    consider: Sequence[str]


def unite_names(records: Iterable[NameRecord]) -> list[NameRecord]:
    """Unite the names of a concept that are equal in a language, as `frames` of names are united. They stay in the
    order in which each comes first."""
    of_keys: dict[tuple[str, str], list[NameRecord]] = {}
    for record in records:
        of_keys.setdefault((record.name, record.language), []).append(record)
    return [same[0] if len(same) == 1 else _unite_same(same) for same in of_keys.values()]


def _unite_same(records: Sequence[NameRecord]) -> NameRecord:
    is_preferred = any(record.preferred for record in records)
    source = _join_sources([record.source for record in records])
    term_types = [record.term_type for record in records]
    greater = (text for text in term_types if text.partition(" ")[0] not in LESSER_SCOPES)
    term_type = next(greater, term_types[0])
    return records[0]._replace(source=source, term_type=term_type, preferred=is_preferred)


def _join_sources(sources: Iterable[str]) -> str:
    distinct = [*dict.fromkeys(sources)]
    if len(distinct) == 1:
        return distinct[0]
    parts = chain.from_iterable(source.split(SOURCE_SEPARATOR) for source in distinct)
    return SOURCE_SEPARATOR.join(filter(None, dict.fromkeys(parts)))


def unite_lists(lists: Iterable[Sequence[str]]) -> list[str]:
    """Join lists, each text once."""
    return [*dict.fromkeys(chain.from_iterable(lists))]


def take_first(texts: Iterable[str | None]) -> str | None:
    """Take the first text that is not missing."""
    return next((text for text in texts if text is not None), None)


def unite_concepts(records: Sequence[ConceptRecord]) -> ConceptRecord:
    """Unite what records say of a concept: the first text counts, lists are joined."""
    return ConceptRecord(
        canonical_name=take_first(record.canonical_name for record in records),
        types=unite_lists(record.types for record in records),
        definition=take_first(record.definition for record in records),
        codes=unite_lists(record.codes for record in records),
        parents=unite_lists(record.parents for record in records),
    )


def unite_retired(records: Sequence[RetiredRecord]) -> RetiredRecord:
    """Unite what records say of a retired id: of several concepts that took its place, the first counts."""
    replaced_by = take_first(record.replaced_by for record in records)
    return RetiredRecord(replaced_by, unite_lists(record.consider for record in records))


def make_concepts(records: Mapping[str, ConceptRecord]) -> Table:
    """Make a table of concepts, which are sorted by id."""
    return _make_rows(CONCEPTS, ((id_, *record) for id_, record in records.items()))


def make_names(records: Iterable[Iterable[NameRecord]]) -> Table:
    """Make a table of the names of concepts."""
    rows = ((record.name, concept, *record[1:]) for concept, of_concept in enumerate(records) for record in of_concept)
    return _make_rows(NAMES, rows)


def make_retired(records: Mapping[str, RetiredRecord]) -> Table:
    """Make a table of retired ids, which are sorted."""
    return _make_rows(RETIRED, ((id_, *record) for id_, record in records.items()))


def _make_rows(schema: dict[str, str], rows: Iterable[tuple[Any, ...]]) -> Table:
    columns = [*zip(*rows, strict=True)] or [()] * len(schema)
    return make_table(schema, dict(zip(schema, columns, strict=True)))
