"""Tables: columns of one length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..columns import CodedColumn, Column, ListColumn, NumberColumn, TextColumn
from .schemas import CHILDREN, DTYPES, FEW_LISTS, FEW_TEXTS, LISTS, OPTIONAL_TEXT, Schema

if TYPE_CHECKING:
    import polars as pl


class Table:
    """Columns of one length, by their names.

    columns (Mapping[str, Column]): The columns.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    @classmethod
    def from_polars(cls, frame: pl.DataFrame, schema: Schema) -> Table:
        """Copy a data frame.

        frame (pl.DataFrame): The frame.
        schema (dict[str, str]): What its columns hold: a schema of `terminology.schemas`.
        RETURNS (Table): The table.
        RAISES (ValueError): If the frame has other columns, or lacks values.
        """
        from .frames import convert_series, make_schema

        if frame.schema != make_schema(schema):
            raise ValueError(f"The table has the columns {dict(frame.schema)}, but has to have {make_schema(schema)}.")
        for name, kind in schema.items():
            if kind != OPTIONAL_TEXT and frame[name].null_count():
                raise ValueError(f"The table has missing values in {name}.")
        return cls({name: convert_series(frame[name], kind) for name, kind in schema.items()})

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*self._columns]

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values())))

    def __len__(self) -> int:
        return self.height

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def select(self, *names: str) -> Table:
        """View some columns."""
        return Table({name: self[name] for name in names})

    def row(self, row: int) -> tuple[Any, ...]:
        """Return the values of a row, as Python's."""
        values = (column[row] for column in self._columns.values())
        return tuple(value.to_list() if isinstance(value, Column) else value for value in values)

    def rows(self) -> list[tuple[Any, ...]]:
        """List the rows."""
        return [*zip(*(column.to_list() for column in self._columns.values()), strict=True)]

    def slice(self, start: int, stop: int) -> Table:
        """View some rows."""
        return Table({name: column[start:stop] for name, column in self._columns.items()})

    def take(self, rows: np.ndarray, *others: Table) -> Table:
        """Copy rows of this table, and of others whose rows are numbered behind."""
        tables = [self, *others]
        return Table(
            {name: type(column).take_rows([of[name] for of in tables], rows) for name, column in self._columns.items()}
        )

    def replace(self, **columns: Column) -> Table:
        """Make a table with other columns under some names."""
        return Table({**self._columns, **columns})

    def equals(self, other: Table) -> bool:
        """Return whether another table has the same columns."""
        return self.columns == other.columns and all(self[name].equals(other[name]) for name in self.columns)

    def to_polars(self, *names: str) -> pl.DataFrame:
        """Copy columns to a data frame, for which polars has to be installed.

        *names (str): The names of columns; all if none is given.
        RETURNS (pl.DataFrame): The frame.
        """
        import polars as pl

        from .frames import make_series

        return pl.DataFrame({name: make_series(self[name]) for name in names or self.columns})


def make_column(kind: str, values: Iterable[Any]) -> Column:
    """Make a column of Python's values."""
    if kind in DTYPES:
        return NumberColumn(np.array([*values], dtype=DTYPES[kind]))
    if kind == FEW_TEXTS:
        return CodedColumn.make(values)
    if kind in (LISTS, FEW_LISTS):
        return ListColumn.make(TextColumn if kind == LISTS else CodedColumn, values)
    return TextColumn.make(values)


def is_of_kind(column: Column, kind: str) -> bool:
    """Return whether a column has values of a kind, and lacks none that has to be there."""
    if kind in DTYPES:
        return isinstance(column, NumberColumn) and column.to_numpy().dtype == DTYPES[kind]
    if kind in CHILDREN:
        return isinstance(column, ListColumn) and is_of_kind(column.child, CHILDREN[kind])
    if kind == FEW_TEXTS:
        return isinstance(column, CodedColumn) and column.values.is_whole
    return isinstance(column, TextColumn) and (kind == OPTIONAL_TEXT or column.is_whole)


def make_table(schema: Schema, columns: dict[str, Any] | None = None) -> Table:
    """Make a table of columns of Python's values; an empty one without."""
    return Table({name: make_column(kind, columns[name] if columns else ()) for name, kind in schema.items()})
