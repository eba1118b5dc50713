"""Columns and lines of Rich Release Format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl


def append(path: Path, table: pl.DataFrame) -> None:
    """Write rows behind those that a file has.

    path (Path): The file.
    table (DataFrame): The rows, all strings.
    """
    # A column without content makes the `|` at the end of each line.
    ends = table.with_columns(end=pl.lit(None, dtype=pl.String))
    with path.open("ab") as file:
        ends.write_csv(file, include_header=False, separator="|", quote_style="never", line_terminator="\n")


def format_cui(concept: np.ndarray) -> pl.Series:
    """Write CUIs.

    concept (ndarray): The numbers of the concepts, from 0 on.
    RETURNS (Series): "C" and seven digits, in the same order.
    """
    return format_number(pl.Series(concept + 1), "C", 7)


def format_aui(atom: np.ndarray) -> pl.Series:
    """Write AUIs.

    atom (ndarray): The numbers of the atoms, from 0 on.
    RETURNS (Series): "A" and eight digits.
    """
    return format_number(pl.Series(atom + 1), "A", 8)


def format_number(numbers: pl.Series | np.ndarray, prefix: str = "", digits: int = 7) -> pl.Series:
    """Write numbers.

    numbers (Series | ndarray): The numbers.
    prefix (str): What stands before each.
    digits (int): Digits, filled up with zeros.
    RETURNS (Series): Prefix and digits.
    """
    written = pl.Series("number", numbers).cast(pl.String).str.zfill(digits)
    return pl.select(pl.lit(prefix) + written).to_series() if prefix else written


def choose(mask: np.ndarray, yes: str | pl.Series, no: str) -> pl.Series:
    """Choose between two values in each row.

    mask (ndarray): Where the first one stands.
    yes (str | Series): The first one.
    no (str): The other one.
    RETURNS (Series): The values.
    """
    yes = pl.lit(yes) if isinstance(yes, str) else yes
    return pl.select(pl.when(pl.Series(mask)).then(yes).otherwise(pl.lit(no))).to_series()
