"""Vocabularies of diseases and chemicals: MEDIC as BioSyn has it, and the files of CTD."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spacy_sapbert.exchange.fields import plain_text, split_ids

from ....errors import Errors
from .inputs import InputFile
from .parts import match_files
from .records import CorpusParts
from .report import ReadingReport

DICTIONARY = "dictionary"
MEDIC = r"(?:.*/)?[^/]*medic[^/]*\.txt"
CTD = r"(?:.*/)?CTD_(?:diseases|chemicals)\.tsv"
MEDIC_FORM = "id|other ids||name|synonym|..."
CTD_FORM = "comments with #, of which one names the columns, then as many fields with tabs between them"
# A comment in the first lines: "# Report created: Thu Oct 31 14:52:40 EDT 2019".
CTD_CREATED = re.compile(r"#\s*Report created:\s*\w+ (?P<month>\w{3}) +(?P<day>\d{1,2}) [\d:]+ \w+ (?P<year>\d{4})\s*")
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
CTD_NAMES, CTD_IDS = ("DiseaseName", "ChemicalName"), ("DiseaseID", "ChemicalID")


def read_medic(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read MEDIC, each line with the ids of a concept and its names.

    files (list[InputFile]): The file.
    report (ReadingReport): Gets malformed and repeated records.
    RETURNS (CorpusParts): A dictionary.
    """
    rows: dict[tuple[str, str], None] = {}
    file = _find_single(files, MEDIC, report)
    for number, line in file.lines(report):
        if not line.strip():
            continue
        place = f"{file.label}, line {number}"
        fields = line.split("||")
        if len(fields) == 2:
            _add_names(rows, fields[0], fields[1].split("|"), place, MEDIC_FORM, report)
        else:
            report.refuse(place, f"{len(fields)} fields between double bars", MEDIC_FORM)
    return CorpusParts(dictionaries={DICTIONARY: list(rows)})


def read_ctd(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read CTD_diseases.tsv or CTD_chemicals.tsv of any year: the columns are found by their names.

    files (list[InputFile]): The file.
    report (ReadingReport): Gets malformed and repeated records.
    RETURNS (CorpusParts): A dictionary, and the day on which its file was made, such as "CTD 2019-10-31".
    """
    rows: dict[tuple[str, str], None] = {}
    file = _find_single(files, CTD, report)
    columns: list[str] = []
    releases: dict[str, str] = {}
    for number, line in file.lines(report):
        place = f"{file.label}, line {number}"
        fields = [field.strip() for field in line.removeprefix("#").split("\t")]
        if line.startswith("#"):
            columns = fields if set(CTD_NAMES) & set(fields) and set(CTD_IDS) & set(fields) else columns
            created = CTD_CREATED.fullmatch(line)
            if created and created["month"] in MONTHS:
                month = MONTHS.index(created["month"]) + 1
                releases[DICTIONARY] = f"CTD {created['year']}-{month:02}-{int(created['day']):02}"
        elif not line.strip():
            continue
        elif not columns or len(fields) > len(columns):
            report.refuse(place, f"{len(fields)} fields for {len(columns)} columns", CTD_FORM)
        else:
            # Empty fields at the end of a line may be left away.
            _add_ctd_row(rows, dict(zip(columns, fields, strict=False)), place, report)
    return CorpusParts(dictionaries={DICTIONARY: list(rows)}, releases=releases)


def _find_single(files: list[InputFile], pattern: str, report: ReadingReport) -> InputFile:
    (_, file), *others = match_files(files, pattern, report)
    if others:
        raise ValueError(Errors.E704.format(part="The dictionary", first=file.label, second=others[0][1].label))
    return file


def _add_ctd_row(rows: dict[tuple[str, str], None], row: dict[str, str], place: str, report: ReadingReport) -> None:
    ids = [row.get(column, "") for column in (*CTD_IDS, "AltDiseaseIDs")]
    # CTD writes DO:DOID:1234 where the ontology itself writes DOID:1234.
    joined = "|".join(re.sub(r"(^|\|)DO:", r"\1", part) for part in ids if part)
    names = [row[column] for column in CTD_NAMES if column in row] + row.get("Synonyms", "").split("|")
    _add_names(rows, joined, names, place, CTD_FORM, report)


def _add_names(
    rows: dict[tuple[str, str], None], ids: str, names: Iterable[str], place: str, form: str, report: ReadingReport
) -> None:
    known = split_ids(ids)
    kept = [plain_text(name).strip() for name in names if name.strip()]
    if not known or not kept:
        report.refuse(place, "no id" if not known else "no name", form)
        return
    for part in known:
        if not any(character.isdigit() for character in part):
            report.note_odd("ids without a digit", f"{place}: {part}")
    joined = "|".join(known)
    for name in kept:
        if (joined, name) in rows:
            report.leave_out("names that a concept has twice", f"{place}: {name}")
        rows[joined, name] = None
