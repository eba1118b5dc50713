"""The mentions of all documents as a file: what people decided, and what the pipeline proposes where nobody has."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from documents import Document
from export import annotate, count_notes, dump_csv, dump_lines, make_concepts
from gold import Correction, Span
from spacy.tokens import Doc

from spacy_sapbert.annotations import NIL
from spacy_sapbert.context import read_context
from spacy_sapbert.exchange.documents import AnnotatedText, ExchangeReport
from spacy_sapbert.linker import SapbertLinker

Form = Literal["csv", "fhir", "prodigy"]
# Who has decided on a mention.
PERSON = "person"
PIPELINE = "pipeline"
ADDED = ("decided", "state")


class Part(NamedTuple):
    """A document that is downloaded, and its corrections."""

    document: Document
    spans: list[Span]


def dump_corrections(parts: Sequence[Part]) -> dict[str, Any]:
    """Write what people decided as lines of Prodigy. A document that is done has a line even without mentions."""
    report = ExchangeReport("skip")
    rows = [row for part in parts for row in _list_corrections(part, report)]
    return {"content": dump_lines(rows), **count_notes(report)}


def dump_mentions(
    docs: Sequence[Doc], parts: Sequence[Part], form: Form, linker: SapbertLinker, *, has_header: bool
) -> dict[str, Any]:
    """Write the mentions of documents as a table or as lines of FHIR, and who has decided on each."""
    report = ExchangeReport("skip")
    concepts = make_concepts(linker, report)
    content = ""
    for doc, part in zip(docs, parts, strict=True):
        decided = _list_decided(part.spans)
        mentions = sorted([*_keep_context(doc, decided), *_propose(doc, part.spans)], key=lambda span: span.start)
        text = AnnotatedText(part.document.name, doc.text, annotate(doc, mentions, report))
        places = {(span.start, span.end) for span in annotate(doc, decided, ExchangeReport("skip"))}
        if form == "fhir":
            content += dump_lines(_mark(row, part, places) for row in concepts.list_rows([text]))
        else:
            content += _mark_table(dump_csv([text], report), part, places, has_header=has_header)
            has_header = False
    return {"content": content, **count_notes(report)}


def _list_corrections(part: Part, report: ExchangeReport) -> Iterator[dict[str, Any]]:
    document, spans = part
    accepted = [span for span in spans if "rejected" not in span]
    rejected = [_leave_out_id(span) for span in spans if "rejected" in span]
    row = {"text": document.text, "meta": {"document": document.name, "state": document.state}}
    if accepted or document.state == "done":
        yield {**row, "spans": accepted, "answer": "accept"}
    if rejected:
        yield {**row, "spans": rejected, "answer": "reject"}
    elif not accepted and document.state != "done":
        report.leave_out("documents without corrections that are not done", "")


def _leave_out_id(span: Span) -> Span:
    return {name: value for name, value in span.items() if name not in ("kb_id", "rejected")}


def _list_decided(spans: Sequence[Span]) -> list[Correction]:
    return [Correction.model_validate(span) for span in spans if "rejected" not in span]


def _keep_context(doc: Doc, decided: Sequence[Correction]) -> list[Correction]:
    """Give mentions the context that the pipeline finds there, unless somebody has said what it is."""
    contexts = {(ent.start_char, ent.end_char): _list_context(ent) for ent in doc.ents}
    missing = [span if span.context is not None else contexts.get((span.start, span.end)) for span in decided]
    return [
        span.model_copy(update={"context": context}) if isinstance(context, list) else span
        for span, context in zip(decided, missing, strict=True)
    ]


def _list_context(ent: Any) -> list[str] | None:
    context = read_context(ent, is_known=False)
    return None if context is None else list(context.words)


def _propose(doc: Doc, spans: Sequence[Span]) -> Iterator[Correction]:
    """List what the pipeline proposes where nobody has decided."""
    for ent in doc.ents:
        if any(ent.start_char < span["end"] and span["start"] < ent.end_char for span in spans):
            continue
        yield Correction(
            start=ent.start_char,
            end=ent.end_char,
            label=ent.label_ or "CONCEPT",
            kb_id=ent.kb_id_ or NIL,
            context=_list_context(ent) or None,
        )


def _mark(row: dict[str, Any], part: Part, places: set[tuple[int, int]]) -> dict[str, Any]:
    decided = PERSON if (row["start"], row["end"]) in places else PIPELINE
    return {**row, **dict(zip(ADDED, (decided, part.document.state), strict=True))}


def _mark_table(content: str, part: Part, places: set[tuple[int, int]], *, has_header: bool) -> str:
    table = io.StringIO()
    rows = csv.DictReader(io.StringIO(content, newline=""))
    writer = csv.DictWriter(table, [*(rows.fieldnames or ()), *ADDED], lineterminator="\n", quoting=csv.QUOTE_ALL)
    if has_header:
        writer.writeheader()
    for row in rows:
        writer.writerow(_mark({**row, "start": int(row["start"]), "end": int(row["end"])}, part, places))
    return table.getvalue()
