"""Read names from a table with one name per row, and synonyms in a column of their own if it has one."""

import csv
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field, field_validator

from ...settings import OnMalformed, Settings, Strings
from ...text import normalize_name
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import MalformedLog, SourceFile, finish, invalid_utf8, make_factory, takes_settings

COLUMNS = tuple("id name synonyms canonical_name types definition language source term_type preferred".split())
# The columns of Athena's CONCEPT.csv, which are read where the settings name no others.
ATHENA = {"id": "concept_id", "name": "concept_name", "types": "domain_id", "source": "vocabulary_id"}
ATHENA |= {"term_type": "concept_class_id", "code": "concept_code", "invalid": "invalid_reason"}
# What stands for no reason to be invalid, in Athena's files and in exports of databases.
VALID = ("", "NULL", "\\N")
# Spreadsheets write a semicolon where the comma is the decimal point.
DELIMITERS = ("\t", ",", ";")
# What columns of synonyms are called. The number of first rows to look at, and the share of lists in a column of lists.
SYNONYMS = re.compile(r"synonym|alias|\baka\b|also.?known|\b(alt|other).*(name|label|term)", re.IGNORECASE)
SAMPLE, LIST_SHARE = 1000, 0.1
_TRUE = frozenset(("1", "t", "true", "y", "yes"))
_FALSE = frozenset(("", "0", "f", "false", "n", "no"))


class TableSettings(Settings):
    """Settings of the reader of tables."""

    id_column: str = Field(default="id", description="The column of concept ids.")
    name_column: str = Field(default="name", description="The column of names.")
    synonyms_column: str | None = Field(
        default=None, description="The column of further names, with `list_separator` between several."
    )
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
    list_separator: str = Field(default="|", min_length=1, description="The separator of several synonyms or types.")
    delimiter: str | None = Field(
        default=None, description="By default the tab, comma or semicolon that separates the columns of the header."
    )
    header: Strings | None = Field(default=None, description="The names of the columns, if the file has no header.")
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
    delimiters and line ends. Athena's CONCEPT.csv needs no settings; its concepts that are no longer valid are dropped.

    path (str | Path): The file, gzipped or not.
    settings (TableSettings): Given as keyword arguments: `read_table(path, id_column="cui")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file lacks a column of the settings, a row is malformed and `errors` is "raise", or the
        file has no row.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(path)
    malformed = MalformedLog(file.path, settings.errors)
    delimiter = settings.delimiter or find_delimiter(file.path, settings)
    builder = TerminologyBuilder()
    n_rows = n_invalid = 0
    sample: list[list[str]] = []
    rows = _rows(file, delimiter, malformed)
    header = list(settings.header or ())
    if not header and (first := next(rows, None)):
        header = [field.strip() for field in first[1]]
        if reason := invalid_utf8(" ".join(header)):
            raise ValueError(f"{file.path}, line {first[0]}: {reason}. Save the file as text in UTF-8.")
    positions = _find_columns(file.path, settings, header, delimiter) if header else {}
    for number, fields in rows:
        n_rows += 1
        try:
            n_invalid += not _add(builder, fields, positions, header, settings.list_separator)
        except ValueError as error:
            malformed.add(number, error)
            continue
        if len(sample) < SAMPLE:
            sample.append(fields)
    _warn_of_lists(file.path, header, positions, settings.list_separator, sample)
    return finish(builder, file, malformed, read={"rows": n_rows}, dropped={"invalid_concepts": n_invalid})


make_table_reader = make_factory("make_table_reader", read_table, TableSettings)


def _add(
    builder: TerminologyBuilder, fields: list[str], positions: dict[str, int], header: list[str], separator: str
) -> bool:
    """Add one row, or raise a ValueError with the reason why it is malformed. Return whether its concept is valid."""
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} fields were found, but there are {len(header)} columns")
    if reason := next(filter(None, map(invalid_utf8, fields)), None):
        raise ValueError(reason)
    row = {what: fields[position].strip() for what, position in positions.items()}
    if not normalize_name(row["name"]):
        raise ValueError(f"the name of '{row['id']}' is empty")
    synonyms = [part.strip() for part in row["synonyms"].split(separator)] if row.get("synonyms") else []
    if "\n" in row["name"] or "\n" in row["id"] or (synonyms and any("\n" in part for part in synonyms)):
        raise ValueError(f"the name of '{row['id']:.40}' runs over several lines, so a quote is probably not closed")
    if row["id"] == header[positions["id"]] and row["name"] == header[positions["name"]]:
        raise ValueError("the row repeats the header")
    flag = row.get("preferred", "").lower()
    if flag not in _FALSE and flag not in _TRUE:
        raise ValueError(f"{row['preferred']!r} does not say whether the name is preferred (use 1 or 0)")
    if row.get("invalid", "") not in VALID:
        return False
    builder.add_concept(
        row["id"],
        canonical_name=row.get("canonical_name"),
        types=[part.strip() for part in row["types"].split(separator)] if row.get("types") else (),
        definition=row.get("definition"),
        codes=[f"{row['source']}:{row['code']}"] if row.get("code") else (),
    )
    language, source, term_type = row.get("language") or "ENG", row.get("source", ""), row.get("term_type", "")
    preferred = flag in _TRUE
    builder.add_name(row["id"], row["name"], language=language, source=source, term_type=term_type, preferred=preferred)
    for synonym in filter(None, synonyms):
        builder.add_name(row["id"], synonym, language=language, source=source)
    return True


def _rows(file: SourceFile, delimiter: str, malformed: MalformedLog) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the rows with the numbers of their first lines, skipping empty lines."""
    if delimiter == "\t":
        yield from ((number, text.split("\t")) for number, text in file.lines() if text)
        return
    rows = csv.reader((text for _, text in file.lines(keep_ends=True)), delimiter=delimiter, strict=True)
    while True:
        start = rows.line_num + 1
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            malformed.add(start, f"{error} (the row ends on line {rows.line_num})")
            continue
        if fields:
            yield start, fields


def find_delimiter(path: Path, settings: TableSettings) -> str:
    """Find the delimiter that gives the first line the wanted columns, or as many as the header of the settings has."""
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{path} is a workbook. Save its sheet as CSV in UTF-8.")
    line = next((text for _, text in SourceFile(path).lines() if text), "")
    wanted = {settings.id_column, settings.name_column, ATHENA["id"], ATHENA["name"]}

    def fit(delimiter: str) -> tuple[int, int]:
        found = [field.strip().strip('"') for field in line.split(delimiter)]
        if settings.header:
            return len(found) == len(settings.header), delimiter == "," and ".csv" in path.suffixes
        return len(wanted.intersection(found)), len(found)

    return max(DELIMITERS, key=fit)


def _find_columns(path: Path, settings: TableSettings, found: Sequence[str], delimiter: str) -> dict[str, int]:
    positions = {}
    is_athena = set(ATHENA.values()) <= set(found)
    for what in (*COLUMNS, "code", "invalid"):
        field = TableSettings.model_fields.get(f"{what}_column")
        column = field and getattr(settings, f"{what}_column")
        # Configs give defaults too.
        if is_athena and what in ATHENA and (field is None or column == field.default):
            column = ATHENA[what]
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


def _warn_of_lists(
    path: Path, header: list[str], positions: dict[str, int], separator: str, sample: list[list[str]]
) -> None:
    """Warn of columns that look like synonyms and are not read, and of synonyms that another character separates."""

    def has_lists(position: int, *separators: str) -> bool:
        cells = [row[position] for row in sample if row[position].strip()]
        return sum(any(one in cell for one in separators) for cell in cells) > LIST_SHARE * len(cells)

    unread = set(range(len(header))).difference(positions.values())
    filled = {position for position in unread if any(row[position].strip() for row in sample)}
    odd = sorted(at for at in filled if SYNONYMS.search(header[at]) or has_lists(at, separator))
    if odd:
        columns = ", ".join(repr(header[position]) for position in odd)
        warnings.warn(
            f"{path} has columns that look like lists of names or types, but are not read: {columns}. Set "
            f"synonyms_column (or types_column) to read one, and list_separator if it is not {separator!r}.",
            stacklevel=4,
        )
    own = positions.get("synonyms")
    if own is not None and has_lists(own, "|", ";") and not any(separator in row[own] for row in sample):
        warnings.warn(
            f"{path}: the synonyms in {header[own]!r} do not have {separator!r} between them, but another character, "
            f"as in {next(row[own] for row in sample if re.search('[|;]', row[own]))!r:.80}. Set list_separator to it.",
            stacklevel=4,
        )
