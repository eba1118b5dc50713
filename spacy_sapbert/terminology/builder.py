"""Collect concepts and names in any order and build a terminology from them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from ..forking import check_polars
from ..text import NIL, normalize_name
from .names import normalize_names, place_rows, sort_by_concept, unite_concepts, unite_names, unite_retired
from .table import CONCEPT_SCHEMA, NAME_SCHEMA, Terminology

# Control characters and white space, which would split words in spaCy and records in files.
NOT_IN_ID = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_TEXT, _TEXTS = pl.String(), pl.List(pl.String())
_NAMES = {"id": _TEXT, "name": _TEXT, "language": _TEXT, "source": _TEXT, "term_type": _TEXT, "preferred": pl.Boolean()}
_RETIRED = {"id": _TEXT, "replaced_by": _TEXTS, "consider": _TEXTS}


class TerminologyBuilder:
    """Collects concepts and names, and merges records with the same id."""

    def __init__(self) -> None:
        check_polars("build a terminology")
        self._ids: dict[str, None] = {}
        # Long columns: what each concept has of a kind, one value a row.
        self._columns = {kind: _make_columns("id", kind) for kind in CONCEPT_SCHEMA.names()[1:]}
        self._names, self._retired = _make_columns(*_NAMES), _make_columns(*_RETIRED)

    def __contains__(self, concept_id: object) -> bool:
        return concept_id in self._ids

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
                self._columns[kind]["id"].append(concept_id)
                self._columns[kind][kind].append(value)

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
        for column, value in {"id": concept_id, **texts, "preferred": bool(preferred)}.items():
            self._names[column].append(value)

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
        for column, value in {"id": retired_id, **lists}.items():
            self._retired[column].append(value)

    def build(self, report: Mapping[str, Any] | None = None) -> Terminology:
        """Build the terminology. Duplicate names and concepts without names are dropped and counted.

        report (Mapping[str, Any] | None): The report of the reader, to which counts are added.
        RETURNS (Terminology): The terminology.
        RAISES (ValueError): If no concept has a name.
        """
        return check_any(self.assemble(report))

    def assemble(self, report: Mapping[str, Any] | None = None) -> Terminology:
        """Build the terminology likewise, even if it is empty."""
        columns = {kind: pl.DataFrame(values, {"id": _TEXT, kind: _TEXT}) for kind, values in self._columns.items()}
        names, retired = pl.DataFrame(self._names, _NAMES), pl.DataFrame(self._retired, _RETIRED)
        return assemble(names, columns, retired, len(self._ids), report or {})

    def _add_id(self, concept_id: str) -> None:
        if not isinstance(concept_id, str) or concept_id not in self._ids:
            check_id(concept_id)
            self._ids[concept_id] = None


def _make_columns(*columns: str) -> dict[str, list[Any]]:
    return {column: [] for column in columns}


def assemble(
    names: pl.DataFrame,
    columns: Mapping[str, pl.DataFrame],
    retired: pl.DataFrame,
    n_concepts: int,
    report: Mapping[str, Any],
) -> Terminology:
    """Make a terminology of long tables: names, a table for each column of concepts, and retired ids, all with `id`.
    Names are normalized. Duplicate names and concepts without names are dropped and counted."""
    normal, n_normalized = normalize_names(names["name"])
    given = names.with_columns(normal).filter(pl.col("name") != "")
    ids = given["id"].unique().sort()
    united = unite_names(sort_by_concept(place_rows(given, ids)))
    concepts, n_self_parents = unite_concepts(ids, columns)
    # Without a canonical name, the first preferred name counts, or else the first one.
    best = united.sort("concept", ~pl.col("preferred"), maintain_order=True).unique(
        "concept", keep="first", maintain_order=True
    )
    concepts = concepts.with_columns(pl.col("canonical_name").fill_null(best["name"]))
    dropped = {
        "empty_names": names.height - given.height,
        "duplicate_names": given.height - united.height,
        "concepts_without_names": n_concepts - len(ids),
        "self_parents": n_self_parents,
    }
    counts = {"dropped": {**report.get("dropped", {}), **dropped}, "normalized_names": n_normalized}
    return complete(concepts, united, unite_retired([_choose_successors(retired)], ids), {**report, **counts})


def _choose_successors(retired: pl.DataFrame) -> pl.DataFrame:
    """Of several concepts that took an id's place, nobody knows which is meant, so they are to be considered."""
    both = pl.col("replaced_by", "consider").explode().drop_nulls().unique(maintain_order=True)
    rows = retired.group_by("id").agg(both)
    is_one, several = pl.col("replaced_by").list.len() == 1, pl.concat_list("replaced_by", "consider")
    return rows.select(
        "id",
        replaced_by=pl.when(is_one).then(pl.col("replaced_by").list.first()),
        consider=pl.when(is_one).then("consider").otherwise(several.list.unique(maintain_order=True)),
    )


def complete(
    concepts: pl.DataFrame,
    names: pl.DataFrame,
    retired: pl.DataFrame,
    report: Mapping[str, Any],
    relations: pl.DataFrame | None = None,
) -> Terminology:
    """Make a terminology of its tables, and count in its report what they have and the parents that they lack."""
    parents = concepts["parents"].explode().drop_nulls()
    counts = {
        "kept": {"concepts": concepts.height, "names": names.height},
        "dangling_parents": (~parents.is_in(concepts["id"].implode())).sum(),
    }
    names = names.select(NAME_SCHEMA.names())
    return Terminology(concepts, names, retired=retired, relations=relations, report={**report, **counts})


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
