"""Code common to both formats of the Mantra gold standard corpus: mentions of several CUIs, or of several pieces.

A language has three parts: "de", with all CUIs of a span in one mention; "de_discontinuous", the mentions in several
pieces; and "de_annotations", one mention for each annotation, as CODER's experiments count them. The last has those in
several pieces too: the mention is the text of all, with spaces between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spacy_sapbert.exchange.fields import split_ids

from ....data.mentions import Mention
from .records import CorpusParts, locate
from .report import ReadingReport

DISCONTINUOUS, ANNOTATIONS = "_discontinuous", "_annotations"


def make_mention(
    doc_id: str, text: str, spans: Sequence[tuple[int, int]], mention: str, raw_id: str, group: str = ""
) -> Mention | str:
    """Make a mention of an annotation, if it fits to the text.

    doc_id (str): The document.
    text (str): Its text.
    spans (Sequence[tuple[int, int]]): Where the pieces of the mention are.
    mention (str): The pieces with spaces between them.
    raw_id (str): Its CUI.
    group (str): Its semantic group.
    RETURNS (Mention | str): The mention, or a description of the fault.
    """
    found = " ".join(text[start:end] for start, end in spans)
    if not mention.strip() or not all(text[start:end].strip() for start, end in spans):
        return "an empty mention"
    if found.split() != mention.split():
        return f"the text at {list(spans)} is {found!r:.80}, but the mention is {mention!r:.80}"
    if len(spans) > 1:
        fragments = [list(span) for span in spans]
        return Mention(" ".join(mention.split()), split_ids(raw_id), doc_id, type=group, fragments=fragments)
    return locate(Mention(mention, split_ids(raw_id), doc_id, type=group), text, *spans[0])


def add_mentions(
    corpus: CorpusParts, language: str, doc_id: str, text: str, mentions: list[Mention], report: ReadingReport
) -> None:
    """Add the mentions of a document: each annotation, and all CUIs of a span in one mention.

    corpus (CorpusParts): The corpus to extend.
    language (str): The part.
    doc_id (str): The document.
    text (str): Its text.
    mentions (list[Mention]): One for each annotation.
    report (ReadingReport): Gets the annotations that were joined, and those that are there twice.
    """
    joined: dict[tuple[object, ...], Mention] = {}
    for mention in mentions:
        key = (mention.start, mention.end, str(mention.fragments))
        if key in joined:
            other = joined[key]
            report.note_odd("annotations joined with another one of the same span", mention.place)
            if set(mention.ids) <= set(other.ids):
                report.note_odd("annotations of the same span and concept as another one", mention.place)
            joined[key] = replace(other, ids=list(dict.fromkeys(other.ids + mention.ids)))
        else:
            joined[key] = mention
    for part in (language, language + ANNOTATIONS):
        corpus.texts.setdefault(part, {})[doc_id] = text
        corpus.documents[part] = corpus.documents.get(part, 0) + 1
    for mention in joined.values():
        if mention.fragments:
            report.note_odd("mentions in several pieces, written to a part of their own", mention.place)
        part = language + DISCONTINUOUS if mention.fragments else language
        corpus.mentions.setdefault(part, []).append(mention)
    if mentions:
        corpus.mentions.setdefault(language + ANNOTATIONS, []).extend(mentions)
