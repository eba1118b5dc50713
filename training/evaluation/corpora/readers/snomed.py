"""The names of SNOMED CT: the snapshot of a release in Release Format 2 (RF2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spacy_sapbert.exchange.fields import plain_text

from ....errors import Errors
from .inputs import InputFile
from .parts import match_files
from .records import CorpusParts
from .report import ReadingReport
from .vocabulary import DICTIONARY

SNAPSHOT = (
    r"(?:.*/)?(?P<table>sct2_Concept_Snapshot|sct2_Description_Snapshot|der2_cRefset_LanguageSnapshot)"
    r"(?:-(?P<language>[a-z-]+))?_(?P<edition>[a-z]{2,3}\d*)_(?P<date>\d{8})\.txt"
)
CONCEPTS, DESCRIPTIONS, LANGUAGES = (
    "sct2_Concept_Snapshot",
    "sct2_Description_Snapshot",
    "der2_cRefset_LanguageSnapshot",
)
COMMON = ("id", "effectiveTime", "active", "moduleId")
COLUMNS = {
    CONCEPTS: (*COMMON, "definitionStatusId"),
    DESCRIPTIONS: (*COMMON, "conceptId", "languageCode", "typeId", "term", "caseSignificanceId"),
    LANGUAGES: (*COMMON, "refsetId", "referencedComponentId", "acceptabilityId"),
}
FORM = "a header with the columns {columns}, then as many fields with tabs between them"
FULLY_SPECIFIED, SYNONYM = "900000000000003001", "900000000000013009"
ENGLISH = "en"
US_ENGLISH, GB_ENGLISH = "900000000000509007", "900000000000508004"
# The modules of the International edition: its core, and the model of its own concepts.
INTERNATIONAL, MODULES = "INT", ("900000000000207008", "900000000000012004")
REFSETS = {US_ENGLISH: "US English", GB_ENGLISH: "GB English"}

Row = dict[str, str]


@dataclass(frozen=True)
class SnomedSnapshot:
    """The files of one release.

    edition (str): The edition, such as "INT".
    date (str): The date of the release, such as "20190731".
    files (dict[str, list[InputFile]]): The files of each table.
    """

    edition: str
    date: str
    files: dict[str, list[InputFile]] = field(default_factory=dict)


def read_snomed(files: list[InputFile], report: ReadingReport, *, refset: str = "") -> CorpusParts:
    """Read the active English descriptions of active concepts, of one release.

    files (list[InputFile]): The snapshots of concepts and of descriptions, under the names that they were published
        with; others, such as the full tables of a release package, are not read.
    report (ReadingReport): Gets what is left out, by reason.
    refset (str): A language reference set, of `REFSETS`: only the descriptions that it accepts are read, and its
        snapshot is needed. Empty for all.
    RETURNS (CorpusParts): A dictionary, sorted by concept, the fully specified name first, and its release.
    RAISES (ValueError): If a file is missing, or the files are not of one edition and release.
    """
    snapshot = _find_snapshot(files, report, [CONCEPTS, DESCRIPTIONS, *([LANGUAGES] if refset else [])])
    is_active = {row["id"]: row["active"] == "1" for _, row in _read_rows(snapshot, CONCEPTS, report)}
    accepted = _read_accepted(snapshot, refset, report) if refset else None
    found: list[tuple[int, bool, str]] = []
    for place, row in _read_rows(snapshot, DESCRIPTIONS, report):
        if row["conceptId"] not in is_active:
            _refuse_mixed(f"{place}: the concept {row['conceptId']} is not in the snapshot of concepts")
        reason = _find_reason(row, is_active, accepted)
        if reason:
            report.leave_out(reason, place)
        elif not (term := plain_text(row["term"]).strip()):
            report.refuse(place, "an empty name", _describe(DESCRIPTIONS))
        else:
            if snapshot.edition == INTERNATIONAL and row["moduleId"] not in MODULES:
                report.note_odd("names of a module that the International edition has not", place)
            found.append((int(row["conceptId"]), row["typeId"] != FULLY_SPECIFIED, term))
    # The sort keeps the order of the file among equals.
    found.sort(key=lambda name: name[:2])
    rows = list(dict.fromkeys((str(concept), term) for concept, _, term in found))
    if len(rows) < len(found):
        report.leave_out("names that a concept has twice", snapshot.edition, len(found) - len(rows))
    release = f"SNOMED CT {snapshot.edition} {snapshot.date}" + (f" ({REFSETS[refset]})" if refset else "")
    return CorpusParts(dictionaries={DICTIONARY: rows}, releases={DICTIONARY: release})


def _find_snapshot(files: list[InputFile], report: ReadingReport, wanted: list[str]) -> SnomedSnapshot:
    """Find the files of a release, and refuse those of several releases or editions by their names."""
    tables = {name.lower(): name for name in COLUMNS}
    snapshot, first, languages = SnomedSnapshot("", ""), "", dict[tuple[str, str], str]()
    for found, file in match_files(files, SNAPSHOT, report):
        table, edition, date = tables[found["table"].lower()], found["edition"].upper(), found["date"]
        if not first:
            snapshot, first = SnomedSnapshot(edition, date), file.label
        if (edition, date) != (snapshot.edition, snapshot.date):
            _refuse_mixed(f"{first} and {file.label} are named after different ones")
        twin = languages.setdefault((table, (found["language"] or "").lower()), file.label)
        if twin != file.label:
            raise ValueError(Errors.E704.format(part=table, first=twin, second=file.label))
        snapshot.files.setdefault(table, []).append(file)
    missing = [table for table in wanted if table not in snapshot.files]
    if missing:
        names = ", ".join(file.name for tables in snapshot.files.values() for file in tables)
        raise ValueError(Errors.E703.format(pattern=", ".join(missing), found=names))
    return snapshot


def _read_rows(snapshot: SnomedSnapshot, table: str, report: ReadingReport) -> Iterator[tuple[str, Row]]:
    """Read the rows of a table, and refuse those of a later release, and ids that the table has twice."""
    seen, newest = set[str](), ""
    for file in snapshot.files[table]:
        lines = ((number, line) for number, line in file.lines(report) if line.strip())
        header = next(lines, (0, ""))[1].split("\t")
        if tuple(header) != COLUMNS[table]:
            report.refuse(f"{file.label}, line 1", "other columns", _describe(table))
            continue
        for number, line in lines:
            place, fields = f"{file.label}, line {number}", line.split("\t")
            row = dict(zip(header, fields, strict=False))
            reason = _find_fault(row, len(fields), table)
            if reason:
                report.refuse(place, reason, _describe(table))
                continue
            if row["effectiveTime"] > snapshot.date:
                _refuse_mixed(f"{place}: a row of {row['effectiveTime']} in a release of {snapshot.date}")
            if row["id"] in seen:
                _refuse_mixed(f"{place}: the id {row['id']} is there twice, and a snapshot has the latest row only")
            seen.add(row["id"])
            newest = max(newest, row["effectiveTime"])
            yield place, row
    if newest and newest < snapshot.date:
        label = snapshot.files[table][0].label
        report.note_odd("snapshots without a row of the day of their release", f"{label}: the last is of {newest}")


def _find_fault(row: Mapping[str, str], n_fields: int, table: str) -> str:
    if n_fields != len(COLUMNS[table]):
        return f"{n_fields} fields for {len(COLUMNS[table])} columns"
    if row["active"] not in ("0", "1"):
        return f"active is {row['active']!r} instead of 0 or 1"
    if not re.fullmatch(r"\d{8}", row["effectiveTime"]):
        return f"{row['effectiveTime']!r} is no date"
    numbers = [name for name in ("id", "conceptId") if name in row and table != LANGUAGES]
    wrong = next((name for name in numbers if not (row[name].isascii() and row[name].isdigit())), "")
    return f"{wrong} is {row[wrong]!r} instead of a number" if wrong else ""


def _find_reason(row: Row, is_active: Mapping[str, bool], accepted: set[str] | None) -> str:
    """Say why a description is no name to search; empty if it is one."""
    if row["active"] != "1":
        return "inactive descriptions"
    if not is_active[row["conceptId"]]:
        return "descriptions of inactive concepts"
    if row["languageCode"] != ENGLISH:
        return "descriptions in another language than English"
    if row["typeId"] not in (FULLY_SPECIFIED, SYNONYM):
        return "descriptions that are neither a fully specified name nor a synonym"
    if accepted is not None and row["id"] not in accepted:
        return "descriptions that the language reference set does not accept"
    return ""


def _read_accepted(snapshot: SnomedSnapshot, refset: str, report: ReadingReport) -> set[str]:
    """Read the descriptions that a language reference set accepts: preferred ones, and others that may be used."""
    return {
        row["referencedComponentId"]
        for _, row in _read_rows(snapshot, LANGUAGES, report)
        if row["active"] == "1" and row["refsetId"] == refset
    }


def _describe(table: str) -> str:
    return FORM.format(columns=", ".join(COLUMNS[table]))


def _refuse_mixed(reason: str) -> None:
    # Never left out and counted: the names of two releases together are another dictionary.
    raise ValueError(Errors.E707.format(reason=reason))
