"""Brat's standoff form: a text file and an annotation file for each document, with ids as normalizations."""

from __future__ import annotations

import re
from dataclasses import replace

from ....data.mentions import Mention
from ....errors import Errors
from .inputs import InputFile
from .parts import PART_NAMES, match_files
from .records import CorpusParts, locate, plain_text, split_ids
from .report import ReadingReport

BRAT = r"(?:(?P<part>.+)/)?(?P<doc>[^/]+)\.(?P<kind>txt|ann)"
FORM = "T1, tab, type start end, tab, mention; and N1, tab, Reference T1 id, tab, name"
SPANS = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")
REFERENCE = re.compile(r"\S+ (T\S+) (\S+)")
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
    mentions: dict[str, Mention] = {}
    ids: dict[str, list[str]] = {}
    for number, line in file.lines(report):
        place = f"{file.label}, line {number}"
        fields = line.split("\t")
        spans = SPANS.fullmatch(fields[1]) if line.startswith("T") and len(fields) == 3 else None
        reference = REFERENCE.match(fields[1]) if line.startswith("N") and len(fields) > 1 else None
        if spans and fields[0] not in mentions:
            made = _make_mention(doc_id, text, spans[1], spans[2], fields[2])
            if isinstance(made, str):
                report.refuse(place, made, FORM)
            else:
                mentions[fields[0]] = replace(made, place=place)
        elif reference:
            ids.setdefault(reference[1], []).append(reference[2])
        elif line.startswith(("T", "N")):
            report.refuse(place, f"an unknown line, or a second {fields[0]}: {line!r:.60}", FORM)
        elif line.strip():
            report.leave_out("annotations that are neither mentions nor normalizations", place)
    for name, mention in mentions.items():
        if name not in ids:
            report.leave_out("mentions that no line normalizes (NIL has to be written)", mention.place)
    return [_identify(mention, ids[name]) for name, mention in mentions.items() if name in ids]


def _make_mention(doc_id: str, text: str, kind: str, spans: str, written: str) -> Mention | str:
    places = [(int(start), int(end)) for start, end in (span.split(" ") for span in spans.split(";"))]
    found = " ".join(text[start:end] for start, end in places)
    if not written.strip():
        return "an empty mention"
    if found.split() != written.split():
        return f"the text at {places} is {found!r:.80}, but the mention is {written!r:.80}"
    between = "".join(text[end:start] for (_, end), (start, _) in zip(places, places[1:], strict=False))
    if between.strip():
        return Mention(" ".join(written.split()), [], doc_id, type=kind, fragments=[list(span) for span in places])
    # A mention that goes over a line end has a piece for each line.
    return locate(Mention(written, [], doc_id, type=kind), plain_text(text), places[0][0], places[-1][1])


def _identify(mention: Mention, written: list[str]) -> Mention:
    raw_id = "|".join(written)
    return replace(mention, ids=split_ids(raw_id, keep_prefixes=True), raw_id=raw_id)
