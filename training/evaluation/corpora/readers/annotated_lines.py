"""Annotations as lines of JSON: Prodigy's form, and the form that corpora are converted to."""

from __future__ import annotations

from dataclasses import replace

from spacy_sapbert.exchange.fields import plain_text, split_ids
from spacy_sapbert.exchange.formats import ID_KEY, parse_prodigy, parse_spans

from ....data.mentions import FORM as UNIFORM_FORM
from ....data.mentions import Mention, parse_mention
from .inputs import InputFile
from .parts import find_parts
from .records import CorpusParts, locate
from .report import ReadingReport

LINES = r"(?P<part>.+)\.jsonl"


def read_uniform(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read files that `convert_corpus` has written. They have the text around each mention, and no whole texts.

    files (list[InputFile]): A file of JSON lines for each part.
    report (ReadingReport): Gets malformed records.
    RETURNS (CorpusParts): The mentions of each part.
    """
    corpus = CorpusParts()
    for part, file in find_parts(files, LINES, report).items():
        mentions = corpus.mentions.setdefault(part, [])
        for number, line in file.lines(report):
            place = f"{file.label}, line {number}"
            try:
                mentions += [replace(parse_mention(line), place=place)] if line.strip() else []
            except ValueError as error:
                report.refuse(place, str(error), UNIFORM_FORM)
    return corpus


def read_prodigy(files: list[InputFile], report: ReadingReport, *, id_key: str = ID_KEY) -> CorpusParts:
    """Read annotations of Prodigy: texts with spans, each with its id. Rejected and ignored examples are left out.

    files (list[InputFile]): A file of JSON lines for each part. A line is a document, or a piece of the document that
        its `doc_id` names, by itself or in its `meta`.
    report (ReadingReport): Gets malformed records, and spans without an id.
    id_key (str): The key of a span's id: text with "|" between several ids, or a list.
    RETURNS (CorpusParts): The mentions of each part, and the texts.
    """
    corpus = CorpusParts()
    for part, file in find_parts(files, LINES, report).items():
        texts = corpus.texts.setdefault(part, {})
        mentions = corpus.mentions.setdefault(part, [])
        for doc_id, place, record in parse_prodigy(file.lines(report), file.label, part, report):
            texts[doc_id] = record["text"]
            for span, written in parse_spans(record, id_key, place, report):
                if not written:
                    report.leave_out(f"spans without {id_key!r} (NIL has to be written)", place)
                    continue
                ids = split_ids(written, keep_prefixes=True)
                mention = Mention("", ids, doc_id, type=span.label, raw_id=written, place=place)
                mentions.append(locate(mention, plain_text(record["text"]), span.start, span.end))
        corpus.documents[part] = len(texts)
    return corpus
