"""Brat's standoff form: a text file and an annotation file for each document, with ids as normalizations."""

from __future__ import annotations

from dataclasses import replace

from spacy_sapbert.exchange.brat import FORM, BratMention, parse_brat
from spacy_sapbert.exchange.fields import plain_text, split_ids

from ....data.mentions import Mention
from ....errors import Errors
from .inputs import InputFile
from .parts import PART_NAMES, match_files
from .records import CorpusParts, locate
from .report import ReadingReport

BRAT = r"(?:(?P<part>.+)/)?(?P<doc>[^/]+)\.(?P<kind>txt|ann)"
WITHOUT_FOLDER = "documents"


def read_brat(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read documents in brat's form. The id of a mention is that of its normalizations (lines with N), as written.

    files (list[InputFile]): <document>.txt and <document>.ann. Folders are parts, such as train and test.
    report (ReadingReport): Gets malformed records, and annotations that are no mentions.
    RETURNS (CorpusParts): The mentions of each part, those without a normalization left out, and the texts.
    RAISES (ValueError): If there are no such files, or two of one name.
    """
    pairs: dict[tuple[str, str], dict[str, InputFile]] = {}
    for found, file in match_files(files, BRAT, report):
        folder = found["part"] or WITHOUT_FOLDER
        part = PART_NAMES.get(folder.lower(), folder.replace("/", "."))
        other = pairs.setdefault((part, found["doc"]), {}).setdefault(found["kind"].lower(), file)
        if other is not file:
            raise ValueError(Errors.E704.format(part=f"document {found['doc']}", first=other.label, second=file.label))
    corpus = CorpusParts()
    for (part, doc_id), pair in pairs.items():
        if len(pair) < 2:
            report.refuse(next(iter(pair.values())).label, "a text without annotations, or the other way", FORM)
            continue
        text = pair["txt"].text(report)
        corpus.documents[part] = corpus.documents.get(part, 0) + 1
        corpus.texts.setdefault(part, {})[doc_id] = text
        corpus.mentions.setdefault(part, []).extend(_read_document(doc_id, text, pair["ann"], report))
    return corpus


def _read_document(doc_id: str, text: str, file: InputFile, report: ReadingReport) -> list[Mention]:
    mentions = []
    for mention in parse_brat(text, file.lines(report), file.label, report):
        if mention.ids:
            mentions.append(_make_mention(doc_id, text, mention))
        else:
            report.leave_out("mentions that no line normalizes (NIL has to be written)", mention.place)
    return mentions


def _make_mention(doc_id: str, text: str, found: BratMention) -> Mention:
    raw_id = "|".join(found.ids)
    ids = split_ids(raw_id, keep_prefixes=True)
    mention = Mention(found.text, ids, doc_id, type=found.type, raw_id=raw_id, place=found.place)
    if found.is_in_pieces(text):
        fragments = [list(place) for place in found.places]
        return replace(mention, text=" ".join(found.text.split()), fragments=fragments)
    return locate(mention, plain_text(text), found.places[0][0], found.places[-1][1])
