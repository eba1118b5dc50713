"""spaCy documents with gold mentions, made of the texts and mentions of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from spacy.tokens import Doc, DocBin, Span, SpanGroup

from ...data.mentions import Mention
from ...data.run_folder import write_whole
from ..corpora.readers.docbin import DOC_ID, OVERLAPPING
from ..corpora.readers.records import CorpusParts
from ..corpora.readers.report import ReadingReport

NIL, ID_SEPARATOR, LABEL = "NIL", "|", "MENTION"
# Between a document's name and the number of a piece of it.
PIECE = "#"


def name_document(doc: Doc) -> str:
    """Name the document that a text is, or is a piece of.

    doc (Doc): A document that `make_gold_docs` has made.
    RETURNS (str): Its name; texts with equal names belong together in a split.
    """
    return str(doc.user_data.get(DOC_ID, "")).partition(PIECE)[0]


def make_gold_docs(
    corpus: CorpusParts, part: str, make_doc: Callable[[str], Doc], report: ReadingReport
) -> Iterator[Doc]:
    """Make the documents of a part of a corpus.

    Gold mentions are entities, with their ids in `kb_id_`: several with "|" between them, or "NIL". Of mentions that
    overlap, the longest is an entity; the others are in the span group `OVERLAPPING`. A mention that begins or ends
    inside a token is extended to whole tokens.

    corpus (CorpusParts): The corpus. Where it has no whole texts, each mention is a document, with the text around it.
    part (str): The part.
    make_doc (Callable[[str], Doc]): The tokenizer.
    report (ReadingReport): Counts extended and overlapping mentions, and those that are left out.
    YIELDS (Doc): The documents, with their names in `user_data`.
    """
    texts = corpus.texts.get(part, {})
    mentions: dict[str, list[Mention]] = {doc_id: [] for doc_id in texts}
    for number, mention in enumerate(corpus.mentions.get(part, ()), 1):
        if mention.doc_id in texts:
            mentions[mention.doc_id].append(mention)
        else:
            yield _make_doc(*_stand_alone(mention, f"{part}-{number}", number), make_doc, report)
    for doc_id, text in texts.items():
        yield _make_doc(doc_id, text, mentions[doc_id], make_doc, report)


def _stand_alone(mention: Mention, name: str, number: int) -> tuple[str, str, list[Mention]]:
    """Make a text of a mention whose document is not known: the text around it, or the mention itself."""
    doc_id = f"{mention.doc_id}{PIECE}{number}" if mention.doc_id else name
    if mention.start is None or mention.window_start is None or not mention.window:
        return doc_id, mention.text, [replace(mention, start=0, end=len(mention.text), fragments=[])]
    end = mention.start + len(mention.text) if mention.end is None else mention.end
    first = mention.window_start
    return doc_id, mention.window, [replace(mention, start=mention.start - first, end=end - first)]


def _make_doc(
    doc_id: str, text: str, mentions: list[Mention], make_doc: Callable[[str], Doc], report: ReadingReport
) -> Doc:
    doc = make_doc(text)
    doc.user_data[DOC_ID] = doc_id
    spans: list[Span] = []
    for mention in mentions:
        place = f"{mention.place or f'document {doc_id}'}: {mention.text!r:.60}"
        if mention.start is None or mention.end is None:
            report.leave_out("mentions in several pieces", place)
            continue
        span = doc.char_span(
            mention.start,
            mention.end,
            label=mention.type or LABEL,
            kb_id=ID_SEPARATOR.join(mention.ids) or NIL,
            alignment_mode="expand",
        )
        if span is None:
            report.leave_out("mentions outside of their text", place)
            continue
        if (span.start_char, span.end_char) != (mention.start, mention.end):
            report.note_odd("mentions extended to whole tokens", place)
        spans.append(span)
    ents, others = split_overlapping(spans)
    for span in others:
        report.note_odd("mentions that overlap a longer one", f"document {doc_id}: {span.text!r:.60}")
    doc.ents = ents
    if others:
        doc.spans[OVERLAPPING] = SpanGroup(doc, name=OVERLAPPING, spans=others)
    return doc


def split_overlapping(spans: Iterable[Span]) -> tuple[list[Span], list[Span]]:
    """Choose spans that do not overlap: the longest first, the first of equal ones.

    spans (Iterable[Span]): The spans of a document.
    RETURNS (tuple[list[Span], list[Span]]): The chosen ones and the others, in the order of the text.
    """
    chosen: list[Span] = []
    others: list[Span] = []
    taken: set[int] = set()
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        is_free = taken.isdisjoint(range(span.start, span.end))
        (chosen if is_free else others).append(span)
        taken.update(range(span.start, span.end) if is_free else ())
    return sorted(chosen, key=lambda span: span.start), sorted(others, key=lambda span: span.start)


def list_gold_spans(doc: Doc) -> list[Span]:
    """List the gold mentions of a document.

    doc (Doc): The document.
    RETURNS (list[Span]): Its entities with an id, and the mentions that overlap them.
    """
    overlapping: Iterable[Span] = doc.spans[OVERLAPPING] if OVERLAPPING in doc.spans else ()
    return [span for span in (*doc.ents, *overlapping) if span.kb_id_]


def write_docs(path: Path, docs: Iterable[Doc]) -> None:
    """Write documents with their names, for `spacy train`.

    path (Path): The file, .spacy; its folder is made if missing.
    docs (Iterable[Doc]): The documents.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as temporary:
        temporary.write_bytes(DocBin(docs=docs, store_user_data=True).to_bytes())
