"""PubTator's form: title, abstract, and a line with offsets for each mention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spacy_sapbert.exchange.fields import ANY_ID_SEPARATOR, find_misfit, plain_text, split_ids
from spacy_sapbert.exchange.pubtator import (
    FORM,
    RELATION_FIELDS,
    PubTatorDocument,
    list_mention_lines,
    parse_pubtator,
)

from ....data.mentions import Mention
from ....errors import Errors
from .inputs import InputFile
from .parts import PART_NAMES, find_parts, match_files
from .records import CorpusParts, locate
from .report import ReadingReport

MEDMENTIONS = r"(?:.*/)?corpus_pubtator(?:_pmids_(?P<part>trng|train|dev|test))?\.txt"


def read_mentions(
    document: PubTatorDocument, file: InputFile, types: Sequence[str], report: ReadingReport
) -> list[Mention]:
    """Read the mentions of a document.

    document (PubTatorDocument): The document.
    file (InputFile): The file, for messages.
    types (Sequence[str]): The types of mentions to keep; empty for all.
    report (ReadingReport): Gets the records that are excluded.
    RETURNS (list[Mention]): The mentions in their order.
    """
    text, mentions = document.text, []
    for place, fields in list_mention_lines(document, file.label, report):
        if types and fields[4].strip() not in types:
            report.leave_out("mentions of other types", place)
        elif reason := find_misfit(text, int(fields[1]), int(fields[2]), fields[3]):
            report.refuse(place, reason, FORM)
        else:
            mentions.append(_make_mention(document.doc_id, text, fields, place))
            if mentions[-1].text != plain_text(fields[3]):
                report.note_odd("mentions with other spaces than their text, which is taken", place)
    return mentions


def _make_mention(doc_id: str, text: str, fields: list[str], place: str) -> Mention:
    raw_id = fields[5].strip() if len(fields) > 5 else ""
    parts = [part.strip() for part in fields[6].split("|")] if len(fields) > 6 else []
    mention = Mention(
        fields[3],
        split_ids(raw_id),
        doc_id,
        type=fields[4].strip(),
        raw_id=raw_id,
        # Where the counts differ, nobody can tell which part has which id.
        parts=parts if len(parts) == len(ANY_ID_SEPARATOR.split(raw_id)) and all(parts) else [],
        place=place,
    )
    return locate(mention, text, int(fields[1]), int(fields[2]))


def read_pubtator(
    files: list[InputFile], report: ReadingReport, *, pattern: str, types: Sequence[str] = ()
) -> CorpusParts:
    """Read a corpus of which each part is a file.

    files (list[InputFile]): The files.
    report (ReadingReport): Gets the records that are excluded.
    pattern (str): The names of files to read, with a group `part`.
    types (Sequence[str]): The types of mentions to keep; empty for all.
    RETURNS (CorpusParts): The mentions of each part. A document that the corpus has twice in a part is read once.
    """
    parts = find_parts(files, pattern, report)
    collector = _Collector(parts, types, report)
    for part, file in parts.items():
        for document in parse_pubtator(file.lines(report), file.label, report):
            collector.add(part, document, file)
    return collector.corpus


def read_medmentions(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read MedMentions: one file with all documents, and lists of the PMIDs of each part.

    files (list[InputFile]): corpus_pubtator.txt, and corpus_pubtator_pmids_trng.txt, _dev.txt and _test.txt.
    report (ReadingReport): Gets the records that are excluded.
    RETURNS (CorpusParts): The mentions of the parts.
    RAISES (ValueError): If the documents or all lists are missing.
    """
    matched = match_files(files, MEDMENTIONS, report)
    texts = [file for found, file in matched if not found["part"]]
    lists = [(PART_NAMES.get(found["part"], found["part"]), file) for found, file in matched if found["part"]]
    if len(texts) != 1 or not lists:
        raise ValueError(Errors.E703.format(pattern=MEDMENTIONS, found=", ".join(file.label for _, file in matched)))
    part_of = _read_lists(lists, report)
    collector = _Collector((part for part, _ in lists), (), report)
    for document in parse_pubtator(texts[0].lines(report), texts[0].label, report):
        if document.doc_id in part_of:
            collector.add(part_of[document.doc_id], document, texts[0])
        else:
            report.leave_out("documents that no list has", f"{document.place}, document {document.doc_id}")
    for pmid, part in part_of.items():
        if pmid not in collector.seen:
            report.note_odd("PMIDs of a list without a document", f"{part}: {pmid}")
    return collector.corpus


def _read_lists(lists: list[tuple[str, InputFile]], report: ReadingReport) -> Mapping[str, str]:
    part_of: dict[str, str] = {}
    for part, file in lists:
        for number, line in file.lines(report):
            pmid = line.strip()
            if pmid and part_of.setdefault(pmid, part) != part:
                reason = f"the list of {part_of[pmid]} has this PMID as well"
                report.refuse(f"{file.label}, line {number}, document {pmid}", reason, "a PMID, which one list has")
    return part_of


class _Collector:
    """Add documents to the parts of a corpus, each once to a part."""

    def __init__(self, parts: Iterable[str], types: Sequence[str], report: ReadingReport) -> None:
        names = list(parts)
        self.corpus = CorpusParts({part: [] for part in names}, {part: 0 for part in names})
        self.seen: dict[str, set[str]] = {}
        self._types = types
        self._report = report

    def add(self, part: str, document: PubTatorDocument, file: InputFile) -> None:
        place = f"{document.place}, document {document.doc_id}"
        parts = self.seen.setdefault(document.doc_id, set())
        if part in parts:
            n = sum(len(fields) > RELATION_FIELDS for _, fields in document.lines)
            self._report.leave_out("documents that a part has twice", place)
            self._report.leave_out("mentions in documents that a part has twice", place, n)
            return
        if parts:
            self._report.note_odd("documents that two parts have", place)
        if document.title is None or document.abstract is None:
            self._report.note_odd("documents without a title or without an abstract", place)
        parts.add(part)
        self.corpus.documents[part] += 1
        self.corpus.texts.setdefault(part, {})[document.doc_id] = document.text
        self.corpus.mentions[part].extend(read_mentions(document, file, self._types, self._report))
