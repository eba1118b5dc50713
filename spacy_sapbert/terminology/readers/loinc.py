"""Read LOINC, from its table Loinc.csv or LoincTableCore.csv."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from ...errors import warn
from ...settings import OnMalformed, Settings, Strings
from ..builder import TerminologyBuilder, check_any
from ..licences import Source
from ..table import Terminology
from .lines import SourceFile, check_values, invalid_utf8, make_factory, report_files, takes_settings
from .text_table import TextTable

# The tables of a release. The first one has ranks, and names that the second one lacks.
TABLES = ("loinc.csv", "loinctablecore.csv")
MAP_FILE = "MapTo.csv"
# The parts of a fully specified name, in their order. The method may be empty.
PARTS = ("COMPONENT", "PROPERTY", "TIME_ASPCT", "SYSTEM", "SCALE_TYP", "METHOD_TYP")
NEEDED = ("LOINC_NUM", *PARTS, "CLASS", "CLASSTYPE", "LONG_COMMON_NAME", "STATUS")
FILLED = (*(part for part in PARTS if part != "METHOD_TYP"), "LONG_COMMON_NAME")
# The term types of names, as UMLS has them. Many codes share a consumer name.
TERM_TYPES = {"SHORTNAME": "OSN", "DisplayName": "DN", "CONSUMER_NAME": "BROAD consumer name"}
FULLY_SPECIFIED = "LN"
LONG_NAME = "LC"
RELATED_NAME = "RELATED"
CURRENT = ("ACTIVE", "TRIAL")
RETIRED = ("DEPRECATED", "DISCOURAGED")
CLASS_TYPES = {"1": "laboratory", "2": "clinical", "3": "claims attachments", "4": "surveys"}
CODE = re.compile(r"([0-9]{1,7})-([0-9])")
# UMLS calls the source so.
SOURCE = "LNC"
LICENCE = "https://loinc.org/license"
AS_RELEASED = "Another program has probably changed the file. Take it as it was released."


class LoincSettings(Settings):
    """Settings of the reader of LOINC."""

    class_types: Strings | None = Field(
        default=None,
        description='The kinds of codes to keep, as in CLASSTYPE: "1" laboratory, "2" clinical, "3" claims '
        'attachments, "4" surveys; null for all.',
    )
    related_names: bool = Field(
        default=False,
        description="Whether to read RELATEDNAMES2 as well, as RELATED synonyms. Most are words for one part.",
    )
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed row, or "skip" and count it.')


@takes_settings(LoincSettings)
def read_loinc(path: Path, settings: LoincSettings) -> Terminology:
    """Read the codes of LOINC that are in use.

    The long common name is the preferred one. The fully specified name, its parts with colons between them, has the
    term type LN, with the rank behind it where the table has one: "LN 12". Deprecated and discouraged codes are
    retired. MapTo.csv, beside the table, says what took their place.

    path (str | Path): Loinc.csv or LoincTableCore.csv, gzipped or not; or the folder of a release.
    settings (LoincSettings): Given as keyword arguments: `read_loinc(path, class_types=["1"])`.
    RETURNS (Terminology): The terminology. Its report has the number of codes with a copyright of others.
    RAISES (FileNotFoundError): If the file does not exist, or the folder has no table.
    RAISES (ValueError): If the table lacks a column, a row is malformed and `errors` is "raise", or the folder has
        several releases.
    """
    file = SourceFile(_find_table(path), settings.errors)
    files = [file]
    builder = TerminologyBuilder()
    lines = dict[str, int]()
    dropped = Counter(class_type=0)
    read = Counter[str]()
    versions = set[str]()
    retired = dict[str, str]()
    class_types = dict[str, None]()
    n_notices = 0
    for line, row in _read_rows(file, NEEDED):
        read["rows"] += 1
        try:
            _check_row(row, lines)
        except ValueError as error:
            file.refuse(line, error)
            continue
        code = row["LOINC_NUM"]
        status = row["STATUS"]
        lines[code] = line
        versions.update(filter(None, (row.get("VersionLastChanged"), row.get("VersionFirstReleased"))))
        class_types[row["CLASSTYPE"]] = None
        if status in RETIRED:
            retired[code] = status
        elif settings.class_types is not None and row["CLASSTYPE"] not in settings.class_types:
            dropped["class_type"] += 1
        else:
            n_notices += bool(row.get("EXTERNAL_COPYRIGHT_NOTICE"))
            _add_code(builder, row, settings.related_names)
    file.warn()
    if settings.class_types is not None:
        check_values(file.path, "class type", settings.class_types, class_types, CLASS_TYPES)
    successors: dict[str, list[str]] = {}
    if retired:
        successors = _read_successors(file.path.with_name(MAP_FILE), settings.errors, files)
    for code, status in retired.items():
        builder.add_retired(code, replaced_by=successors.get(code, ()))
        dropped[f"{status.lower()}_codes"] += 1
    version = max(versions, key=_order_version, default="")
    licence = Source("LOINC", version, LICENCE, "ENG", 0)
    report = {**report_files(files, read, dropped), "source_version": version, "sources": {SOURCE: licence._asdict()}}
    terminology = builder.assemble({**report, "codes_with_copyright_notice": n_notices})
    return check_any(terminology)


make_loinc_reader = make_factory("make_loinc_reader", read_loinc, LoincSettings)


def compute_check_digit(number: str) -> str:
    """Compute the check digit of a LOINC code from the digits before the hyphen, by Luhn's algorithm."""
    total = 0
    for place, digit in enumerate(reversed(number)):
        value = int(digit) * (1 if place % 2 else 2)
        total += value // 10 + value % 10
    return str(-total % 10)


def _find_table(path: Path) -> Path:
    """Find the table in a folder, in folders below it too."""
    if not path.is_dir():
        return path
    tables = [file for file in sorted(path.rglob("*")) if file.is_file()]
    for name in TABLES:
        files = [file for file in tables if file.name.lower().removesuffix(".gz") == name]
        if len(files) > 1:
            listed = ", ".join(str(file.relative_to(path)) for file in files)
            raise ValueError(f"{path} has several tables: {listed}. Give the folder of one release, or the table.")
        if files:
            return files[0]
    raise FileNotFoundError(
        f"There is neither Loinc.csv nor LoincTableCore.csv in {path}. Unpack a release of LOINC and give its folder."
    )


def _read_rows(file: SourceFile, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows of a table as dicts. A row of another length is refused."""
    table = TextTable(file, needed)
    rows = table.rows(file.refuse, has_quotes=True)
    _, first = next(rows, (1, []))
    header = [column.strip() for column in first]
    if missing := [column for column in needed if column not in header]:
        raise ValueError(f"{file.path} has no column {missing[0]!r}, but {', '.join(header)!r:.200}. {AS_RELEASED}")
    for line, fields in rows:
        if len(fields) != len(header):
            file.refuse(line, f"{len(fields)} fields were found, but there are {len(header)} columns")
        elif reason := next(filter(None, map(invalid_utf8, fields)), None):
            file.refuse(line, reason)
        else:
            yield line, {column: field.strip() for column, field in zip(header, fields, strict=True)}


def _check_row(row: dict[str, str], lines: dict[str, int]) -> None:
    code = row["LOINC_NUM"]
    check_code(code)
    if code in lines:
        raise ValueError(f"the code {code} is on line {lines[code]} already")
    if row["STATUS"] not in (*CURRENT, *RETIRED):
        raise ValueError(f"the STATUS of {code} is {row['STATUS']!r}, but has to be of {', '.join(CURRENT + RETIRED)}")
    if empty := [column for column in FILLED if not row[column]]:
        raise ValueError(f"the {empty[0]} of {code} is empty")
    rank = row.get("COMMON_TEST_RANK", "")
    if rank and not (rank.isascii() and rank.isdigit()):
        raise ValueError(f"the COMMON_TEST_RANK of {code} is {rank!r}, but has to be a number")


def check_code(code: str) -> None:
    """Raise a ValueError if a text is no LOINC code."""
    match = CODE.fullmatch(code)
    if match is None:
        raise ValueError(f"{code!r:.40} is no LOINC code, which is a number, a hyphen and a digit")
    digit = compute_check_digit(match[1])
    if match[2] != digit:
        raise ValueError(f"{code!r} is no LOINC code: its check digit would be {digit}")


def _add_code(builder: TerminologyBuilder, row: dict[str, str], has_related: bool) -> None:
    code = row["LOINC_NUM"]
    long_name = row["LONG_COMMON_NAME"]
    builder.add_concept(
        code,
        canonical_name=long_name,
        types=[row["CLASS"]] if row["CLASS"] else (),
        definition=row.get("DefinitionDescription"),
        codes=[f"{SOURCE}:{code}"],
    )
    # 0 says that a code is not among the common ones.
    rank = int(row.get("COMMON_TEST_RANK") or 0)
    parts = ":".join(row[part] for part in PARTS).removesuffix(":")
    builder.add_name(code, long_name, source=SOURCE, term_type=LONG_NAME, preferred=True)
    builder.add_name(code, parts, source=SOURCE, term_type=f"{FULLY_SPECIFIED} {rank}" if rank else FULLY_SPECIFIED)
    for column, term_type in TERM_TYPES.items():
        if name := row.get(column):
            builder.add_name(code, name, source=SOURCE, term_type=term_type)
    for name in row.get("RELATEDNAMES2", "").split(";") if has_related else ():
        if name.strip():
            builder.add_name(code, name, source=SOURCE, term_type=RELATED_NAME)


def _read_successors(path: Path, errors: OnMalformed, files: list[SourceFile]) -> dict[str, list[str]]:
    """Read what took the place of retired codes. The file is added to the files."""
    if not path.is_file():
        warn(f"There is no {path}, so the terminology is without successors of retired codes. Copy the file there.")
        return {}
    file = SourceFile(path, errors)
    files.append(file)
    successors: dict[str, list[str]] = {}
    for line, row in _read_rows(file, ("LOINC", "MAP_TO")):
        code = row["LOINC"]
        successor = row["MAP_TO"]
        try:
            check_code(code)
            check_code(successor)
        except ValueError as error:
            file.refuse(line, error)
            continue
        if successor not in successors.setdefault(code, []):
            successors[code].append(successor)
    file.warn()
    return successors


def _order_version(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
