"""What is exchanged: texts with annotations, and the way from and to spaCy's documents.

Offsets are counted in code points, as Python and spaCy do. Formats that count otherwise convert them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spacy.tokens import Doc, Span, SpanGroup

from ..annotations import ATTRIBUTE, NIL, read_attribute
from ..candidates import Candidate
from ..context import ContextReader, MentionContext, read_contexts, write_context
from .fields import number_name, trim_span
from .report import ExchangeReport

# The document's id in `Doc.user_data`, and the span group of mentions that overlap an entity.
DOC_ID, OVERLAPPING = "doc_id", "overlapping"
# The label of mentions without one: spaCy drops entities that have none.
LABEL = "MENTION"
# What is done with a mention that begins or ends inside of a token: spaCy has no such spans.
InsideTokens = Literal["leave_out", "expand"]


@dataclass(frozen=True)
class Annotation:
    """A mention and its ids.

    start (int): Where it starts in the text, in code points.
    end (int): Where it ends.
    label (str): Its label.
    kb_id (str): Its ids with "|" between them; "NIL" for no concept, and "" where nobody has said which concept it is.
    place (str): The file and line, for messages.
    candidate (Candidate | None): What the linker says of the concept.
    context (MentionContext | None): Whether it is negated, and such; None where nobody has said.
    """

    start: int
    end: int
    label: str = ""
    kb_id: str = ""
    place: str = field(default="", compare=False)
    candidate: Candidate | None = field(default=None, compare=False)
    context: MentionContext | None = None


@dataclass(frozen=True)
class AnnotatedText:
    """A document's text and its annotations.

    doc_id (str): The document's name.
    text (str): Its text.
    annotations (list[Annotation]): Its mentions.
    """

    doc_id: str
    text: str
    annotations: list[Annotation]


def name_docs(docs: Iterable[Doc], report: ExchangeReport) -> Iterator[tuple[str, Doc]]:
    """Name documents by what their `user_data` say, or by their numbers.

    docs (Iterable[Doc]): The documents.
    report (ExchangeReport): Counts names that are there twice.
    YIELDS (tuple[str, Doc]): A name that no other document has, and the document.
    """
    known: set[str] = set()
    for number, doc in enumerate(docs, 1):
        given = str(doc.user_data.get(DOC_ID) or f"document-{number}")
        name = number_name(given, known, number)
        if name != given:
            report.note_odd("documents with the name of another one, which get a number", f"document {name}")
        yield name, doc


def list_spans(doc: Doc, spans_keys: Sequence[str] = ()) -> list[Span]:
    """List the mentions of a document.

    doc (Doc): The document.
    spans_keys (Sequence[str]): Span groups with further mentions. Those that overlap entities are there anyway.
    RETURNS (list[Span]): Entities, then the spans of the groups, each span with its label and id once.
    """
    groups = [doc.spans[key] for key in dict.fromkeys((OVERLAPPING, *spans_keys)) if key in doc.spans]
    spans = [*doc.ents, *(span for group in groups for span in group)]
    return list({(span.start_char, span.end_char, span.label_, span.kb_id_): span for span in spans}.values())


def annotate(
    doc_id: str, doc: Doc, spans_keys: Sequence[str] = (), read: ContextReader = read_contexts
) -> AnnotatedText:
    """Take text and mentions out of a document.

    doc_id (str): The document's name.
    doc (Doc): The document.
    spans_keys (Sequence[str]): Span groups with further mentions.
    read (ContextReader): Reads the contexts of mentions.
    RETURNS (AnnotatedText): They.
    """
    spans, annotations = list_spans(doc, spans_keys), []
    for span, context in zip(spans, read(spans), strict=True):
        place = span.start_char, span.end_char, span.label_, span.kb_id_
        annotations.append(Annotation(*place, candidate=find_candidate(span), context=context))
    return AnnotatedText(doc_id, doc.text, annotations)


def find_candidate(span: Span, attribute: str = ATTRIBUTE) -> Candidate | None:
    """Find the candidate that was chosen for a mention.

    span (Span): The mention.
    attribute (str): The linker's setting of this name.
    RETURNS (Candidate | None): The candidate with the mention's id, or None.
    """
    return next((found for found in read_attribute(span, attribute) if found["id"] == span.kb_id_), None)


def is_linked(kb_id: str) -> bool:
    """Tell whether a mention has a concept.

    kb_id (str): Its `kb_id_`.
    RETURNS (bool): Whether it has; "NIL" says that it has none.
    """
    return kb_id not in ("", NIL)


def make_doc(
    document: AnnotatedText,
    tokenize: Callable[[str], Doc],
    report: ExchangeReport,
    *,
    inside_tokens: InsideTokens = "leave_out",
) -> Doc:
    """Make a document of spaCy, with the mentions as entities and their ids in `kb_id_`.

    Of mentions that overlap, the longest is an entity; the others are in the span group `OVERLAPPING`.

    document (AnnotatedText): Text and mentions.
    tokenize (Callable): Makes a document of a text, as `nlp.make_doc` does.
    report (ExchangeReport): Counts overlapping mentions, and those that begin or end inside of tokens.
    inside_tokens (str): "leave_out" such mentions, or "expand" them to whole tokens.
    RETURNS (Doc): The document, with its name in `user_data`.
    """
    doc = tokenize(document.text)
    doc.user_data[DOC_ID] = document.doc_id
    spans = []
    for annotation in document.annotations:
        span = _make_span(doc, document, annotation, report, inside_tokens)
        spans += [] if span is None else [span]
    ents, others = split_overlapping(spans)
    for span in others:
        report.note_odd("mentions that overlap a longer one", f"document {document.doc_id}: {span.text!r:.60}")
    doc.ents = ents
    if others:
        doc.spans[OVERLAPPING] = SpanGroup(doc, name=OVERLAPPING, spans=others)
    return doc


def _make_span(
    doc: Doc, document: AnnotatedText, annotation: Annotation, report: ExchangeReport, inside_tokens: InsideTokens
) -> Span | None:
    start, end = annotation.start, annotation.end
    place = f"{annotation.place or f'document {document.doc_id}'}: {document.text[start:end]!r:.60}"
    if not 0 <= start < end <= len(document.text):
        report.leave_out("mentions outside of their text", place)
        return None
    if not annotation.label:
        report.note_odd(f"mentions without a label, which get {LABEL!r}", place)
    span = _cut_span(doc, annotation, start, end, "strict")
    if span is None:
        # Spaces between tokens are in no token; annotators often mark one too many.
        start, end = trim_span(document.text, start, end)
        span = _cut_span(doc, annotation, start, end, "strict")
        if span is not None:
            report.note_odd("mentions with white space at their ends, which is left off", place)
    if span is None and inside_tokens == "expand":
        span = _cut_span(doc, annotation, start, end, "expand")
        if span is not None:
            report.note_odd("mentions extended to whole tokens", place)
    if span is None:
        report.leave_out("mentions that begin or end inside of a token", place)
    return span


def _cut_span(doc: Doc, annotation: Annotation, start: int, end: int, mode: str) -> Span | None:
    if start >= end:
        return None
    label, kb_id = annotation.label or LABEL, annotation.kb_id
    span: Span | None = doc.char_span(start, end, label=label, kb_id=kb_id, alignment_mode=mode)
    if span is not None and annotation.context is not None:
        write_context(span, annotation.context)
    return span


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
