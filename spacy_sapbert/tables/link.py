"""Link labels, such as a column of a table, each distinct one once."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import polars as pl
from spacy.language import Language
from spacy.util import minibatch
from typing_extensions import Unpack

from ..errors import NO_LIST
from ..files import write_whole
from ..forking import check_polars
from ..progress import show_progress
from ..text import escape_formula
from .answers import Answer, LabelLinker
from .checking import LabelTable, get_linker

if TYPE_CHECKING:
    import pandas as pd

# Labels that are linked together.
AT_ONCE = 2048
COLUMNS = (
    "linked_id",
    "linked_name",
    "linked_match",
    "linked_score",
    "linked_how",
    "linked_note",
    "linked_second",
    "linked_second_why",
    "linked_others",
    "linked_context",
    "linked_side",
    "linked_severity",
    "linked_site",
)
ADDED_TEXTS = [name for name in COLUMNS if name != "linked_score"]
# What joins the cells of several concepts of a label, and the columns in which each concept has its own.
JOINT = "|"
OF_LABEL = ("linked_score", "linked_how", "linked_note", "linked_others")
JOINED = [name for name in COLUMNS if name not in OF_LABEL]
FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")
# What stands in `COLUMNS` of a row.
Cells = tuple[Any, ...]


class LinkOptions(TypedDict, total=False):
    """The options of `link_table`."""

    exact: bool
    n_candidates: int
    any_context: bool
    explode: bool
    id_column: str | None


@overload
def link_table(
    nlp: Language, table: pl.DataFrame, column: str = ..., **options: Unpack[LinkOptions]
) -> pl.DataFrame: ...
@overload
def link_table(
    nlp: Language, table: list[str] | tuple[str, ...], column: str = ..., **options: Unpack[LinkOptions]
) -> list[dict[str, Any]]: ...
@overload
def link_table(
    nlp: Language, table: pd.DataFrame, column: str = ..., **options: Unpack[LinkOptions]
) -> pd.DataFrame: ...
def link_table(
    nlp: Language,
    table: Any,
    column: str = "label",
    *,
    exact: bool = False,
    n_candidates: int = 0,
    any_context: bool = False,
    explode: bool = False,
    id_column: str | None = None,
) -> Any:
    """Link a column of labels, each distinct one once. The pipeline's reranker decides, if it has one, else the linker.

    A code in a label, or in a column of its own, is looked up before the words, as an id or a code in another source.
    A label that is no name is compared by its vector, and read as a text: it may name several concepts, and say of
    each its side, severity and site. These cells are joined by "|", in the order of the words.

    A label "Other ..." is linked only to a concept with such a name. Codes, "NOS" and what else adds nothing to a
    label are left out if no name has them, which `linked_note` says. A label that is no name and is about something
    else, such as "family history of diabetes", "screening for HIV" and "no asthma", is not linked; `linked_context`
    says what it is about: "family", "negated", "uncertain", "historical", "hypothetical" or "other".

    `linked_how` is "code", "name", "form of a name", "names" (of a cell with several), "vectors", or "text"; where
    nothing is linked "no name", "context", "residual class", "empty", or in the exact mode "several concepts" of one
    name. `linked_second` is the next concept, and `linked_second_why` says why it was not taken.

    nlp (Language): The pipeline, with a linker. The settings of its matcher say which names count inside of labels.
    table (pl.DataFrame | pd.DataFrame | list[str]): A data frame of polars or pandas, or labels.
    column (str): The column of labels.
    exact (bool): Link only labels that are a name of one concept, in any form or with its words from another word on,
        and lists of such names.
    n_candidates (int): How many of the first candidates to list in `linked_others`, which always has all concepts of a
        name; at most the `k` of the component that decides.
    any_context (bool): Link labels that are about something else as well, by the finding that they name.
    explode (bool): Give a label with several concepts a row for each.
    id_column (str | None): The column of codes, in a data frame.
    RETURNS (pl.DataFrame | pd.DataFrame | list[dict[str, Any]]): The frame with the columns of `COLUMNS` added; for
        labels, a dict for each.
    RAISES (ValueError): If there is no such column, it does not hold text, or the frame has the new columns already.
    RAISES (TypeError): If the table is something else.
    """
    if explode and not isinstance(table, (list, tuple)):
        check_polars("give labels several rows")
    labels, codes = _read_table(table, column, id_column)
    linker = LabelLinker(nlp, get_linker(nlp, nlp.meta["name"]), exact, n_candidates, any_context)
    linked = _link_labels(linker, labels, codes)
    write = _write_each if explode else _write_joined
    cells = {pair: write(answers) for pair, answers in linked.items()}
    rows = [cells[pair] for pair in zip(labels, codes, strict=True)]
    if not isinstance(table, (list, tuple)):
        return _add_columns(table, rows, explode)
    names = column, *COLUMNS
    return [dict(zip(names, (label, *row), strict=True)) for label, of in zip(labels, rows, strict=True) for row in of]


def _read_table(table: Any, column: str, id_column: str | None) -> tuple[list[str], list[str]]:
    """List labels and their codes, and refuse a data frame that has the new columns already."""
    if isinstance(table, (list, tuple)):
        return _list_labels(table, column), [""] * len(table)
    if not hasattr(table, "columns"):
        what = "labels, or a data frame"
        raise TypeError(NO_LIST.format(function="link_table", what=what, found=f"{table!r:.80} was given"))
    labels = _list_labels(_get_column(table, column), column)
    codes = [""] * len(labels) if id_column is None else _list_codes(_get_column(table, id_column))
    if clashes := set(COLUMNS).intersection(table.columns):
        raise ValueError(f"The table has a column {min(clashes)!r} already. Rename it, or leave it out.")
    return labels, codes


def _add_columns(table: Any, rows: Sequence[list[Cells]], explode: bool) -> Any:
    """Add the new columns to a data frame, given the cells of each of its rows, which may become several."""
    added = _make_columns([*chain.from_iterable(rows)])
    if explode:
        places = [place for place, of in enumerate(rows) for _ in of]
        table = table[places] if isinstance(table, pl.DataFrame) else table.iloc[places].reset_index(drop=True)
    return table.hstack(added) if isinstance(table, pl.DataFrame) else table.assign(**added.to_dict(as_series=False))


def _make_columns(rows: Sequence[Cells]) -> pl.DataFrame:
    """Make the new columns; by Python, because forked processes lack polars' threads."""
    return pl.DataFrame(
        [
            # Column by column, so that one at a time is a list.
            pl.Series(name, [row[place] for row in rows], pl.String if name in ADDED_TEXTS else pl.Float64)
            for place, name in enumerate(COLUMNS)
        ]
    )


def _link_labels(
    linker: LabelLinker, labels: Sequence[str], codes: Sequence[str]
) -> dict[tuple[str, str], list[Answer]]:
    """Link the distinct pairs of a label and its code."""
    distinct = list(dict.fromkeys(zip(labels, codes, strict=True)))
    linked: dict[tuple[str, str], list[Answer]] = {}
    linker.look_up_codes(distinct)
    for part in minibatch(show_progress(distinct, description="Linking labels", unit="labels"), AT_ONCE):  # type: ignore[no-untyped-call]
        linked |= zip(part, linker.link(part), strict=True)
    return linked


def _write_each(answers: Sequence[Answer]) -> list[Cells]:
    """Write the new cells of a label, for each of its concepts."""
    return [*map(_write_one, answers)]


def _write_one(answer: Answer) -> Cells:
    chosen = answer.chosen
    second = answer.second
    cells: Cells = (None,) * 4
    if chosen:
        score = round(chosen.get("probability", chosen["score"]), 4)
        cells = chosen["id"], chosen["canonical_name"], chosen["name"], score
    others = "; ".join(f"{id_} {name}" for id_, name in answer.others.items() if id_ != cells[0])
    next_one = f"{second['id']} {second['canonical_name']}" if second else None
    notes = "; ".join(answer.notes)
    modifiers = answer.modifiers
    context = (answer.context, modifiers.side, modifiers.severity, modifiers.site)
    texts = (notes, next_one, answer.why, others, *context)
    return (*cells, answer.how, *(text or None for text in texts))


def _write_joined(answers: Sequence[Answer]) -> list[Cells]:
    """Write one set of new cells for a label, with all its concepts and the lowest of their scores."""
    rows = _write_each(answers)
    if len(rows) == 1:
        return rows
    cells = []
    for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        if column == "linked_score":
            cells.append(min(values))
        elif column in OF_LABEL:
            cells.append("; ".join(dict.fromkeys(filter(None, values))) or None)
        else:
            cells.append(JOINT.join(value or "" for value in values) if any(values) else None)
    return [tuple(cells)]


def _get_column(table: Any, column: str) -> Any:
    columns = list(table.columns)
    if column not in columns:
        names = list(map(str, columns))
        hint = "".join(f" Did you mean {name!r}?" for name in get_close_matches(str(column), names, 1))
        raise ValueError(f"The table has no column {column!r}.{hint} It has: {', '.join(names)}.")
    return table[column]


def _list_labels(cells: Any, column: str) -> list[str]:
    """List the labels in the cells of a column; empty strings where there is none."""
    if getattr(cells, "ndim", 1) > 1:
        raise ValueError(f"The table has several columns {column!r}. Give the one with the labels a name of its own.")
    if hasattr(cells, "notna"):
        # pandas has several values for nothing.
        cells = cells.astype(object).where(cells.notna(), None)
    labels = ["" if cell is None else cell for cell in cells]
    for row, label in enumerate(labels, start=1):
        if not isinstance(label, str):
            raise ValueError(f"Row {row} of {column!r} is {label!r:.80}, but labels are text. Give a column of text.")
    return labels


def _list_codes(cells: Any) -> list[str]:
    """List the codes in the cells of a column, which may be numbers; empty strings where there is none."""
    if hasattr(cells, "notna"):
        cells = cells.astype(object).where(cells.notna(), None)
    codes = [None if isinstance(cell, float) and isnan(cell) else cell for cell in cells]
    # Whole numbers become floats where some are missing.
    are_whole = all(cell.is_integer() for cell in codes if isinstance(cell, float))
    written = (int(cell) if are_whole and isinstance(cell, float) else cell for cell in codes)
    return ["" if cell is None else str(cell).strip() for cell in written]


def write_linked(linked: pl.DataFrame, output: Path, source: LabelTable) -> None:
    """Write a linked table as the table that it comes from is written."""
    kind = output.suffix.lower()
    with write_whole(output) as temporary:
        if kind == ".jsonl":
            linked.write_ndjson(temporary)
        elif kind == ".parquet":
            linked.write_parquet(temporary)
        else:
            added = [name for name in linked.columns if name not in source.frame.columns]
            texts = [name for name in added if linked[name].dtype == pl.String]
            escaped = linked.with_columns(pl.col(texts).map_elements(escape_formula, pl.String))
            # In files with tabs, quotes belong to the text.
            is_plain = (source.delimiter, kind) == ("\t", ".tsv")
            quotes: Literal["never", "necessary"] = "never" if is_plain else "necessary"
            escaped.write_csv(temporary, separator=source.delimiter, quote_style=quotes, include_bom=source.has_bom)
