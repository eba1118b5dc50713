"""The terminology: an immutable table of concepts and an immutable table of their names."""

import copy
import json
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..columns import TextColumn, read_chunks
from ..errors import OTHER_VERSION
from ..files import pack_with, unpack_with
from ..forking import kept_property
from ..text import NIL
from .codes import SOURCE_SEPARATOR as SOURCE_SEPARATOR
from .display import MAX_VALUES, join_values, shorten_value, write_html, write_rows
from .rows import Table, is_of_kind, make_table
from .schemas import FILES, OPTIONAL, RELATIONS, RETIRED
from .storage import hash_tables, load_folder, save_folder

# Finding one id takes as long as looking at this many of all ids.
SEARCH_COST = 200
# Descriptions of counts whose key in a report is not a description.
_REASONS = {
    "language": "names in other languages",
    "source": "names of other sources",
    "term_type": "names of other term types",
    "semantic_type": "names of other semantic types",
    "suppressed": "suppressed names",
    "restriction_level": "names of restricted sources",
    "bad_id": "names with an invalid concept id",
    "empty_name": "empty names",
    "malformed": "malformed records",
}
# Why terms keep their own id, by the count in the report of an OBO file.
_OWN_IDS = {
    "own_no_xref": "without a reference",
    "own_several_xrefs": "with several",
    "own_shared_xref": "with one that other terms have too",
}
_OUTSIDE = (
    "Row {row} is outside the {n} {what} of the terminology. An index built from another terminology, or "
    "its padding of -1, gives such rows."
)
Default = TypeVar("Default")


@dataclass(frozen=True)
class Concept:
    """One concept of a terminology with all its names. `print` and notebooks show it as a small table."""

    id: str
    canonical_name: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    definition: str | None
    codes: tuple[str, ...]
    parents: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Concept({shorten_value(self.id)!r}, {shorten_value(self.canonical_name)!r}, ...)"

    def __str__(self) -> str:
        return write_rows(self._title, self._list_rows())

    def _repr_html_(self) -> str:
        return write_html(self._title, self._list_rows())

    @property
    def _title(self) -> str:
        return f"{shorten_value(self.canonical_name)} ({shorten_value(self.id)})"

    def _list_rows(self) -> list[tuple[str, str]]:
        values = {
            "names": self.names,
            "types": self.types,
            "definition": [self.definition] if self.definition else [],
            "parents": self.parents,
            "codes": self.codes,
        }
        return [(what, join_values(listed)) for what, listed in values.items() if listed]


class Terminology:
    """Concepts and their names, memory-mapped when loaded from disk. A retired id stands for the concept that took its
    place."""

    def __init__(
        self,
        concepts: Table,
        names: Table,
        *,
        retired: Table | None = None,
        relations: Table | None = None,
        report: dict[str, Any] | None = None,
    ) -> None:
        """Make a terminology of consistent tables. To make it from records, use `TerminologyBuilder`."""
        self._concepts = concepts
        self._names = names
        self._retired = make_table(RETIRED) if retired is None else retired
        self._relations = make_table(RELATIONS) if relations is None else relations
        check_tables(concepts, names, self._retired, self._relations)
        self._report = json.loads(json.dumps(report or {}))
        self._ids = self._concepts["id"]
        self._name_strings = self._names["name"]

    @property
    def concepts(self) -> Table:
        """The concepts, sorted by id."""
        return self._concepts

    @property
    def names(self) -> Table:
        """The names, sorted by concept row. Names of a concept are in the order in which they were read."""
        return self._names

    @property
    def retired(self) -> Table:
        """The retired ids, sorted: each with what it was `replaced_by`, if anything, and what to `consider`."""
        return self._retired

    @property
    def relations(self) -> Table:
        """The relations that a reader was asked for, sorted: `head` and `tail` are rows of `concepts`, and the head has
        the relation `label` to the tail."""
        return self._relations

    @property
    def report(self) -> dict[str, Any]:
        """The report of the reader: counts of what was read, kept and dropped."""
        return copy.deepcopy(self._report)

    @property
    def n_names(self) -> int:
        """The number of names."""
        return self._names.height

    @kept_property
    def name_concept(self) -> np.ndarray:
        """The concept row of each name, as a read-only view of the table."""
        values: np.ndarray = self._names["concept"].to_numpy()
        return values

    @kept_property
    def name_offsets(self) -> np.ndarray:
        """The row of each concept's first name, followed by the number of names."""
        rows = np.arange(len(self) + 1, dtype=np.uint32)
        offsets = np.searchsorted(self.name_concept, rows).astype(np.int64, copy=False)
        offsets.flags.writeable = False
        return offsets

    @kept_property
    def fingerprint(self) -> str:
        """The sha256 of the tables as saved: the same for the same concepts, names, retired ids and relations."""
        return hash_tables(self._saved_tables())

    def __len__(self) -> int:
        return self._concepts.height

    def __contains__(self, concept_id: object) -> bool:
        return self.find_row(concept_id) is not None

    def __getitem__(self, concept_id: str) -> Concept:
        return self.concept(self.row(concept_id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Terminology):
            return NotImplemented
        if self is other:
            return True
        mine, others = self._tables(), other._tables()
        return all(mine[name].equals(others[name]) for name in FILES)

    def __hash__(self) -> int:
        return hash((len(self), self.n_names))

    def __repr__(self) -> str:
        return f"Terminology({len(self)} concepts, {self.n_names} names)"

    def _repr_html_(self) -> str:
        first = [self.concept(row) for row in range(min(len(self), MAX_VALUES))]
        rows = [(shorten_value(concept.id), shorten_value(concept.canonical_name)) for concept in first]
        if rest := len(self) - len(first):
            rows.append(("", f"and {rest:,} more"))
        return write_html(f"{len(self):,} concepts, {self.n_names:,} names", rows)

    def __copy__(self) -> "Terminology":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Terminology":
        return self

    def __reduce__(self) -> tuple[Callable[[bytes], "Terminology"], tuple[bytes]]:
        return Terminology.from_bytes, (self.to_bytes(),)

    def find_row(self, concept_id: object) -> int | None:
        """Find the row of a concept in `concepts` by binary search.

        concept_id (object): The concept's id, or a retired id that it took the place of.
        RETURNS (int | None): The row; None if there is no such concept, or the id is not a string.
        """
        # A file may list NIL as a retired id, but no concept takes its place.
        visited: set[object] = {NIL}
        # A concept may have been replaced by one that was replaced later, and even in a circle.
        while isinstance(concept_id, str) and concept_id not in visited:
            if (row := _search(self._ids, concept_id)) is not None:
                return row
            visited.add(concept_id)
            place = _search(self._retired["id"], concept_id)
            concept_id = None if place is None else self._retired["replaced_by"][place]
        return None

    def find_rows(self, ids: Collection[str]) -> np.ndarray:
        """Find the rows of many concepts at once.

        ids (Collection[str]): The ids of concepts, or retired ids.
        RETURNS (np.ndarray): The rows, -1 where there is no such concept; int64.
        """
        if SEARCH_COST * len(ids) < len(self):
            rows = {id_: self.find_row(id_) for id_ in ids}
        else:
            rows = dict.fromkeys(ids)
            listed = chain.from_iterable(read_chunks(self._ids))
            rows |= {id_: row for row, id_ in enumerate(listed) if id_ in rows}
            retired = chain.from_iterable(read_chunks(self._retired["id"]))
            rows |= {id_: self.find_row(id_) for id_ in retired if id_ in rows}
        return np.array([-1 if row is None else row for row in map(rows.get, ids)], dtype=np.int64)

    def find_id(self, concept_id: object) -> str | None:
        """Find the id that a concept has now.

        concept_id (object): The concept's id, or a retired id that it took the place of.
        RETURNS (str | None): The id; None if there is no such concept.
        """
        row = self.find_row(concept_id)
        return None if row is None else self._ids[row]

    def row(self, concept_id: str) -> int:
        """Find the row of a concept that the terminology has.

        concept_id (str): The concept's id, or a retired id that it took the place of.
        RETURNS (int): The row.
        RAISES (KeyError): If there is no such concept.
        """
        if (row := self.find_row(concept_id)) is not None:
            return row
        advice = "Ids are matched exactly, case and prefix included. Test with `id in terminology` first."
        place = _search(self._retired["id"], concept_id) if isinstance(concept_id, str) else None
        if place is not None:
            _, successor, consider = self._retired.row(place)
            instead = f"{successor} took its place, but is not there" if successor else "nothing took its place"
            advice = f"It is retired: {instead}."
            if consider:
                advice += f" Its source says to consider {', '.join(consider)}."
        raise KeyError(f"No concept with the id {concept_id!r} is in the terminology of {len(self)} concepts. {advice}")

    def get(self, concept_id: str, default: Default | None = None) -> Concept | Default | None:
        """Get a concept, if the terminology has it.

        concept_id (str): The concept's id, or a retired id that it took the place of.
        default (Any): What to return if there is no such concept.
        RETURNS (Concept | Any): The concept with its names, or the default.
        """
        row = self.find_row(concept_id)
        return default if row is None else self.concept(row)

    def concept(self, row: int) -> Concept:
        """Get one concept by its row.

        row (int): The row in `concepts`.
        RETURNS (Concept): The concept with its names.
        RAISES (IndexError): If there is no such row.
        """
        names = tuple(self._name_strings[self._name_slice(row)].to_list())
        concept_id, canonical_name, types, definition, codes, parents = self._concepts.row(row)
        return Concept(concept_id, canonical_name, names, tuple(types), definition, tuple(codes), tuple(parents))

    def codes(self, concept_id: str, source: str | None = None) -> tuple[str, ...]:
        """Get the codes of a concept.

        concept_id (str): The concept's id.
        source (str | None): The source, such as "MSH" for codes like "MSH:D003920"; None for all sources.
        RETURNS (tuple[str, ...]): The codes in this source, without its prefix; for all sources, the codes with their
            prefixes, "SOURCE:CODE".
        RAISES (KeyError): If there is no such concept.
        """
        codes = self._concepts["codes"][self.row(concept_id)].to_list()
        if source is None:
            return tuple(codes)
        # Only the first colon ends the source: a code may hold others.
        split = (code.partition(":") for code in codes)
        return tuple(code for prefix, _, code in split if prefix == source and code)

    def names_of(self, row: int) -> Table:
        """Get the rows of `names` of one concept, without copying.

        row (int): The concept's row in `concepts`.
        RETURNS (Table): Its names.
        RAISES (IndexError): If there is no such row.
        """
        place = self._name_slice(row)
        return self._names.slice(place.start, place.stop)

    def concept_rows(self, name_rows: np.ndarray) -> np.ndarray:
        """Look up the concepts of many names at once.

        name_rows (np.ndarray): Rows of `names`, of any shape.
        RETURNS (np.ndarray): The concepts' rows, of the same shape, uint32.
        RAISES (IndexError): If a row is outside the table, such as an index's padding of -1.
        """
        if (wrong := (name_rows < 0) | (name_rows >= self.n_names)).any():
            raise IndexError(_OUTSIDE.format(row=name_rows[wrong][0], n=self.n_names, what="names"))
        return np.asarray(self.name_concept[name_rows])

    def to_disk(self, path: str | Path) -> None:
        """Save to a folder. The same terminology gives the same bytes.

        path (str | Path): The folder. The terminology may have been loaded from it.
        """
        # Known now, and slow to compute.
        self.__dict__["fingerprint"] = save_folder(Path(path), self._saved_tables(), self._report, OPTIONAL)

    @classmethod
    def from_disk(cls, path: str | Path, *, memory_map: bool = True) -> "Terminology":
        """Load from a folder.

        path (str | Path): A folder written by `to_disk`.
        memory_map (bool): Map its files into memory instead of reading them.
        RETURNS (Terminology): The terminology.
        RAISES (OSError): If a file is missing, damaged or of another format version.
        """
        tables, manifest = load_folder(Path(path), FILES, OPTIONAL, memory_map=memory_map)
        concepts, names, retired, relations = (tables[name] for name in FILES)
        if fault := _find_fault(concepts, names, retired, relations):
            raise OSError(OTHER_VERSION.format(path=path, reason=f"in its tables, {fault}"))
        terminology = cls(concepts, names, retired=retired, relations=relations, report=dict(manifest["report"]))
        terminology.__dict__["fingerprint"] = manifest["fingerprint"]
        return terminology

    def to_bytes(self) -> bytes:
        """Serialise to bytes.

        RETURNS (bytes): The files that `to_disk` writes, packed.
        """
        return pack_with(self.to_disk)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Terminology":
        """Load from bytes.

        data (bytes): The bytes that `to_bytes` returned.
        RETURNS (Terminology): The terminology.
        RAISES (ValueError): If the bytes are damaged.
        RAISES (OSError): If a packed file is damaged or of another format version.
        """
        return unpack_with(partial(cls.from_disk, memory_map=False), data)

    def _tables(self) -> dict[str, Table]:
        tables = (self._concepts, self._names, self._retired, self._relations)
        return dict(zip(FILES, tables, strict=True))

    def _saved_tables(self) -> dict[str, Table]:
        return {name: table for name, table in self._tables().items() if table.height or name not in OPTIONAL}

    def _name_slice(self, row: int) -> slice:
        # A negative row would count from the end: a wrong concept rather than an error.
        if not 0 <= row < len(self):
            raise IndexError(_OUTSIDE.format(row=row, n=len(self), what="concepts"))
        return slice(int(self.name_offsets[row]), int(self.name_offsets[row + 1]))


def _search(ids: TextColumn, wanted: str) -> int | None:
    row = bisect_left(ids, wanted)
    return row if row < len(ids) and ids[row] == wanted else None


def check_tables(*tables: Table) -> None:
    """Refuse inconsistent tables, which would silently give wrong results."""
    if reason := _find_fault(*tables):
        raise ValueError(
            f"The tables given to Terminology don't fit together: {reason}. Use TerminologyBuilder, which "
            "sorts and checks them."
        )


def _find_fault(concepts: Table, names: Table, retired: Table, relations: Table) -> str | None:
    tables = {"concepts": concepts, "names": names, "retired ids": retired, "relations": relations}
    for (what, table), schema in zip(tables.items(), FILES.values(), strict=True):
        if table.columns != [*schema]:
            return f"the columns of {what} are {', '.join(table.columns)}"
        if wrong := [name for name, kind in schema.items() if not is_of_kind(table[name], kind)]:
            return f"{what} have other values in {wrong[0]}, or lack some"
        if len({len(table[name]) for name in schema}) > 1:
            return f"the columns of {what} have different lengths"
    for what in ("concepts", "retired ids"):
        if not tables[what]["id"].ascends():
            return f"{what} are not sorted by id, or ids repeat"
    rows, heads, tails = (column.to_numpy() for column in (names["concept"], relations["head"], relations["tail"]))
    if _descends(rows) or _exceeds(rows, concepts.height):
        return "names are not sorted by concept row, or the concept is missing"
    if _descends(heads) or _exceeds(heads, concepts.height) or _exceeds(tails, concepts.height):
        return "relations are not sorted by the row of the head, or a concept is missing"
    return None


def _descends(rows: np.ndarray) -> bool:
    return bool((rows[1:] < rows[:-1]).any())


def _exceeds(rows: np.ndarray, n: int) -> bool:
    return len(rows) > 0 and int(rows.max()) >= n


TerminologyReader = Callable[[], Terminology]


def make_saved_reader(path: str) -> TerminologyReader:
    """Make a reader of a saved terminology, for use in a config. It loads the folder when it is called."""
    return partial(Terminology.from_disk, path)


def summarize(terminology: Terminology) -> str:
    """Summarize a terminology and its reader's report."""
    report = terminology.report
    parts = [f"{len(terminology):,} concepts with {terminology.n_names:,} names"]
    # How many terms of an ontology have a cross-reference as id, and why the others have not.
    if ids := report.get("ids"):
        from_xref, own = (sum(n for key, n in ids.items() if key.startswith(start)) for start in ("from_", "own_"))
        reasons = ", ".join(f"{ids[key]:,} {reason}" for key, reason in _OWN_IDS.items() if ids[key])
        prefix = report["id_prefix"].removesuffix(":")
        parts.append(f"{from_xref:,} ids are references to {prefix}, {own:,} the terms' own")
        parts[-1] += f" ({reasons})" if reasons else ""
    if normalized := report.get("normalized_names"):
        parts.append(f"{normalized:,} names normalized")
    counts = {_REASONS.get(reason, reason.replace("_", " ")): n for reason, n in report.get("dropped", {}).items()}
    if dropped := [f"{n:,} {reason}" for reason, n in counts.items() if n]:
        parts.append(f"dropped: {', '.join(dropped)}")
    return "; ".join(parts)
