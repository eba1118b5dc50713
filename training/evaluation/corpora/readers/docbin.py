"""spaCy's DocBin, with the ids of entities in `kb_id_`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from spacy.tokens import Doc, Span

from spacy_sapbert.exchange.documents import DOC_ID, OVERLAPPING, parse_docs
from spacy_sapbert.exchange.fields import plain_text, split_ids

from ....data.mentions import Mention
from .inputs import InputFile
from .parts import find_parts
from .records import CorpusParts, locate
from .report import ReadingReport

DOCBIN = r"(?P<part>.+)\.spacy"


def read_docbin(files: list[InputFile], report: ReadingReport) -> CorpusParts:
    """Read documents of spaCy. Entities without an id are left out: nobody has said what they are.

    files (list[InputFile]): A file for each part.
    report (ReadingReport): Gets damaged files, and entities without an id.
    RETURNS (CorpusParts): The mentions of each part, and the texts.
    """
    corpus = CorpusParts()
    for part, file in find_parts(files, DOCBIN, report).items():
        texts = corpus.texts.setdefault(part, {})
        mentions = corpus.mentions.setdefault(part, [])
        for number, doc in enumerate(parse_docs(file.read(), file.label, report), 1):
            doc_id = str(doc.user_data.get(DOC_ID) or f"{part}-{number}")
            doc_id = f"{doc_id}#{number}" if doc_id in texts else doc_id
            texts[doc_id] = doc.text
            mentions += _read_spans(doc, doc_id, f"{file.label}, document {doc_id}", report)
        corpus.documents[part] = len(texts)
    return corpus


def _read_spans(doc: Doc, doc_id: str, place: str, report: ReadingReport) -> list[Mention]:
    text, mentions = plain_text(doc.text), []
    overlapping: Iterable[Span] = doc.spans[OVERLAPPING] if OVERLAPPING in doc.spans else ()
    for span in chain(doc.ents, overlapping):
        if not span.kb_id_:
            report.leave_out("entities without an id (NIL has to be written)", f"{place}: {span.text}")
            continue
        ids = split_ids(span.kb_id_, keep_prefixes=True)
        mention = Mention("", ids, doc_id, type=span.label_, raw_id=span.kb_id_, place=place)
        mentions.append(locate(mention, text, span.start_char, span.end_char))
    return mentions
