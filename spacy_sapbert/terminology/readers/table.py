"""Read names from a table with one name per row, and synonyms in a column of their own if it has one."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, field_validator

from ...errors import warn
from ...settings import OnMalformed, Settings, Strings
from ...text import normalize_name
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import SourceFile, finish, invalid_utf8, make_factory, takes_settings
from .text_table import WRONG_ENCODING, TextTable

COLUMNS = tuple("id name synonyms canonical_name types definition language source term_type preferred".split())
# The columns of Athena's CONCEPT.csv, which are read where the settings name no others.
ATHENA = {"id": "concept_id", "name": "concept_name", "types": "domain_id", "source": "vocabulary_id"}
ATHENA |= {"term_type": "concept_class_id", "code": "concept_code", "invalid": "invalid_reason"}
# What stands for no reason to be invalid, in Athena's files and in exports of databases.
VALID = ("", "NULL", "\\N")
# What joins several names in a cell, or several types.
LIST_SEPARATOR = "|"
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
    name_separator: str | None = Field(
        default=LIST_SEPARATOR,
        min_length=1,
        description="The separator of several names in the column of names; null if all are single ones. A name is not "
        'divided beside a space, in brackets, or where a part has no letter: "glucose | serum", "P(A|B)", "A*01|02".',
    )
    list_separator: str = Field(
        default=LIST_SEPARATOR, min_length=1, description="The separator of several synonyms or types."
    )
    delimiter: str | None = Field(
        default=None,
        description='By default the tab, comma, semicolon or "|" that separates the columns of the header.',
    )
    skip_lines: int = Field(default=0, ge=0, description="How many lines above the header are left out.")
    encoding: str | None = Field(
        default=None,
        description='By default UTF-8, or UTF-16 with a byte order mark. Others by Python\'s names, such as "cp1252".',
    )
    header: Strings | None = Field(default=None, description="The names of the columns, if the file has no header.")
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed row, or "skip" and count it.')

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError("one character other than a double quote and a line end")
        return delimiter

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str | None) -> str | None:
        try:
            "a".encode(encoding or "utf8")
        except LookupError as error:
            raise ValueError('the name of an encoding, such as "cp1252"') from error
        return encoding


@takes_settings(TableSettings)
def read_table(path: Path, settings: TableSettings) -> Terminology:
    """Read a table with one name per row. The rows of a concept may be anywhere in the table.

    A tab-separated file has no quoting: every tab separates fields. In other files, fields in double quotes may contain
    delimiters and line ends. Athena's CONCEPT.csv needs no settings; its concepts that are no longer valid are dropped.
    `read_athena` reads the folder that it lies in, with synonyms, parents and retired ids.

    path (str | Path): The file, gzipped or not.
    settings (TableSettings): Given as keyword arguments: `read_table(path, id_column="cui")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file lacks a column of the settings, a row is malformed and `errors` is "raise", or the
        file has no row.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(path, settings.errors, encoding=settings.encoding)
    wanted = {settings.id_column, settings.name_column, ATHENA["id"], ATHENA["name"]}
    table = TextTable(
        file,
        wanted,
        delimiter=settings.delimiter,
        n_columns=len(settings.header or ()),
        skip_lines=settings.skip_lines,
    )
    builder = TerminologyBuilder()
    read = Counter(rows=0)
    counts = Counter(invalid_concepts=0, divided_names=0)
    sample: list[list[str]] = []
    rows = table.rows(file.refuse, has_quotes=table.delimiter != "\t")
    header = list(settings.header or ())
    if not header and (first := next(rows, None)):
        header = [field.strip() for field in first[1]]
        if reason := invalid_utf8(" ".join(header)):
            raise ValueError(f"{file.path}, line {first[0]}: {reason}, so {WRONG_ENCODING}.")
    positions = _find_columns(table, settings, header) if header else {}
    for number, fields in rows:
        read["rows"] += 1
        try:
            _add(builder, fields, positions, header, settings, counts)
        except ValueError as error:
            file.refuse(number, error)
            continue
        if len(sample) < SAMPLE:
            sample.append(fields)
    _warn_of_lists(file.path, header, positions, settings.list_separator, sample)
    divided_names = counts.pop("divided_names")
    return finish(builder, file, read=read, dropped=counts, divided_names=divided_names)


make_table_reader = make_factory("make_table_reader", read_table, TableSettings)


def _add(
    builder: TerminologyBuilder,
    fields: list[str],
    positions: dict[str, int],
    header: list[str],
    settings: TableSettings,
    counts: Counter[str],
) -> None:
    """Add one row if its concept is valid, or raise a ValueError with the reason why the row is malformed."""
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} fields were found, but there are {len(header)} columns")
    if reason := next(filter(None, map(invalid_utf8, fields)), None):
        raise ValueError(f"{reason}, so {WRONG_ENCODING}")
    row = {what: fields[position].strip() for what, position in positions.items()}
    if not normalize_name(row["name"]):
        raise ValueError(f"the name of '{row['id']}' is empty")
    separator = settings.list_separator
    synonyms = [part.strip() for part in row["synonyms"].split(separator)] if row.get("synonyms") else []
    if "\n" in row["name"] or "\n" in row["id"] or (synonyms and any("\n" in part for part in synonyms)):
        raise ValueError(f"the name of '{row['id']:.40}' runs over several lines, so a quote is probably not closed")
    if row["id"] == header[positions["id"]] and row["name"] == header[positions["name"]]:
        raise ValueError("the row repeats the header")
    flag = row.get("preferred", "").lower()
    if flag not in _FALSE and flag not in _TRUE:
        raise ValueError(f"{row['preferred']!r} does not say whether the name is preferred (use 1 or 0)")
    if row.get("invalid", "") not in VALID:
        counts["invalid_concepts"] += 1
        return
    builder.add_concept(
        row["id"],
        canonical_name=row.get("canonical_name"),
        types=[part.strip() for part in row["types"].split(separator)] if row.get("types") else (),
        definition=row.get("definition"),
        codes=[f"{row['source']}:{row['code']}"] if row.get("code") else (),
    )
    language, source, term_type = row.get("language") or "ENG", row.get("source", ""), row.get("term_type", "")
    preferred = flag in _TRUE
    name, *others = _split_names(row["name"], settings.name_separator)
    builder.add_name(row["id"], name, language=language, source=source, term_type=term_type, preferred=preferred)
    for synonym in filter(None, [*others, *synonyms]):
        builder.add_name(row["id"], synonym, language=language, source=source)
    counts["divided_names"] += bool(others)


def _split_names(text: str, separator: str | None) -> list[str]:
    """Split names that are joined in one cell, unless they are one name that has the separator."""
    parts = text.split(separator) if separator else [text]
    are_names = all(
        part == part.strip() and any(map(str.isalpha, part)) and part.count("(") == part.count(")") for part in parts
    )
    return parts if are_names else [text]


def _find_columns(table: TextTable, settings: TableSettings, found: Sequence[str]) -> dict[str, int]:
    positions, path = {}, table.path
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
                f"{', '.join(map(repr, found))}. Correct the setting, the delimiter ({table.delimiter!r}), or give "
                f"`header` if the file has none.{table.advice}"
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
        warn(
            f"{path} has columns that look like lists of names or types, but are not read: {columns}. Set "
            f"synonyms_column (or types_column) to read one, and list_separator if it is not {separator!r}.",
        )
    own = positions.get("synonyms")
    if own is not None and has_lists(own, LIST_SEPARATOR, ";") and not any(separator in row[own] for row in sample):
        warn(
            f"{path}: the synonyms in {header[own]!r} do not have {separator!r} between them, but another character, "
            f"as in {next(row[own] for row in sample if re.search('[|;]', row[own]))!r:.80}. Set list_separator to it.",
        )
