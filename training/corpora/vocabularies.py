"""Vocabularies that corpora are linked to: MEDIC as BioSyn has it, the files of CTD, snapshots of SNOMED CT (RF2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NoReturn

from spacy_sapbert.exchange.fields import plain_text, split_ids

from .reading import DICTIONARY, CorpusParts, Format, InputFile, Originals, Row, claim

MEDIC = r"(?:.*/)?[^/]*medic[^/]*\.txt"
CTD = r"(?:.*/)?CTD_(?:diseases|chemicals)\.tsv"
CTD_FORM = "comments with #, one of them with the names of the columns, then as many fields with tabs between them"
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
# A comment in the first lines: "# Report created: Thu Oct 31 14:52:40 EDT 2019".
CTD_CREATED = re.compile(
    rf"#\s*Report created:\s*\w+ (?P<month>{'|'.join(MONTHS)}) +(?P<day>\d{{1,2}}) [\d:]+ \w+ (?P<year>\d{{4}})\s*"
)
CTD_NAMES = ("DiseaseName", "ChemicalName")
CTD_IDS = ("DiseaseID", "ChemicalID")

SNAPSHOT = (
    r"(?:.*/)?(?P<table>sct2_Concept_Snapshot|sct2_Description_Snapshot|der2_cRefset_LanguageSnapshot)"
    r"(?:-(?P<language>[a-z-]+))?_(?P<edition>[a-z]{2,3}\d*)_(?P<date>\d{8})\.txt"
)
CONCEPTS = "sct2_Concept_Snapshot"
DESCRIPTIONS = "sct2_Description_Snapshot"
LANGUAGES = "der2_cRefset_LanguageSnapshot"
COMMON = ("id", "effectiveTime", "active", "moduleId")
COLUMNS = {
    CONCEPTS: (*COMMON, "definitionStatusId"),
    DESCRIPTIONS: (*COMMON, "conceptId", "languageCode", "typeId", "term", "caseSignificanceId"),
    LANGUAGES: (*COMMON, "refsetId", "referencedComponentId", "acceptabilityId"),
}
FORMS = {"id": r"[\w-]+", "active": "0|1", "effectiveTime": r"0|\d{8}", "conceptId": "[0-9]+"}
NAMES = FULLY_SPECIFIED, SYNONYM = "900000000000003001", "900000000000013009"
US_ENGLISH = "900000000000509007"
GB_ENGLISH = "900000000000508004"
REFSETS = {US_ENGLISH: " (US English)", GB_ENGLISH: " (GB English)", "": ""}
# The modules of the International edition: its core, and the model of its own concepts.
INTERNATIONAL = "INT"
MODULES = ("900000000000207008", "900000000000012004")

# The ids and the names of a dictionary, in their order.
Names = dict[tuple[str, str], None]


def read_medic(originals: Originals) -> CorpusParts:
    """Read MEDIC, each line with the ids of a concept and its names."""
    names: Names = {}
    for row in _find_single(originals, MEDIC).rows("id|other ids||name|synonym|...", (2,), separator="||"):
        ids, joined = row.fields
        _add_names(names, row, ids, joined.split("|"))
    return CorpusParts(dictionaries={DICTIONARY: list(names)})


def read_ctd(originals: Originals) -> CorpusParts:
    """Read CTD_diseases.tsv or CTD_chemicals.tsv of any year: the columns are found by their names. The release is the
    day on which the file was made, such as "CTD 2019-10-31"."""
    corpus = CorpusParts()
    names: Names = {}
    columns: list[str] = []
    for row in _find_single(originals, CTD).rows(CTD_FORM):
        fields = [field.strip() for field in row.fields]
        if fields[0].startswith("#"):
            fields[0] = fields[0].removeprefix("#").strip()
            columns = fields if set(CTD_NAMES) & set(fields) and set(CTD_IDS) & set(fields) else columns
            if created := CTD_CREATED.fullmatch(row.fields[0]):
                month = MONTHS.index(created["month"]) + 1
                corpus.releases[DICTIONARY] = f"CTD {created['year']}-{month:02}-{int(created['day']):02}"
        elif len(fields) > len(columns):
            row.refuse(f"{len(fields)} fields for {len(columns)} columns")
        else:
            # Empty fields at the end of a line may be left away.
            values = dict(zip(columns, fields, strict=False))
            ids = [values.get(column, "") for column in (*CTD_IDS, "AltDiseaseIDs")]
            # CTD writes DO:DOID:1234 where the ontology itself writes DOID:1234.
            joined = "|".join(re.sub(r"(^|\|)DO:", r"\1", part) for part in ids if part)
            written = [values[column] for column in CTD_NAMES if column in values]
            _add_names(names, row, joined, written + values.get("Synonyms", "").split("|"))
    corpus.dictionaries[DICTIONARY] = list(names)
    return corpus


def _find_single(originals: Originals, pattern: str) -> InputFile:
    files: dict[str, InputFile] = {}
    for _, file in originals.match(pattern):
        claim(files, DICTIONARY, file, "The dictionary")
    return files[DICTIONARY]


def _add_names(names: Names, row: Row, ids: str, written: Iterable[str]) -> None:
    distinct = split_ids(ids)
    cleaned = [plain_text(name).strip() for name in written if name.strip()]
    if not distinct or not cleaned:
        row.refuse("no name" if distinct else "no id")
        return
    for part in distinct:
        if not any(character.isdigit() for character in part):
            row.report.note_odd("ids without a digit", f"{row.place}: {part}")
    joined = "|".join(distinct)
    for name in cleaned:
        if (joined, name) in names:
            row.report.leave_out("names that a concept has twice", f"{row.place}: {name}")
        names[joined, name] = None


def read_snomed(originals: Originals, *, refset: str = "") -> CorpusParts:
    """Read the active English descriptions of active concepts of one release, sorted by concept, the fully specified
    name first. Other files than the snapshots, such as the full tables of a release package, are not read. With a
    language reference set, of `REFSETS`, only the descriptions that it accepts."""
    report = originals.report
    tables, edition, date = _find_tables(originals, [CONCEPTS, DESCRIPTIONS, *([LANGUAGES] if refset else [])])
    is_active = {values["id"]: values["active"] == "1" for _, values in _read_rows(tables, CONCEPTS, date)}
    accepted = {
        # Preferred descriptions, and others that may be used.
        values["referencedComponentId"]
        for _, values in (_read_rows(tables, LANGUAGES, date) if refset else ())
        if values["active"] == "1" and values["refsetId"] == refset
    }
    rows: list[tuple[int, bool, str]] = []
    for row, values in _read_rows(tables, DESCRIPTIONS, date):
        concept = values["conceptId"]
        kind = values["typeId"]
        term = plain_text(values["term"]).strip()
        if concept not in is_active:
            _refuse_mixed(f"{row.place}: the concept {concept} is not in the snapshot of concepts")
        reasons = {
            "inactive descriptions": values["active"] != "1",
            "descriptions of inactive concepts": not is_active[concept],
            "descriptions in another language than English": values["languageCode"] != "en",
            "descriptions that are neither a fully specified name nor a synonym": kind
            not in (FULLY_SPECIFIED, SYNONYM),
            "descriptions that the language reference set does not accept": refset and values["id"] not in accepted,
        }
        if reason := next((reason for reason, is_so in reasons.items() if is_so), ""):
            report.leave_out(reason, row.place)
        elif not term:
            row.refuse("an empty name")
        else:
            if edition == INTERNATIONAL and values["moduleId"] not in MODULES:
                report.note_odd("names of a module that the International edition has not", row.place)
            rows.append((int(concept), kind != FULLY_SPECIFIED, term))
    # The sort keeps the order of the file among equals.
    rows.sort(key=lambda name: name[:2])
    names = list(dict.fromkeys((str(concept), term) for concept, _, term in rows))
    if len(names) < len(rows):
        report.leave_out("names that a concept has twice", edition, len(rows) - len(names))
    release = f"SNOMED CT {edition} {date}{REFSETS[refset]}"
    return CorpusParts(dictionaries={DICTIONARY: names}, releases={DICTIONARY: release})


def _find_tables(originals: Originals, wanted: Sequence[str]) -> tuple[dict[str, list[InputFile]], str, str]:
    """Find the files of each table, the edition and the date; refuse files of several editions or releases."""
    tables: dict[str, list[InputFile]] = {}
    files: dict[tuple[str, str], InputFile] = {}
    labels: dict[tuple[str, str], str] = {}
    for match, file in originals.match(SNAPSHOT):
        labels.setdefault((match["edition"].upper(), match["date"]), file.label)
        if len(labels) > 1:
            _refuse_mixed(f"{' and '.join(labels.values())} are named after different ones")
        table = next(name for name in COLUMNS if name.lower() == match["table"].lower())
        claim(files, (table, (match["language"] or "").lower()), file, table)
        tables.setdefault(table, []).append(file)
    missing = [table for table in wanted if table not in tables]
    if missing:
        originals.refuse(", ".join(missing))
    return tables, *next(iter(labels))


def _read_rows(tables: dict[str, list[InputFile]], table: str, date: str) -> Iterator[tuple[Row, dict[str, str]]]:
    """Read the rows of a table, and refuse rows of a later release, and ids that the table has twice."""
    columns = COLUMNS[table]
    keys = set[str]()
    newest = ""
    form = f"a header with the columns {', '.join(columns)}, then as many fields with tabs between them"
    for file in tables[table]:
        rows = file.rows(form)
        header = next(rows, None)
        if header is None or tuple(header.fields) != columns:
            file.report.refuse(f"{file.label}, line 1", "other columns", form)
            continue
        for row in rows:
            values = dict(zip(columns, row.fields, strict=False))
            wrong = [name for name in FORMS if not re.fullmatch(FORMS[name], values.get(name, "0"))]
            if len(row.fields) != len(columns) or wrong:
                counted = f"{len(row.fields)} fields for {len(columns)} columns"
                row.refuse(f"{wrong[0]} is {values[wrong[0]]!r}" if len(row.fields) == len(columns) else counted)
                continue
            if values["effectiveTime"] > date:
                _refuse_mixed(f"{row.place}: a row of {values['effectiveTime']} in a release of {date}")
            if values["id"] in keys:
                _refuse_mixed(f"{row.place}: the id {values['id']} is there twice, and a snapshot has the latest only")
            keys.add(values["id"])
            newest = max(newest, values["effectiveTime"])
            yield row, values
    if newest and newest < date:
        file = tables[table][0]
        kind = "snapshots without a row of the day of their release"
        file.report.note_odd(kind, f"{file.label}: the last is of {newest}")


def _refuse_mixed(reason: str) -> NoReturn:
    # Never left out and counted: the names of two releases together are another dictionary.
    raise ValueError(
        f"The files of SNOMED CT come from different editions or releases: {reason}. No published figure has such "
        "names. Give the snapshot of one release package, unpacked and with the file names that it was published with."
    )


SNOMED_FILES = "sct2_Concept_Snapshot_INT_20190731.txt and sct2_Description_Snapshot-en_INT_20190731.txt"
REFSET_FILES = f"{SNOMED_FILES}, der2_cRefset_LanguageSnapshot-en_INT_20190731.txt"
FORMATS = {
    "ctd": Format(read_ctd, "CTD_diseases.tsv or CTD_chemicals.tsv"),
    "medic": Format(read_medic, "medic_06Jul2012.txt"),
    "snomed": Format(read_snomed, SNOMED_FILES),
    "snomed-gb": Format(partial(read_snomed, refset=GB_ENGLISH), REFSET_FILES),
    "snomed-us": Format(partial(read_snomed, refset=US_ENGLISH), REFSET_FILES),
}
