"""The Mantra gold standard corpus in XML, version 1.1."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from xml.parsers import expat

from spacy_sapbert.exchange.fields import plain_text

from ....data.mentions import Mention
from .inputs import InputFile
from .mantra import add_mentions, make_mention
from .parts import match_files
from .records import CorpusParts
from .report import ReadingReport

XML = r"(?:.*/)?(?P<set>[A-Za-z]+)_GSC_(?P<language>[a-z]{2})_man\.xml"
FORM = '<document id=""><unit><text>...</text><e offset="" len="" cui="" grp="">mention</e></unit></document>'


@dataclass
class Unit:
    """A unit of text and its annotations.

    doc_id (str): The document's id.
    text (str): Its text.
    annotations (list[tuple[int, dict, str]]): The line, the attributes and the text of each annotation.
    """

    doc_id: str
    text: str = ""
    annotations: list[tuple[int, dict[str, str], str]] = field(default_factory=list)


def read_mantra_xml(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read Mantra from files <set>_GSC_<language>_man.xml.

    files (list[InputFile]): The files.
    report (ReadingReport): Gets malformed and odd records.
    RETURNS (CorpusParts): What `read_mantra_brat` gives.
    """
    corpus = CorpusParts()
    seen: set[tuple[str, str]] = set()
    for found, file in match_files(files, XML, report):
        for unit in _Parser(file, report).units:
            text, doc_id = plain_text(unit.text), f"{found['set']}/{unit.doc_id}"
            if (found["language"], doc_id) in seen:
                report.leave_out("documents that a part has twice", f"{file.label}, document {doc_id}")
                continue
            seen.add((found["language"], doc_id))
            mentions: list[Mention] = []
            for line, attributes, mention in unit.annotations:
                place = f"{file.label}, line {line}, document {doc_id}"
                made = _make_mention(doc_id, text, attributes, plain_text(mention))
                if isinstance(made, str):
                    report.refuse(place, made, FORM)
                else:
                    mentions.append(replace(made, place=place))
            add_mentions(corpus, found["language"].lower(), doc_id, text, mentions, report)
    return corpus


def _make_mention(doc_id: str, text: str, attributes: dict[str, str], mention: str) -> Mention | str:
    offset, length = attributes.get("offset", ""), attributes.get("len", "")
    if not (offset.isdecimal() and length.isdecimal()):
        return f"the offset {offset!r:.20} and the length {length!r:.20} are not both numbers"
    start, end = int(offset), int(offset) + int(length)
    spans = [(start, end)]
    if text[start:end].split() != mention.split():
        # The form gives one span for a mention of several pieces.
        spans = _find_pieces(text, start, end, mention) or spans
    return make_mention(doc_id, text, spans, mention, attributes.get("cui", ""), attributes.get("grp", ""))


def _find_pieces(text: str, start: int, end: int, mention: str) -> list[tuple[int, int]]:
    """Find the words of a mention in their order; none if one is not there."""
    spans = []
    for word in mention.split():
        place = text.find(word, start, end)
        if place < 0:
            return []
        start = place + len(word)
        spans.append((place, start))
    return spans


class _Parser:
    """Collect the units of a file. Not ElementTree: that does not tell in which line an element is."""

    def __init__(self, file: InputFile, report: ReadingReport) -> None:
        self.units: list[Unit] = []
        self._doc_id = ""
        self._open: list[tuple[int, dict[str, str], list[str]]] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        try:
            self._parser.Parse(file.read(), True)
        except expat.ExpatError as error:
            report.refuse(f"{file.label}, line {error.lineno}", f"no well-formed XML ({error})", FORM)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "document":
            self._doc_id = attributes.get("id", "")
        elif name == "unit":
            self.units.append(Unit(attributes.get("id") or self._doc_id))
        self._open.append((self._parser.CurrentLineNumber, attributes, []))

    def _end(self, name: str) -> None:
        line, attributes, pieces = self._open.pop()
        if self.units and name == "text":
            self.units[-1].text = "".join(pieces)
        elif self.units and name == "e":
            self.units[-1].annotations.append((line, attributes, "".join(pieces)))

    def _add_text(self, data: str) -> None:
        if self._open:
            self._open[-1][2].append(data)
