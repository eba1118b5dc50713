"""Read names from a table with one name per row, tab- or comma-separated."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field, field_validator

from ...settings import OnMalformed, Settings
from ...text import normalize_name
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import MalformedLog, SourceFile, Texts, finish, invalid_utf8, make_factory, takes_settings

COLUMNS = ("id", "name", "canonical_name", "types", "definition", "language", "source", "term_type", "preferred")
_DELIMITERS = {".tsv": "\t", ".csv": ","}
_TRUE = frozenset(("1", "t", "true", "y", "yes"))
_FALSE = frozenset(("", "0", "f", "false", "n", "no"))


class TableSettings(Settings):
    """Settings of the reader of tables."""

    id_column: str = Field(default="id", description="The column of concept ids.")
    name_column: str = Field(default="name", description="The column of names.")
    canonical_name_column: str | None = Field(
        default=None, description="The column of canonical names, which are found only if a row has them as names."
    )
    types_column: str | None = Field(default=None, description="The column of semantic types.")
    definition_column: str | None = Field(default=None, description="The column of definitions.")
    language_column: str | None = Field(default=None, description='The column of languages; "ENG" where it is empty.')
    source_column: str | None = Field(default=None, description="The column of source vocabularies.")
    term_type_column: str | None = Field(default=None, description="The column of term types.")
    preferred_column: str | None = Field(
        default=None, description="The column of flags of preferred names: 1/0, yes/no."
    )
    list_separator: str = Field(default="|", min_length=1, description="The separator of several semantic types.")
    delimiter: str | None = Field(default=None, description="By default a tab for .tsv and a comma for .csv.")
    header: Texts | None = Field(default=None, description="The names of the columns, if the file has no header.")
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed row, or "skip" and count it.')

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError("one character other than a double quote and a line end")
        return delimiter


@takes_settings(TableSettings)
def read_table(path: Path, settings: TableSettings) -> Terminology:
    """Read a table with one name per row. The rows of a concept may be anywhere in the table.

    A tab-separated file has no quoting: every tab separates fields. In other files, fields in double quotes may contain
    delimiters and line ends.

    path (str | Path): The file, gzipped or not.
    settings (TableSettings): Given as keyword arguments: `read_table(path, id_column="cui")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file lacks a column of the settings, a row is malformed and `errors` is "raise", or the
        file has no row.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(path)
    malformed = MalformedLog(file.path, settings.errors)
    delimiter = settings.delimiter or _find_delimiter(file.path)
    builder = TerminologyBuilder()
    n_rows = 0
    rows = _rows(file, delimiter, malformed)
    header = None if settings.header is None else list(settings.header)
    if header is None and (first := next(rows, None)):
        header = [field.strip() for field in first[1]]
    positions = {} if header is None else _find_columns(file.path, settings, header, delimiter)
    for number, fields in rows:
        n_rows += 1
        try:
            _add(builder, fields, positions, len(header or ()), settings.list_separator)
        except ValueError as error:
            malformed.add(number, error)
    return finish(builder, file, malformed, read={"rows": n_rows})


make_table_reader = make_factory("make_table_reader", read_table, TableSettings)


def _add(builder: TerminologyBuilder, fields: list[str], positions: dict[str, int], width: int, separator: str) -> None:
    """Add one row, or raise a ValueError with the reason why it is malformed."""
    if len(fields) != width:
        raise ValueError(f"{len(fields)} fields were found, but there are {width} columns")
    if reason := next(filter(None, map(invalid_utf8, fields)), None):
        raise ValueError(reason)
    row = {what: fields[position].strip() for what, position in positions.items()}
    if not normalize_name(row["name"]):
        raise ValueError(f"the name of '{row['id']}' is empty")
    if "\n" in row["name"] or "\n" in row["id"]:
        raise ValueError(f"the name of '{row['id']:.40}' runs over several lines, so a quote is probably not closed")
    flag = row.get("preferred", "").lower()
    if flag not in _TRUE | _FALSE:
        raise ValueError(f"{row['preferred']!r} does not say whether the name is preferred (use 1 or 0)")
    builder.add_concept(
        row["id"],
        canonical_name=row.get("canonical_name"),
        types=[part.strip() for part in row.get("types", "").split(separator)],
        definition=row.get("definition"),
    )
    builder.add_name(
        row["id"],
        row["name"],
        language=row.get("language") or "ENG",
        source=row.get("source", ""),
        term_type=row.get("term_type", ""),
        preferred=flag in _TRUE,
    )


def _rows(file: SourceFile, delimiter: str, malformed: MalformedLog) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the rows with the numbers of their first lines, skipping empty lines."""
    if delimiter == "\t":
        yield from ((number, text.split("\t")) for number, text in file.lines() if text)
        return
    last = 0

    def feed() -> Iterator[str]:
        nonlocal last
        for number, text in file.lines(keep_ends=True):
            last = number
            yield text

    rows = csv.reader(feed(), delimiter=delimiter, strict=True)
    while True:
        start = last + 1
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            malformed.add(start, f"{error} (the row ends on line {last})")
            continue
        if fields:
            yield start, fields


def _find_delimiter(path: Path) -> str:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in _DELIMITERS:
        raise ValueError(
            f"Can't tell the delimiter of {path}: its name ends neither in .tsv nor in .csv. Set `delimiter` to the "
            "character between its columns."
        )
    return _DELIMITERS[suffix.lower()]


def _find_columns(path: Path, settings: TableSettings, found: Sequence[str], delimiter: str) -> dict[str, int]:
    positions = {}
    for what in COLUMNS:
        column = getattr(settings, f"{what}_column")
        if column is None:
            continue
        if column not in found:
            raise ValueError(
                f"{path} has no column '{column}', which the setting {what}_column names. Its columns are: "
                f"{', '.join(map(repr, found))}. Correct the setting, the delimiter ({delimiter!r}), or give `header` "
                "if the file has none."
            )
        if found.count(column) > 1:
            raise ValueError(
                f"{path}: the header names the column '{column}' {found.count(column)} times. Rename one, or give "
                "`header` to name the columns yourself."
            )
        positions[what] = found.index(column)
    return positions
