"""Collect concepts and names in any order and build a terminology from them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..text import NIL, normalize_name
from .records import (
    ConceptRecord,
    NameRecord,
    RetiredRecord,
    make_concepts,
    make_names,
    make_retired,
    unite_lists,
    unite_names,
)
from .rows import Table
from .schemas import CONCEPTS
from .table import Terminology

# Control characters and white space, which would split words in spaCy and records in files.
NOT_IN_ID = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


class TerminologyBuilder:
    """Collects concepts and names, and merges records with the same id."""

    def __init__(self) -> None:
        # The names of each concept, and what it has of other kinds.
        self._names: dict[str, list[NameRecord]] = {}
        self._columns: dict[str, dict[str, list[str]]] = {kind: {} for kind in [*CONCEPTS][1:]}
        self._retired: dict[str, list[tuple[Iterable[str], Iterable[str]]]] = {}

    def __contains__(self, concept_id: object) -> bool:
        return concept_id in self._names

    def add_concept(
        self,
        concept_id: str,
        *,
        canonical_name: str | None = None,
        types: Iterable[str] = (),
        definition: str | None = None,
        codes: Iterable[str] = (),
        parents: Iterable[str] = (),
    ) -> None:
        """Add a concept, or extend the concept with the same id.

        concept_id (str): The id, visible text without spaces.
        canonical_name (str | None): The canonical name. The first one given wins.
        types (Iterable[str]): Semantic types.
        definition (str | None): The definition. The first one given wins.
        codes (Iterable[str]): Codes of the concept in sources, as "SOURCE:CODE".
        parents (Iterable[str]): The ids of its parent concepts.
        RAISES (ValueError): If the id or a text is invalid.
        """
        # All values are checked first, so that no part of a refused record is added.
        for what, text in (("canonical name", canonical_name), ("definition", definition)):
            check_text(concept_id, what, "" if text is None else text)
        given = {"types": types, "codes": codes, "parents": parents}
        columns = {kind: _list_texts(concept_id, kind, values) for kind, values in given.items()}
        columns["canonical_name"] = (normalize_name(canonical_name or ""),)
        columns["definition"] = ((definition or "").strip(),)
        self._add_id(concept_id)
        for kind, values in columns.items():
            for value in filter(None, values):
                self._columns[kind].setdefault(concept_id, []).append(value)

    def add_name(
        self,
        concept_id: str,
        name: str,
        *,
        language: str = "ENG",
        source: str = "",
        term_type: str = "",
        preferred: bool = False,
    ) -> None:
        """Add a name of a concept, and the concept if it is new.

        concept_id (str): The concept's id.
        name (str): The name, which is normalized (see `normalize_name`). An empty name is dropped and counted.
        language (str): The language, as in UMLS: "ENG".
        source (str): The source vocabulary, such as "HPO".
        term_type (str): The term type in the source.
        preferred (bool): Whether it is a preferred name in the source.
        RAISES (ValueError): If the id or a text is invalid.
        """
        texts = {"name": name, "language": language, "source": source, "term_type": term_type}
        for what, text in texts.items():
            check_text(concept_id, what, text)
        if not isinstance(preferred, bool | np.bool_):
            raise ValueError(
                f"Can't use {preferred!r:.80} as `preferred` of a name of the concept '{concept_id}': it has to be "
                "true or false."
            )
        self._add_id(concept_id)
        self._names[concept_id].append(NameRecord(**texts, preferred=bool(preferred)))

    def add_retired(self, retired_id: str, *, replaced_by: Iterable[str] = (), consider: Iterable[str] = ()) -> None:
        """Add an id that no concept has any longer. The concept that took its place is found by it.

        retired_id (str): The retired id. One that a concept has is not retired.
        replaced_by (Iterable[str]): The concept that took its place. If several are given, nobody knows which one is
            meant, so they are only to be considered.
        consider (Iterable[str]): Concepts that may be meant instead. Nothing is answered with them.
        RAISES (ValueError): If an id is not valid text.
        """
        check_text(retired_id, "retired id", retired_id)
        row = {"replaced_by": replaced_by, "consider": consider}
        lists = {kind: _list_texts(retired_id, kind, values) for kind, values in row.items()}
        self._retired.setdefault(retired_id, []).append((lists["replaced_by"], lists["consider"]))

    def build(self, report: Mapping[str, Any] | None = None) -> Terminology:
        """Build the terminology. Duplicate names and concepts without names are dropped and counted.

        report (Mapping[str, Any] | None): The report of the reader, to which counts are added.
        RETURNS (Terminology): The terminology.
        RAISES (ValueError): If no concept has a name.
        """
        return check_any(self.assemble(report))

    def assemble(self, report: Mapping[str, Any] | None = None) -> Terminology:
        """Build the terminology likewise, even if it is empty."""
        named: dict[str, list[NameRecord]] = {}
        n_read = n_empty = n_normalized = 0
        for id_ in sorted(self._names):
            written = self._names[id_]
            records = [*map(_normalize, written)]
            n_normalized += sum(new.name != old.name.strip() for new, old in zip(records, written, strict=True))
            filled = [record for record in records if record.name]
            n_read += len(records)
            n_empty += len(records) - len(filled)
            if filled:
                named[id_] = unite_names(filled)
        n_names = sum(map(len, named.values()))
        dropped = {
            "empty_names": n_empty,
            "duplicate_names": n_read - n_empty - n_names,
            "concepts_without_names": len(self._names) - len(named),
            "self_parents": sum(parents.count(id_) for id_, parents in self._columns["parents"].items()),
        }
        report = report or {}
        counts = {"dropped": {**report.get("dropped", {}), **dropped}, "normalized_names": n_normalized}
        concepts = {id_: self._make_concept(id_, records) for id_, records in named.items()}
        tables = make_concepts(concepts), make_names(named.values()), make_retired(self._list_retired(concepts))
        return complete(*tables, {**report, **counts})

    def _make_concept(self, id_: str, names: Sequence[NameRecord]) -> ConceptRecord:
        lists = {kind: unite_lists([self._columns[kind].get(id_, ())]) for kind in self._columns}
        # Without a canonical name, the first preferred name counts, or else the first one.
        best = next((record for record in names if record.preferred), names[0])
        parents = [parent for parent in lists["parents"] if parent != id_]
        return ConceptRecord(
            canonical_name=next(iter(lists["canonical_name"]), best.name),
            types=lists["types"],
            definition=next(iter(lists["definition"]), None),
            codes=lists["codes"],
            parents=parents,
        )

    def _list_retired(self, living: Collection[str]) -> dict[str, RetiredRecord]:
        """Of several concepts that took an id's place, nobody knows which is meant, so they are to be considered."""
        retired = {}
        for id_ in sorted(self._retired.keys() - living):
            successors, consider = (unite_lists(lists) for lists in zip(*self._retired[id_], strict=True))
            if len(successors) == 1:
                retired[id_] = RetiredRecord(successors[0], consider)
            else:
                retired[id_] = RetiredRecord(None, unite_lists([successors, consider]))
        return retired

    def _add_id(self, concept_id: str) -> None:
        if not isinstance(concept_id, str) or concept_id not in self._names:
            check_id(concept_id)
            self._names[concept_id] = []


def _normalize(record: NameRecord) -> NameRecord:
    name = normalize_name(record.name)
    # Making another record takes longest.
    return record if name == record.name else record._replace(name=name)


def complete(
    concepts: Table,
    names: Table,
    retired: Table,
    report: Mapping[str, Any],
    relations: Table | None = None,
    *,
    n_dangling: int | None = None,
) -> Terminology:
    """Make a terminology of its tables, and count in its report what they have and the parents that they lack, unless
    these have been counted."""
    if n_dangling is None:
        n_dangling = _count_dangling(concepts)
    counts = {"kept": {"concepts": concepts.height, "names": names.height}, "dangling_parents": n_dangling}
    return Terminology(concepts, names, retired=retired, relations=relations, report={**report, **counts})


def _count_dangling(concepts: Table) -> int:
    parents = concepts["parents"].child
    ids = {*concepts["id"]} if len(parents) else ()
    return sum(parent not in ids for parent in parents)


def check_any(terminology: Terminology) -> Terminology:
    """Refuse a terminology without concepts, and say what its reader has read."""
    if len(terminology):
        return terminology
    report = terminology.report
    files = ", ".join(file["name"] for file in report.get("files", ())) or "the records given"
    read, dropped = (_list_counts(report.get(key, {})) for key in ("read", "dropped"))
    raise ValueError(
        f"The terminology is empty: {files} gave no concept with a name. The file is probably of another kind "
        "than the reader expects, or its settings name the wrong columns. "
        f"Read: {read}. Dropped: {dropped.replace('_', ' ')}."
    )


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {what}" for what, n in counts.items() if n) or "nothing"


def check_id(concept_id: str) -> None:
    """Refuse an invalid concept id."""
    if not isinstance(concept_id, str):
        reason = f"it is a {type(concept_id).__name__}, not a string"
    elif not concept_id:
        reason = "it is empty"
    elif NOT_IN_ID.search(concept_id):
        reason = "it holds white space or a control character"
    elif concept_id == NIL:
        reason = "it stands for a mention without a concept"
    else:
        return check_text(concept_id, "id", concept_id)
    raise ValueError(
        f"Can't use {concept_id!r} as the id of a concept: {reason}. Ids end up in `token.ent_kb_id_` and "
        "in files of one record per line, so they need to be visible text without spaces."
    )


def check_text(concept_id: str, what: str, text: str) -> None:
    """Refuse a value that is not valid text."""
    if not isinstance(text, str):
        reason = f"it is a {type(text).__name__}, not a string (in tables, empty cells are often read as NaN)"
    elif text.isascii():
        return
    else:
        try:
            text.encode("utf8")
            return
        except UnicodeEncodeError:
            reason = "it holds a lone surrogate, a character that was cut in half or decoded with the wrong encoding"
    raise _refuse_text(concept_id, what, text, reason)


def _refuse_text(concept_id: str, what: str, text: object, reason: str) -> ValueError:
    return ValueError(
        f"Can't use {text!r:.80} as a text ({what}) of the concept '{concept_id}': {reason}. Correct it in the source."
    )


def _list_texts(concept_id: str, kind: str, values: Iterable[str]) -> tuple[str, ...]:
    # A string is a list of its letters too.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise _refuse_text(concept_id, kind, values, "a list of strings is needed")
    texts = tuple(values)
    for text in texts:
        check_text(concept_id, kind, text)
    return texts
