"""The Mantra gold standard corpus in brat's form: a text file and an annotation file for each document."""

from __future__ import annotations

import re
from dataclasses import replace

from spacy_sapbert.exchange.fields import plain_text

from ....data.mentions import Mention
from ....errors import Errors
from .inputs import InputFile
from .mantra import add_mentions, make_mention
from .parts import match_files
from .records import CorpusParts
from .report import ReadingReport

BRAT = r"(?:.*/)?(?P<language>English|German|French|Spanish|Dutch)/(?P<set>[^/]+)/(?P<doc>[^/]+)\.(?P<kind>txt|ann)"
LANGUAGES = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "dutch": "nl"}
FORM = "T1, tab, CUI start end;start end, tab, mention; and #1, tab, AnnotatorNotes T1, tab, notes"
SPANS = re.compile(r"(\S+) (\d+ \d+(?:;\d+ \d+)*)")
GROUP = re.compile(r'"([A-Z]{4})"')


def read_mantra_brat(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read Mantra as it is released: <language>/<set>/<document>.txt and .ann, in a folder or an archive.

    files (list[InputFile]): The files.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): The mentions of each language, with all CUIs of a span in one mention, and the mentions that
        are not in one piece, and single annotations, as parts of their own: "de_discontinuous", "de_annotations".
    """
    pairs: dict[tuple[str, str], dict[str, InputFile]] = {}
    for found, file in match_files(files, BRAT, report):
        # The set is named after the settings that its annotations were joined with: EMEA_ec22-cui-best_man.
        doc_id = f"{found['set'].split('_ec')[0]}/{found['doc']}"
        pair = pairs.setdefault((LANGUAGES[found["language"].lower()], doc_id), {})
        other = pair.setdefault(found["kind"].lower(), file)
        if other is not file:
            raise ValueError(Errors.E704.format(part=f"document {doc_id}", first=other.label, second=file.label))
    corpus = CorpusParts()
    for (language, doc_id), pair in pairs.items():
        if "ann" in pair and "txt" in pair:
            text = plain_text(pair["txt"].text(report))
            mentions = _read_document(doc_id, text, pair["ann"], report)
            add_mentions(corpus, language, doc_id, text, mentions, report)
        else:
            report.refuse(next(iter(pair.values())).label, "a text without annotations, or the other way", FORM)
    return corpus


def _read_document(doc_id: str, text: str, file: InputFile, report: ReadingReport) -> list[Mention]:
    mentions: dict[str, Mention] = {}
    for number, line in file.lines(report):
        place = f"{file.label}, line {number}, document {doc_id}"
        fields = line.split("\t")
        if line.startswith("#") and len(fields) == 3:
            name, group = fields[1].split(" ")[-1], GROUP.search(fields[2])
            if name in mentions and group:
                mentions[name] = replace(mentions[name], type=group[1])
        elif found := SPANS.fullmatch(fields[1]) if line.startswith("T") and len(fields) == 3 else None:
            spans = [(int(start), int(end)) for start, end in (span.split(" ") for span in found[2].split(";"))]
            made = make_mention(doc_id, text, spans, fields[2], found[1])
            if fields[0] in mentions:
                made = f"a second {fields[0]}"
            if isinstance(made, str):
                report.refuse(place, made, FORM)
            else:
                mentions[fields[0]] = replace(made, place=place)
        elif line.strip():
            report.refuse(place, f"an unknown line {line!r:.60}", FORM)
    return list(mentions.values())
