"""XL-BEL: CUIs and a mention, and in version 1.0 the sentence that it stands in."""

from __future__ import annotations

import re

from spacy_sapbert.exchange.fields import plain_text, split_ids

from ....data.mentions import Mention
from .inputs import InputFile
from .parts import find_parts
from .records import CorpusParts, locate
from .report import ReadingReport

XLBEL = r"(?:.*/)?(?P<part>[a-z]{2})_1k_test_query(?:_with_context)?\.txt"
FORM = "CUI||mention, or CUI||mention||sentence with <tgt>mention</tgt>; several CUIs with | between them"
TARGET = re.compile(r"<tgt>(.*?)</tgt>")


def read_xlbel(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read XL-BEL, version 0.0 (without sentences) or 1.0.

    files (list[InputFile]): <language>_1k_test_query.txt or <language>_1k_test_query_with_context.txt; of one version.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): The mentions of each language.
    """
    corpus = CorpusParts()
    for language, file in find_parts(files, XLBEL, report).items():
        mentions = corpus.mentions.setdefault(language.lower(), [])
        for number, line in file.lines(report):
            place = f"{file.label}, line {number}"
            fields = line.split("||", 2)
            if not line.strip():
                continue
            if len(fields) < 2 or not fields[1].strip():
                report.refuse(place, "no mention", FORM)
                continue
            mention = Mention(plain_text(fields[1]).strip(), split_ids(fields[0]), place=place)
            mentions.append(_add_sentence(mention, fields[2], report) if len(fields) == 3 else mention)
    return corpus


def _add_sentence(mention: Mention, sentence: str, report: ReadingReport) -> Mention:
    sentence = plain_text(sentence)
    found = TARGET.search(sentence)
    if not found or found[1].strip() != mention.text:
        report.note_odd("sentences in which another mention or none is marked, left away", mention.place)
        return mention
    before = TARGET.sub(r"\1", sentence[: found.start()])
    text = before + found[1] + TARGET.sub(r"\1", sentence[found.end() :])
    return locate(mention, text, len(before), len(before) + len(found[1]))
