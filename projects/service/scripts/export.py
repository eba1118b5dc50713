"""The mentions of a text as a file for other programs, written by the plugin's exchange."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from gold import AnnotatedRequest, Correction
from limits import Text
from pydantic import Field
from spacy.tokens import Doc, Span

from spacy_sapbert.context import MentionContext, has_context, read_context
from spacy_sapbert.exchange.documents import AnnotatedText, Annotation, ExchangeReport
from spacy_sapbert.exchange.fhir import CodeableConcepts, CodeFinder
from spacy_sapbert.exchange.formats import dump_table
from spacy_sapbert.linker import SapbertLinker


class ExportRequest(AnnotatedRequest):
    """A text with the mentions to write: a table, or a CodeableConcept for each as lines of JSON."""

    format: Literal["csv", "fhir"]
    document: Annotated[Text, Field(min_length=1, max_length=1000)] = "text"  # its name


def export_doc(doc: Doc, request: ExportRequest, linker: SapbertLinker) -> dict[str, Any]:
    """Write the mentions of a request; the document has the candidates that the pipeline proposes for them."""
    report = ExchangeReport("skip")
    texts = [AnnotatedText(request.document, doc.text, annotate(doc, request.spans, report))]
    if request.format == "csv":
        content = dump_csv(texts, report)
    else:
        content = dump_lines(make_concepts(linker, report).list_rows(texts))
    return {"content": content, **count_notes(report)}


def dump_csv(texts: Iterable[AnnotatedText], report: ExchangeReport) -> str:
    """Write mentions as a table. Somebody opens it in a spreadsheet, which would run what looks like a formula."""
    return dict(dump_table(texts, report, ending="csv", escape_formulas=True))["mentions.csv"]


def make_concepts(linker: SapbertLinker, report: ExchangeReport) -> CodeableConcepts:
    """Make what writes a CodeableConcept for each mention."""
    return CodeableConcepts(CodeFinder(linker.terminology, attribute=linker.attribute), report)


def dump_lines(rows: Iterable[dict[str, Any]]) -> str:
    """Write rows as lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def count_notes(report: ExchangeReport) -> dict[str, dict[str, int]]:
    """Count what a report has noted, by kind."""
    notes = {"left_out": report.left_out, "odd": report.odd}
    return {kind: {name: entry["count"] for name, entry in entries.items()} for kind, entries in notes.items()}


def annotate(doc: Doc, spans: Sequence[Correction], report: ExchangeReport) -> list[Annotation]:
    """Make mentions of spans that are not rejected, of whole tokens."""
    # Whoever is told that one mention is negated may take the others for findings.
    unsaid = MentionContext() if has_context([doc]) else None
    annotations = []
    for span in spans:
        if span.rejected:
            continue
        found = doc.char_span(span.start, span.end, span.label, span.kb_id, alignment_mode="expand")
        if not found:
            report.leave_out("mentions of white space", "")
            continue
        if (found.start_char, found.end_char) != (span.start, span.end):
            report.note_odd("mentions extended to whole tokens", found.text)
        context = unsaid if span.context is None else _make_context(found, span.context)
        annotations.append(Annotation(found.start_char, found.end_char, found.label_, found.kb_id_, "", found, context))
    return annotations


def _make_context(span: Span, words: Sequence[str]) -> MentionContext:
    """Make a context of words. Where the pipeline says the same, it also knows whose finding it is, and its cues."""
    suggested = read_context(span, is_known=True) or MentionContext()
    if set(suggested.words) == set(words):
        return suggested
    return MentionContext.of(words, suggested.person if "family" in words else "")
