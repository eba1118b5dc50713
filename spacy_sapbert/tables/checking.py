"""Check ids and their labels, from a curator's table or a language model, against a terminology."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl
import spacy
from spacy.language import Language

from ..files import check_is_file
from ..forking import check_polars
from ..linker import SapbertLinker
from ..terminology.edits import check_pairs
from ..terminology.readers.lines import BOM, NOT_AN_ID, UTF16_BOMS, SourceFile, invalid_utf8
from ..terminology.readers.table import TableSettings
from ..terminology.readers.text_table import WRONG_ENCODING, TextTable
from ..terminology.table import Terminology
from ..text import normalize_name

# The concepts that are listed for a label that is no name.
NEAREST = 3
# Synonyms of these scopes do not mean the same.
OTHER_SCOPES = ("BROAD", "NARROW")
# An id's number, what separates it from the letters before it, and these: "HP:0001250", "hp_0001250", ".../HP_1250". It
# is matched from the end, because a search for the first letter takes a time that grows with the square of the length.
_PARTS_BACKWARDS = re.compile(r"([0-9]+)[^0-9A-Za-z]*([A-Za-z]*)")
# What is wrong with cells: the column, their number, and the first row.
EMPTY = "Rows with nothing in the column {!r}: {:,}, the first is row {}. Fill them in."
CHANGED = (
    "Rows with a date or a decimal number in the column {!r}, as spreadsheets make of text: {:,}, the first is row {}. "
    "Import the column as text."
)
NO_COLUMN = "{} has no column {!r}. Its columns are: {}. {}"
# What each status means, in words.
OF_IDS = {
    "current": "",
    "retired": "retired, {concept_id} took its place; ",
    "misspelt": "the id is written {concept_id}; ",
    "unknown": "unknown id; ",
}
OF_LABELS = {
    "preferred name": "the label is its preferred name",
    "name": "the label is a name of it, {name!r}",
    "wider or narrower": "the label is a {term_type} synonym of it, {name!r}",
    "name of others": "the label is a name of {others}",
    "missing": "no concept has this name; the nearest is the id's own, which may lack it",
    "no name": "no concept has this name; {others} may be meant",
}


class CheckedPair(NamedTuple):
    """What a terminology says of an id and a label."""

    id: str
    label: str
    id_status: str  # One of `OF_IDS`.
    concept_id: str | None  # The id to use, if one is known.
    label_status: str  # One of `OF_LABELS`.
    name: str  # The name that is written like the label, but for case and forms of words; empty if there is none.
    term_type: str  # What kind of name it is in its source, such as RELATED.
    # Ids and names of other concepts: all with this name; if there is none, those to consider in place of a retired
    # id, or the nearest.
    others: tuple[tuple[str, str], ...]

    @property
    def is_right(self) -> bool:
        """Whether the id is in use, and the label one of its names."""
        return self.id_status == "current" and self.label_status in ("preferred name", "name")

    def explain(self) -> str:
        """Say in words what was found."""
        others = ", ".join(f"{id_} ({name})" for id_, name in self.others) or "nothing"
        fields = {**self._asdict(), "concept_id": self.concept_id or "nothing", "others": others}
        return f"{OF_IDS[self.id_status]}{OF_LABELS[self.label_status]}".format(**fields)


def check_labels(terminology: Terminology | SapbertLinker, pairs: Iterable[tuple[str, str]]) -> list[CheckedPair]:
    """Check if ids are in use, and labels are their names, in the ways that `Lexicon.ask` has for labels.

    terminology (Terminology | SapbertLinker): A terminology; or a linker, to use its encoder and its index.
    pairs (Iterable[tuple[str, str]]): Ids and labels.
    RETURNS (list[CheckedPair]): What was found of each pair.
    """
    check_polars("check labels")
    pairs = list(check_pairs(pairs))
    linker = terminology if isinstance(terminology, SapbertLinker) else _make_linker(terminology)
    table = linker.terminology
    ids = _read_ids(table, [id_ for id_, _ in pairs])
    forms = [normalize_name(label) for _, label in pairs]
    matches = _match_names(linker, list(dict.fromkeys(forms)))
    unnamed = [form for form, rows in matches.items() if not rows]
    nearest = dict(zip(unnamed, linker.find(unnamed, k=NEAREST), strict=True))
    names = table.names.select("name", "term_type", "preferred")
    concepts = table.concepts.select("id", "canonical_name")
    checked = []
    for (id_, label), form in zip(pairs, forms, strict=True):
        id_status, row, successors = ids[id_]
        concept_id, canonical_name = (None, "") if row is None else concepts.row(row)
        rows = matches[form]
        if rows:
            others = [other for other in rows if other != row]
            name, term_type, is_preferred = names.row(rows.get(row, next(iter(rows.values()))))
            if row not in rows:
                label_status = "name of others"
            elif term_type.startswith(OTHER_SCOPES):
                label_status = "wider or narrower"
            elif is_preferred or name == canonical_name:
                label_status = "preferred name"
            else:
                label_status = "name"
        else:
            name = term_type = ""
            alternatives = successors or [candidate["concept_id"] for candidate in nearest[form][:NEAREST]]
            others = [other for other in map(table.find_row, alternatives) if other is not None]
            label_status = "missing" if others[:1] == [row] else "no name"
        listed = tuple(concepts.row(other) for other in others if other is not None)
        checked.append(CheckedPair(id_, label, id_status, concept_id, label_status, name, term_type, listed))
    return checked


def _read_ids(table: Terminology, ids: list[str]) -> dict[str, tuple[str, int | None, list[str]]]:
    """Read each id: its status, the row of the concept to use, and the ids to consider in place of a retired one."""
    is_asked = pl.col("id").is_in(pl.Series(ids, dtype=pl.String()).implode())
    retired = dict(table.retired.to_polars("id", "consider").filter(is_asked).iter_rows())
    rows = {id_: table.find_row(id_) for id_ in ids}
    spellings = _group_spellings(table.concepts["id"]) if None in rows.values() else {}
    readings = {}
    for id_, row in rows.items():
        if id_ in retired:
            status = "retired"
        elif row is not None:
            status = "current"
        elif len(alike := spellings.get(_read_parts(id_), [])) == 1:
            status = "misspelt"
            row = table.row(alike[0])
        else:
            status = "unknown"
        readings[id_] = status, row, retired.get(id_) or []
    return readings


def _match_names(linker: SapbertLinker, forms: list[str]) -> dict[str, dict[int | None, int]]:
    """Find for each form the rows of concepts with a name that is written like it, and the first such name of each."""
    hits = linker.retriever.find_named(forms)
    matches: dict[str, dict[int | None, int]] = {form: {} for form in forms}
    for mention, concept, name in zip(hits.mention.tolist(), hits.concept.tolist(), hits.name.tolist(), strict=True):
        matches[forms[mention]].setdefault(concept, name)
    return matches


def get_linker(nlp: Language, path: Path | str) -> SapbertLinker:
    """Get the linker of a loaded pipeline."""
    linkers = [part for _, part in nlp.pipeline if isinstance(part, SapbertLinker)]
    if not linkers:
        raise ValueError(f"The pipeline {path} has no sapbert_linker. Give one that has, or a terminology.")
    return linkers[0]


def _make_linker(terminology: Terminology) -> SapbertLinker:
    # Few labels are looked up, so an approximate index is not worth its time.
    index = {"@misc": "spacy-sapbert.ExactIndex.v1"}
    linker: SapbertLinker = spacy.blank("xx").add_pipe("sapbert_linker", config={"index": index})  # type: ignore[assignment]
    linker.initialize(terminology=terminology)
    return linker


def _read_parts(id_: str) -> tuple[str, str]:
    """Read the letters before an id's number, and the number without leading zeros."""
    parts = _PARTS_BACKWARDS.match(id_[::-1])
    # Codes with a number before a sign, such as E11.9 and 2345-7, are no prefix with a number.
    if parts is None or re.search(r"\d", id_[: -parts.end()].rpartition("/")[2]):
        return "", id_.casefold()
    number, letters = (part[::-1] for part in parts.groups())
    return letters.casefold(), number.lstrip("0") or "0"


def _group_spellings(ids: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """Group ids by their letters and numbers, and by their numbers alone."""
    groups = defaultdict(list)
    for id_ in ids:
        letters, number = _read_parts(id_)
        for key in {(letters, number), ("", number)}:
            groups[key].append(id_)
    return groups


class LabelTable(NamedTuple):
    """A table of labels, and the form in which it was written."""

    frame: pl.DataFrame
    first_row: int  # the number of its first row; in a text file, its line
    delimiter: str  # what separates its cells in a text file
    has_bom: bool  # whether the text file begins with a byte order mark


def read_rows(
    path: Path, columns: tuple[str, ...], advice: str, *, skip_lines: int = 0, encoding: str | None = None
) -> LabelTable:
    """Read a table, .csv, .tsv, .jsonl or .parquet, that has the given columns. The advice says how to name these. Text
    is read as `read_table` reads it."""
    check_polars("read a table")
    check_is_file(path)
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            table = LabelTable(pl.read_parquet(path), 1, "", False)
        elif kind == ".jsonl":
            frame = pl.read_ndjson(path.read_bytes().removeprefix(BOM), infer_schema_length=None)
            table = LabelTable(frame, 1, "", False)
        else:
            settings = TableSettings.read({"skip_lines": skip_lines, "encoding": encoding}, "the table")
            table = _read_text(path, columns, advice, settings)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{path} can't be read as a table: {reason}. Correct it, or save it as CSV in UTF-8."
        ) from error
    frame = table.frame
    if missing := [column for column in columns if column not in frame.columns]:
        raise ValueError(NO_COLUMN.format(path, missing[0], ", ".join(frame.columns), advice))
    if odd := [column for column in columns if frame[column].dtype.is_nested() or frame[column].dtype == pl.Binary]:
        raise ValueError(f"{path} has lists, objects or bytes in the column {odd[0]!r}. Write them as text.")
    if not frame.height:
        raise ValueError(f"{path} has no row below its header. Give a table with {' and '.join(columns)}.")
    return table


def _read_text(path: Path, columns: tuple[str, ...], advice: str, settings: TableSettings) -> LabelTable:
    def open_table() -> TextTable:
        return TextTable(SourceFile(path, encoding=settings.encoding), columns, skip_lines=settings.skip_lines)

    table = open_table()
    if table.advice:
        raise ValueError(NO_COLUMN.format(path, columns[0], ", ".join(table.columns), advice + table.advice))
    # A table with a single column has no delimiter, but quotes.
    has_quotes = (table.delimiter, path.suffix.lower()) != ("\t", ".tsv")
    quote = '"' if has_quotes else None
    data = table.read()
    try:
        frame = pl.read_csv(data, separator=table.delimiter, quote_char=quote, infer_schema=False)
    except pl.exceptions.PolarsError:
        _find_fault(open_table(), has_quotes)
        raise
    delimiter = "," if frame.width == 1 and has_quotes else table.delimiter
    with path.open("rb") as file:
        has_bom = file.read(3).startswith((BOM, *UTF16_BOMS))
    return LabelTable(frame, table.first_line + 1, delimiter, has_bom)


def _find_fault(table: TextTable, has_quotes: bool) -> None:
    """Raise a ValueError with the first line that is at fault."""

    def refuse(line: int, reason: str) -> None:
        raise ValueError(f"{table.path}, line {line}: {reason}. Correct it, or save the table as CSV in UTF-8.")

    n_columns = 0
    for line, fields in table.rows(refuse, has_quotes=has_quotes):
        n_columns = n_columns or len(fields)
        if reason := invalid_utf8(" ".join(fields)):
            refuse(line, f"{reason}, so {WRONG_ENCODING}")
        if len(fields) > n_columns:
            refuse(line, f"{len(fields)} fields were found, but there are {n_columns} columns")


def read_labels(
    path: Path, id_column: str, label_column: str, *, skip_lines: int = 0, encoding: str | None = None
) -> tuple[list[tuple[int, str, str]], list[str]]:
    """Read a table with ids and labels: the number, the id and the label of each good row, and what is wrong with
    others."""
    columns = (id_column, label_column)
    advice = "Name these columns with --id-column and --label-column."
    if id_column == label_column:
        raise ValueError(f"The ids and the labels are both in the column {id_column!r}. {advice}")
    table, first_row, *_ = read_rows(path, columns, advice, skip_lines=skip_lines, encoding=encoding)
    cells = table.select(pl.col(columns).cast(pl.String).fill_null("").str.strip_chars())
    cells.columns = ["id", "label"]
    # Lines with nothing at all are no rows.
    is_blank = table.select(pl.all_horizontal(pl.all().is_null())).to_series()
    cells = cells.with_row_index("row", first_row).filter(~is_blank)
    is_bad = pl.lit(False)
    faults = []
    for name, column in zip(cells.columns[1:], columns, strict=True):
        cell = pl.col(name)
        tests = ((EMPTY, cell == ""), (CHANGED, cell.str.contains(NOT_AN_ID)))
        for fault, holds in tests:
            if rows := cells.filter(holds)["row"].to_list():
                faults.append(fault.format(column, len(rows), rows[0]))
            is_bad |= holds
    return cells.filter(~is_bad).rows(), faults
