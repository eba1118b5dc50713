"""Collect concepts and names in any order and build a terminology from them."""

import re
from array import array
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from ..forking import check_polars
from ..text import NIL, normalize_name
from .names import unite_names
from .storage import make_lists
from .table import CONCEPT_SCHEMA, NAME_SCHEMA, RETIRED_SCHEMA, Terminology

# Control characters and white space, which would split words in spaCy and records in files.
NOT_IN_ID = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


class TerminologyBuilder:
    """Collects concepts and names, and merges records with the same id."""

    def __init__(self) -> None:
        check_polars("build a terminology")
        self._rows: dict[str, int] = {}
        self._canonical: list[str | None] = []
        self._definitions: list[str | None] = []
        # Most concepts lack values of some kind, so only non-empty lists are stored.
        self._lists: dict[str, dict[int, dict[str, None]]] = {"types": {}, "codes": {}, "parents": {}}
        self._names: list[str] = []
        self._name_rows = array("L")
        self._labels: dict[str, list[str]] = {"language": [], "source": [], "term_type": []}
        self._preferred: list[bool] = []
        self._retired: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        self._n_normalized = self._n_empty = self._n_self_parents = 0

    def __contains__(self, concept_id: object) -> bool:
        return concept_id in self._rows

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
        lists = {kind: _list_texts(concept_id, kind, values) for kind, values in given.items()}
        row = self._row(concept_id)
        self._canonical[row] = self._canonical[row] or normalize_name(canonical_name or "") or None
        self._definitions[row] = self._definitions[row] or (definition or "").strip() or None
        for kind, values in lists.items():
            kept = [value for value in values if value and not (kind == "parents" and value == concept_id)]
            self._n_self_parents += kind == "parents" and concept_id in values
            if kept:
                self._lists[kind].setdefault(row, {}).update(dict.fromkeys(kept))

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
        row = self._row(concept_id)
        normal = normalize_name(name)
        self._n_normalized += normal != name.strip()
        if not normal:
            self._n_empty += 1
            return
        self._names.append(normal)
        self._name_rows.append(row)
        for key, values in self._labels.items():
            values.append(texts[key])
        self._preferred.append(bool(preferred))

    def add_retired(self, retired_id: str, *, replaced_by: Iterable[str] = (), consider: Iterable[str] = ()) -> None:
        """Add an id that no concept has any longer. The concept that took its place is found by it.

        retired_id (str): The retired id. One that a concept has is not retired.
        replaced_by (Iterable[str]): The concept that took its place. If several are given, nobody knows which one is
            meant, so they are only to be considered.
        consider (Iterable[str]): Concepts that may be meant instead. Nothing is answered with them.
        RAISES (ValueError): If an id is not valid text.
        """
        check_text(retired_id, "retired id", retired_id)
        known = self._retired.setdefault(retired_id, ({}, {}))
        for kind, of, values in zip(("replaced_by", "consider"), known, (replaced_by, consider), strict=True):
            of.update(dict.fromkeys(_list_texts(retired_id, kind, values)))

    def build(self, report: Mapping[str, Any] | None = None) -> Terminology:
        """Build the terminology. Duplicate names and concepts without names are dropped and counted.

        report (Mapping[str, Any] | None): The report of the reader, to which counts are added.
        RETURNS (Terminology): The terminology.
        RAISES (ValueError): If no concept has a name.
        """
        report = dict(report or {})
        columns = {"name": self._names, "row": np.array(self._name_rows, dtype=np.uint32), **self._labels}
        schema = {column: NAME_SCHEMA.get(column, pl.UInt32()) for column in (*columns, "preferred")}
        names = pl.DataFrame({**columns, "preferred": self._preferred}, schema=schema)
        names = unite_names(names, key=("row", "name", "language"))
        has_name = np.zeros(len(self._rows), dtype=bool)
        has_name[names["row"].to_numpy()] = True
        kept = sorted((concept_id, row) for concept_id, row in self._rows.items() if has_name[row])
        report["dropped"] = {
            **report.get("dropped", {}),
            "empty_names": self._n_empty,
            "duplicate_names": len(self._names) - names.height,
            "concepts_without_names": len(self._rows) - len(kept),
            "self_parents": self._n_self_parents,
        }
        if not kept:
            files = ", ".join(file["name"] for file in report.get("files", ())) or "the records given"
            read, dropped = (_list_counts(report.get(key, {})) for key in ("read", "dropped"))
            raise ValueError(
                f"The terminology is empty: {files} gave no concept with a name. The file is probably of another kind "
                "than the reader expects, or its settings name the wrong columns. "
                f"Read: {read}. Dropped: {dropped.replace('_', ' ')}."
            )
        new_rows = np.zeros(len(self._rows), dtype=np.uint32)
        new_rows[[row for _, row in kept]] = np.arange(len(kept), dtype=np.uint32)
        names = names.with_columns(pl.Series("concept", new_rows[names["row"].to_numpy()]))
        names = names.sort("concept", maintain_order=True).select(NAME_SCHEMA.names())
        concepts = self._make_concepts(kept, names)
        report["kept"] = {"concepts": concepts.height, "names": names.height}
        report["normalized_names"] = self._n_normalized
        report["dangling_parents"] = count_dangling(concepts["parents"], concepts["id"])
        return Terminology(concepts, names, retired=self._make_retired(dict(kept)), report=report)

    def _row(self, concept_id: str) -> int:
        row = self._rows.get(concept_id) if isinstance(concept_id, str) else None
        if row is None:
            check_id(concept_id)
            row = self._rows[concept_id] = len(self._rows)
            self._canonical.append(None)
            self._definitions.append(None)
        return row

    def _make_concepts(self, kept: list[tuple[str, int]], names: pl.DataFrame) -> pl.DataFrame:
        first = names.sort("concept", "preferred", descending=[False, True], maintain_order=True)
        fallback = first.unique("concept", keep="first", maintain_order=True)["name"]
        explicit = pl.Series([self._canonical[row] for _, row in kept], dtype=pl.String())
        columns: dict[str, Any] = {
            "id": [concept_id for concept_id, _ in kept],
            "canonical_name": explicit.fill_null(fallback),
            "definition": [self._definitions[row] for _, row in kept],
        }
        for kind, of in self._lists.items():
            lists = [of.get(row, ()) for _, row in kept]
            values = pl.Series([value for listed in lists for value in listed], dtype=pl.String())
            columns[kind] = make_lists(values, np.array([len(listed) for listed in lists]))
        return pl.DataFrame({column: columns[column] for column in CONCEPT_SCHEMA}, schema=CONCEPT_SCHEMA)

    def _make_retired(self, living: Collection[str]) -> pl.DataFrame:
        rows = [
            (id_, *replaced_by, [*consider]) if len(replaced_by) == 1 else (id_, None, [*(replaced_by | consider)])
            for id_, (replaced_by, consider) in sorted(self._retired.items())
            if id_ not in living
        ]
        return pl.DataFrame(rows, schema=RETIRED_SCHEMA, orient="row")


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


def count_dangling(parents: pl.Series, ids: pl.Series) -> int:
    """Count parents that are not in a terminology."""
    listed = parents.explode().drop_nulls()
    return int((~listed.is_in(ids.implode())).sum())
