"""Find the files of a release in Rich Release Format and read them as tables."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import polars as pl

from ...errors import Errors, Warnings
from ...types import OnMalformed
from ..readers.malformed import MalformedLog
from .columns import COLUMNS
from .lines import RrfLines

# A whole file, or one of the parts of a file in a full release: MRCONSO.RRF.aa.gz, MRCONSO.RRF.ab.gz, ...
_PART = re.compile(r"\.RRF(?P<part>\.(?!gz$)[a-z]{2})?(?P<packed>\.gz)?$")


class RrfFolder:
    """A folder with the files of one release."""

    def __init__(self, path: str | Path, *, errors: OnMalformed = "raise") -> None:
        """Find the files and read their columns from MRFILES.

        path (str | Path): The folder with MRCONSO.RRF, or its parent if it is called META.
        errors (OnMalformed): Whether to "raise" an error for a malformed line, or to "skip" and count it.
        RAISES (FileNotFoundError): If there is no MRCONSO.
        RAISES (ValueError): If the folder has several forms of a file, or lacks a file that MRFILES lists.
        """
        self.path = Path(path)
        self.errors = errors
        self.read: dict[str, int] = {}
        self.repaired: Counter[str] = Counter()
        self.malformed_count = 0
        self.malformed_examples: list[str] = []
        self._described: list[dict[str, Any]] = []
        self._formats: dict[str, tuple[list[str], int | None]] = {}
        if not find_parts(self.path, "MRCONSO") and find_parts(self.path / "META", "MRCONSO"):
            self.path = self.path / "META"
        if not find_parts(self.path, "MRCONSO"):
            raise FileNotFoundError(Errors.E120.format(folder=self.path, cwd=Path.cwd()))
        self._formats = self._read_formats()
        self._check_present()

    def __contains__(self, name: str) -> bool:
        return bool(find_parts(self.path, name))

    def tables(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read a file in blocks.

        name (str): The file without its ending, such as "MRCONSO".
        columns (Sequence[str]): The columns to read.
        YIELDS (pl.DataFrame): The next lines; all columns are strings without nulls.
        RAISES (ValueError): If a column is missing, the file is damaged, or a line is malformed and `errors` is
            "raise".
        """
        header, rows = self._formats.get(name, (COLUMNS[name].split(), None))
        parts = find_parts(self.path, name)
        missing = [column for column in columns if column not in header]
        if missing:
            raise ValueError(Errors.E121.format(file=parts[0], column=missing[0], found=", ".join(header)))
        malformed = MalformedLog(parts[0], self.errors)
        lines = RrfLines(parts, len(header), malformed)
        is_empty = True
        for block in lines.blocks():
            is_empty = False
            yield parse_block(block.data, header, columns)
        if is_empty and malformed.count:
            found = f"has no well-formed line ({malformed.count} malformed ones, the first is {malformed.examples[0]})"
            raise ValueError(Errors.E103.format(file=parts[0], found=found))
        if is_empty:
            yield pl.DataFrame(schema={column: pl.String() for column in columns})
        self._account(name, lines, rows)

    def table(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Read a file as a whole.

        name (str): The file without its ending.
        columns (Sequence[str]): The columns to read.
        RETURNS (pl.DataFrame): All lines; none if the file is missing.
        RAISES (ValueError): If a column is missing, the file is damaged, or a line is malformed and `errors` is
            "raise".
        """
        if name not in self:
            return pl.DataFrame(schema={column: pl.String() for column in columns})
        return pl.concat(self.tables(name, columns))

    def describe(self) -> list[dict[str, Any]]:
        """Describe the files read so far.

        RETURNS (list[dict[str, Any]]): Name and SHA-256 of each.
        """
        return sorted(self._described, key=lambda file: file["name"])

    def _read_formats(self) -> dict[str, tuple[list[str], int | None]]:
        """Read from MRFILES the columns and the number of rows of each file."""
        formats = {}
        # MRFILES itself has the standard columns.
        for name, columns, rows in self.table("MRFILES", ("FIL", "FMT", "RWS")).iter_rows():
            formats[Path(name).stem] = columns.split(","), int(rows) if rows.isdigit() else None
        return formats

    def _check_present(self) -> None:
        """Refuse a folder that lacks a file with rows according to MRFILES, if the file would be read."""
        for name in ("MRSTY", "MRDEF", "MRREL", "MRSAB"):
            _, rows = self._formats.get(name, ([], None))
            if rows and name not in self:
                if self.errors == "raise":
                    raise ValueError(Errors.E129.format(folder=self.path, file=name, rows=rows))
                warnings.warn(Warnings.W105.format(folder=self.path, file=name, rows=rows), UserWarning, stacklevel=3)

    def _account(self, name: str, lines: RrfLines, expected: int | None) -> None:
        """Record the counts of a file that was read to its end, and compare its length with MRFILES."""
        self.read[name] = lines.rows
        self._described += lines.describe()
        self.repaired.update(lines.repaired)
        self.malformed_count += lines.malformed.count
        self.malformed_examples += lines.malformed.examples
        lines.malformed.warn(stacklevel=4)
        if expected is not None and expected != lines.rows:
            if self.errors == "raise":
                raise ValueError(Errors.E122.format(file=lines.paths[0], found=lines.rows, expected=expected))
            message = Warnings.W103.format(file=lines.paths[0], found=lines.rows, expected=expected)
            warnings.warn(message, UserWarning, stacklevel=4)


def find_parts(folder: Path, name: str) -> list[Path]:
    """Find a file of a release.

    folder (Path): The folder.
    name (str): The file without its ending, such as "MRCONSO".
    RETURNS (list[Path]): The file, or its parts in order; empty if there is none.
    RAISES (ValueError): If the folder has several forms of the file (whole, in parts, packed), or lacks a part.
    """
    if not folder.is_dir():
        return []
    found = [path for path in sorted(folder.glob(f"{name}.RRF*")) if _PART.search(path.name)]
    kinds = {(bool(match["part"]), match["packed"]) for path in found if (match := _PART.search(path.name))}
    if len(kinds) > 1:
        raise ValueError(Errors.E123.format(folder=folder, files=", ".join(path.name for path in found)))
    parts = [match["part"][1:] for path in found if (match := _PART.search(path.name)) and match["part"]]
    if parts != [first + second for first in ascii_lowercase for second in ascii_lowercase][: len(parts)]:
        raise ValueError(Errors.E119.format(folder=folder, files=", ".join(path.name for path in found)))
    return found


def parse_block(data: bytes, header: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """Parse lines with the right number of fields.

    data (bytes): The lines.
    header (Sequence[str]): The names of all columns.
    columns (Sequence[str]): The columns to keep.
    RETURNS (pl.DataFrame): These columns, in this order, as strings.
    """
    wanted = sorted(header.index(column) for column in columns)
    frame = pl.read_csv(
        data, separator="|", has_header=False, quote_char=None, columns=wanted, infer_schema=False, raise_if_empty=True
    )
    frame.columns = [header[position] for position in wanted]
    return frame.select(pl.col(column).fill_null("") for column in columns)
