"""The files that BioSyn makes of its corpora, which SapBERT is measured on."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from spacy_sapbert.exchange.fields import plain_text, split_ids

from ....data.mentions import Mention
from ....errors import Errors
from .inputs import InputFile
from .parts import match_files
from .records import CorpusParts
from .report import ReadingReport
from .vocabulary import DICTIONARY

BIOSYN = (
    r"(?:.*/)?(?:processed_(?P<part>train|dev|traindev|test)/(?P<doc>[^/]+)\.concept"
    r"|(?P<dictionary>train|dev|test)_dictionary\.txt)"
)
QUERY_FORM = "PMID||start|end||type||mention||ids, with | between the parts of a mention and between ids"
DICTIONARY_FORM = "ids||name, with | between ids"
NUMBERS = re.compile(r"(\d+)\|(\d+)")


def read_biosyn(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read BioSyn's processed queries and dictionaries.

    files (list[InputFile]): processed_<train, dev, traindev or test>/<PMID>.concept and <train, dev or
        test>_dictionary.txt, in a folder or an archive.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): The mentions of each part, and dictionaries such as "dictionary_test", with names that stand
        there twice: they decide what is found among the first names.
    """
    corpus = CorpusParts()
    seen: dict[str, InputFile] = {}
    for found, file in match_files(files, BIOSYN, report):
        name = f"{found['part']}/{found['doc']}" if found["part"] else f"{found['dictionary']}_dictionary"
        if seen.setdefault(name, file) is not file:
            raise ValueError(Errors.E704.format(part=name, first=seen[name].label, second=file.label))
        if found["dictionary"]:
            corpus.dictionaries[f"{DICTIONARY}_{found['dictionary']}"] = _read_names(file, report)
        else:
            part = found["part"]
            corpus.documents[part] = corpus.documents.get(part, 0) + 1
            corpus.mentions.setdefault(part, []).extend(_read_queries(file, report))
    return corpus


def _read_names(file: InputFile, report: ReadingReport) -> list[tuple[str, str]]:
    rows = []
    for number, line in file.lines(report):
        ids, _, name = line.partition("||")
        known, place = split_ids(ids), f"{file.label}, line {number}"
        if not ids.strip() or not name.strip():
            if line.strip():
                report.refuse(place, "no id or no name", DICTIONARY_FORM)
        elif not known:
            report.leave_out("names without an id", place)
        else:
            if "+" in ids:
                report.note_odd("names with + between ids, which are equal ones as with |", place)
            rows.append(("|".join(known), plain_text(name).strip()))
    return rows


def _read_queries(file: InputFile, report: ReadingReport) -> list[Mention]:
    mentions, doc_id = [], PurePosixPath(file.name).stem
    for number, line in file.lines(report):
        if not line.strip():
            continue
        place = f"{file.label}, line {number}, document {doc_id}"
        fields = [field.strip() for field in line.split("||")]
        numbers = NUMBERS.fullmatch(fields[1]) if len(fields) == 5 else None
        if not numbers or not fields[3]:
            report.refuse(place, "an empty mention" if numbers else f"a line {line!r:.80}", QUERY_FORM)
            continue
        if fields[0] != doc_id:
            report.note_odd("queries with another PMID than their file", f"{place}: {fields[0]}")
        ids, parts = split_ids(fields[4]), fields[3].split("|")
        mentions.append(
            Mention(
                fields[3],
                ids,
                doc_id=fields[0],
                start=int(numbers[1]),
                end=int(numbers[2]),
                type=fields[2],
                raw_id=fields[4],
                parts=[part.strip() for part in parts] if len(parts) > 1 else [],
                place=place,
            )
        )
    return mentions
