"""spaCy documents with gold mentions, made of the texts and mentions of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import DOC_ID, LABEL, OVERLAPPING, AnnotatedText, Annotation, make_doc
from spacy_sapbert.exchange.fields import ID_SEPARATOR

from ...data.mentions import Mention
from ..corpora.readers.records import CorpusParts
from ..corpora.readers.report import ReadingReport

# Between a document's name and the number of a piece of it.
PIECE = "#"


def name_document(doc: Doc) -> str:
    """Name the document that a text is, or is a piece of.

    doc (Doc): A document that `make_gold_docs` has made.
    RETURNS (str): Its name; texts with equal names belong together in a split.
    """
    return str(doc.user_data.get(DOC_ID, "")).partition(PIECE)[0]


def make_gold_docs(
    corpus: CorpusParts, part: str, tokenize: Callable[[str], Doc], report: ReadingReport
) -> Iterator[Doc]:
    """Make the documents of a part of a corpus.

    Gold mentions are entities, with their ids in `kb_id_`: several with "|" between them, or "NIL". Of mentions that
    overlap, the longest is an entity; the others are in the span group `OVERLAPPING`. A mention that begins or ends
    inside a token is extended to whole tokens.

    corpus (CorpusParts): The corpus. Where it has no whole texts, each mention is a document, with the text around it.
    part (str): The part.
    tokenize (Callable[[str], Doc]): The tokenizer.
    report (ReadingReport): Counts extended and overlapping mentions, and those that are left out.
    YIELDS (Doc): The documents, with their names in `user_data`.
    """
    texts = corpus.texts.get(part, {})
    mentions: dict[str, list[Mention]] = {doc_id: [] for doc_id in texts}
    for number, mention in enumerate(corpus.mentions.get(part, ()), 1):
        if mention.doc_id in texts:
            mentions[mention.doc_id].append(mention)
        else:
            yield _make_doc(*_stand_alone(mention, f"{part}-{number}", number), tokenize, report)
    for doc_id, text in texts.items():
        yield _make_doc(doc_id, text, mentions[doc_id], tokenize, report)


def _stand_alone(mention: Mention, name: str, number: int) -> tuple[str, str, list[Mention]]:
    """Make a text of a mention whose document is not known: the text around it, or the mention itself."""
    doc_id = f"{mention.doc_id}{PIECE}{number}" if mention.doc_id else name
    if mention.start is None or mention.window_start is None or not mention.window:
        return doc_id, mention.text, [replace(mention, start=0, end=len(mention.text), fragments=[])]
    end = mention.start + len(mention.text) if mention.end is None else mention.end
    first = mention.window_start
    return doc_id, mention.window, [replace(mention, start=mention.start - first, end=end - first)]


def _make_doc(
    doc_id: str, text: str, mentions: list[Mention], tokenize: Callable[[str], Doc], report: ReadingReport
) -> Doc:
    annotations = []
    for mention in mentions:
        place = mention.place or f"document {doc_id}"
        if mention.start is None or mention.end is None:
            report.leave_out("mentions in several pieces", f"{place}: {mention.text!r:.60}")
            continue
        kb_id = ID_SEPARATOR.join(mention.ids) or NIL
        annotations.append(Annotation(mention.start, mention.end, mention.type or LABEL, kb_id, place))
    return make_doc(AnnotatedText(doc_id, text, annotations), tokenize, report, inside_tokens="expand")


def list_gold_spans(doc: Doc) -> list[Span]:
    """List the gold mentions of a document.

    doc (Doc): The document.
    RETURNS (list[Span]): Its entities with an id, and the mentions that overlap them.
    """
    overlapping: Iterable[Span] = doc.spans[OVERLAPPING] if OVERLAPPING in doc.spans else ()
    return [span for span in (*doc.ents, *overlapping) if span.kb_id_]
