"""Corpora that are tables: AskAPatient, the folds of PsyTAR and Cadec, MedMentions without text, COMETA."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from spacy_sapbert.exchange.fields import plain_text, split_ids

from ....data.mentions import Mention
from .inputs import InputFile
from .parts import check_folds, find_parts
from .records import CorpusParts, locate
from .report import ReadingReport
from .vocabulary import DICTIONARY

ASKAPATIENT = r"(?:.*/)?AskAPatient\.fold-(?P<fold>\d)\.(?P<part>train|validation|test)\.txt"
ASKAPATIENT_FORM = "id, name of the concept and mention, with tabs between them"
FOLDS = r"(?:.*/)?fold_?(?P<fold>[1-5])/(?P<part>train|test|standard)\.txt"
FOLDS_FORM = "id, tab, and a mention or a name, in quotation marks if there are any in it"
MEDMENTIONS_ROWS = r"(?:.*/)?(?P<part>train|trng|dev|test)\.txt"
MEDMENTIONS_FORM = "PMID, mention and CUI, with tabs between them"
COMETA = r"(?P<part>.+)\.(?:csv|tsv)"
COMETA_FORM = "a header with the columns Term, {column} and Example, then as many fields with tabs between them"
# Long numbers as rounded by a spreadsheet.
DAMAGED_ID = re.compile(r"\d+\.\d*(?:e\+?\d+)?|\d+e\+?\d+", re.IGNORECASE)

Row = tuple[str, list[str]]


def read_askapatient(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read the folds of AskAPatient. Its dictionary is the names in it, sorted by id: there is no other.

    files (list[InputFile]): AskAPatient.fold-<number>.<train, validation or test>.txt.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): The mentions of parts such as "fold0.test", and the dictionary.
    """
    parts = find_parts(files, ASKAPATIENT, report)
    check_folds(parts, range(10), ("test",))
    corpus = CorpusParts()
    rows: dict[tuple[str, str], None] = {}
    for part, file in parts.items():
        mentions = corpus.mentions.setdefault(part, [])
        for place, (concept, name, mention) in _split_rows(file, 3, ASKAPATIENT_FORM, report):
            mentions += _make_mention(mention, concept, place, ASKAPATIENT_FORM, report)
            _add_name(rows, concept, name, place, ASKAPATIENT_FORM, report)
    corpus.dictionaries[DICTIONARY] = sorted(rows)
    return corpus


def read_folds(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read the folds of PsyTAR or Cadec in CODER's evaluation. Its authors leave quotation marks in mentions.

    files (list[InputFile]): fold_<number>/test.txt, train.txt and standard.txt, the last being the dictionary.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): The mentions of parts such as "fold1.test", and the dictionary of all folds.
    """
    parts = find_parts(files, FOLDS, report)
    check_folds(parts, range(1, 6), ("test", "standard"))
    corpus = CorpusParts()
    rows: dict[tuple[str, str], None] = {}
    first: dict[tuple[str, str], None] = {}
    for part, file in parts.items():
        if part.endswith(".standard"):
            names: dict[tuple[str, str], None] = {}
            for place, (concept, name) in _unquote_rows(file, 2, FOLDS_FORM, report):
                _add_name(names, concept, name, place, FOLDS_FORM, report)
            first = first or names
            if first.keys() != names.keys():
                report.note_odd("folds with a dictionary of their own, joined with the others", file.label)
            rows |= names
        else:
            mentions = corpus.mentions.setdefault(part, [])
            for place, (concept, mention) in _unquote_rows(file, 2, FOLDS_FORM, report):
                mentions += _make_mention(mention, concept, place, FOLDS_FORM, report)
    corpus.dictionaries[DICTIONARY] = list(rows)
    return corpus


def read_medmentions_rows(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read MedMentions without its texts.

    files (list[InputFile]): train.txt, dev.txt and test.txt, as far as they are there.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): The mentions of each part.
    """
    corpus = CorpusParts()
    for part, file in find_parts(files, MEDMENTIONS_ROWS, report).items():
        mentions = corpus.mentions.setdefault(part, [])
        for place, (pmid, mention, concept) in _split_rows(file, 3, MEDMENTIONS_FORM, report):
            mentions += _make_mention(mention, concept, place, MEDMENTIONS_FORM, report, pmid.strip())
        corpus.documents[part] = len({mention.doc_id for mention in mentions})
    return corpus


def read_cometa(files: list[InputFile], report: ReadingReport, *, column: str) -> CorpusParts:
    """Read COMETA, without its dictionary: that is SNOMED CT.

    files (list[InputFile]): train.csv, dev.csv and test.csv, with tabs in spite of their name.
    report (ReadingReport): Gets malformed and odd records.
    column (str): The ids to take: "General SNOMED ID" or "Specific SNOMED ID".
    RETURNS (CorpusParts): The mentions of each part, such as "test" or, in a folder of several splits,
        "stratified_general.test".
    """
    corpus, form = CorpusParts(), COMETA_FORM.format(column=column)
    for part, file in find_parts(files, COMETA, report).items():
        mentions = corpus.mentions.setdefault(part, [])
        rows = _unquote_rows(file, 0, form, report)
        place, header = next(rows, (file.label, []))
        missing = [name for name in ("Term", column, "Example") if name not in header]
        if missing:
            report.refuse(place, f"no column {', '.join(missing)}", form)
            continue
        for place, fields in rows:
            if len(fields) != len(header):
                report.refuse(place, f"{len(fields)} fields for {len(header)} columns", form)
                continue
            row = dict(zip(header, fields, strict=True))
            found = _make_mention(row["Term"], row[column], place, form, report)
            mentions += [_find_in(mention, row["Example"], report) for mention in found]
    return corpus


def _split_rows(file: InputFile, width: int, form: str, report: ReadingReport) -> Iterator[Row]:
    for number, line in file.lines(report):
        place, fields = f"{file.label}, line {number}", line.split("\t")
        if len(fields) == width:
            yield place, fields
        elif line.strip():
            report.refuse(place, f"{len(fields)} fields instead of {width}", form)


def _unquote_rows(file: InputFile, width: int, form: str, report: ReadingReport) -> Iterator[Row]:
    for number, line in file.lines(report):
        place = f"{file.label}, line {number}"
        if not line.strip():
            continue
        try:
            # Line by line: one quotation mark too many would otherwise swallow the rest of the file.
            fields = next(csv.reader([line], dialect="excel-tab", strict=True), [])
        except csv.Error as error:
            report.refuse(place, f"quotation marks that do not fit together ({error})", form)
            continue
        if len(fields) == width or not width:
            yield place, fields
        else:
            report.refuse(place, f"{len(fields)} fields instead of {width}", form)


def _make_mention(
    text: str, raw_id: str, place: str, form: str, report: ReadingReport, doc_id: str = ""
) -> list[Mention]:
    text = plain_text(text)
    reason = "an empty mention" if not text.strip() else _find_fault(raw_id)
    if reason:
        report.refuse(place, reason, form)
        return []
    if text != text.strip():
        report.note_odd("mentions with spaces around them, which are taken off", place)
    return [Mention(text.strip(), split_ids(raw_id), doc_id, place=place)]


def _add_name(
    rows: dict[tuple[str, str], None], raw_id: str, name: str, place: str, form: str, report: ReadingReport
) -> None:
    ids = split_ids(raw_id)
    if ids and name.strip():
        rows["|".join(ids), plain_text(name).strip()] = None
    else:
        report.refuse(place, "a concept without an id or a name", form)


def _find_fault(raw_id: str) -> str | None:
    if DAMAGED_ID.fullmatch(raw_id.strip()):
        return f"the id {raw_id!r} is a number that a spreadsheet has rounded"
    return None


def _find_in(mention: Mention, example: str, report: ReadingReport) -> Mention:
    text = plain_text(example)
    start = text.find(mention.text)
    if start < 0:
        report.note_odd("mentions that their example does not have, left without a context", mention.place)
        return mention
    return locate(mention, text, start, start + len(mention.text))
