"""Conversions from files to files: each output appears whole, with a report of what was left out beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import spacy
from spacy.tokens import Doc

from ..context import ATTRIBUTES, ContextReader, has_context, list_attributes, read_contexts
from ..errors import Errors
from ..files import fill_folder, write_whole
from .athena import AthenaTables
from .docbin import read_docs, write_docs
from .documents import OVERLAPPING, InsideTokens, annotate, list_spans, make_doc, name_docs
from .fhir import CodeableConcepts, write_lines
from .formats import FORMATS, find_reader, find_writer
from .omop import NO_CONCEPT, NoteNlp, write_note_nlp
from .report import ExchangeReport

REPORT = ".report.json"
UNKNOWN = (
    "mentions in documents that do not say whether a mention is negated, of the family or of the past: add negspacy or "
    "medspaCy's ConText to the pipeline (docs/exchange.md)"
)


def export_docs(
    name: str,
    docs: Path,
    output: Path,
    report: ExchangeReport,
    *,
    prefix: str = "",
    spans_keys: Sequence[str] = (),
    attributes: Mapping[str, Sequence[str]] = ATTRIBUTES,
    escape_formulas: bool = False,
) -> dict[str, Any]:
    """Write documents in another format.

    name (str): The format, of `FORMATS`.
    docs (Path): The documents, .spacy.
    output (Path): The file or the folder to write to. A folder has to be new or empty.
    report (ExchangeReport): Gets what the format cannot hold.
    prefix (str): What is put before each id, such as "UMLS:".
    spans_keys (Sequence[str]): Span groups with further mentions.
    attributes (Mapping[str, Sequence[str]]): What says whether a mention is negated, and such; see `read_contexts`.
    escape_formulas (bool): Put an apostrophe before cells of a table that look like a formula.
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    RAISES (ValueError): If there is no such format, or if it cannot hold a document and errors are not skipped.
    """
    write = find_writer(name, escape_formulas=escape_formulas)
    linked = read_docs(docs, report)
    read = _make_reader(linked, attributes, report)
    documents = [annotate(doc_id, doc, spans_keys, read) for doc_id, doc in name_docs(linked, report)]
    if not FORMATS[name].has_context:
        for document in documents:
            for annotation in document.annotations:
                place = f"document {document.doc_id}: {document.text[annotation.start : annotation.end]!r:.60}"
                for word in annotation.context.words if annotation.context else ():
                    report.note_odd(f"{word} mentions, which {name} cannot mark as such", place)
    output.parent.mkdir(parents=True, exist_ok=True)
    if FORMATS[name].is_folder:
        if output.is_dir() and any(output.iterdir()):
            raise FileExistsError(Errors.E472.format(path=output))
        with fill_folder(output) as folder:
            write(documents, folder, report, prefix)
    else:
        with write_whole(output) as temporary:
            write(documents, temporary, report, prefix)
    counts = {"documents": len(documents), "mentions": sum(len(document.annotations) for document in documents)}
    return write_report(output, counts, report)


def import_docs(
    name: str,
    source: Path,
    output: Path,
    report: ExchangeReport,
    *,
    prefix: str = "",
    lang: str = "en",
    inside_tokens: InsideTokens = "leave_out",
) -> dict[str, Any]:
    """Write annotations of another format as documents, with gold ids in `kb_id_`.

    name (str): The format, of `FORMATS`.
    source (Path): The file or the folder.
    output (Path): The file to write, .spacy.
    report (ExchangeReport): Gets malformed records, mentions that overlap, and mentions that spaCy cannot hold.
    prefix (str): What stands before each id in the files only, such as "UMLS:".
    lang (str): The language of the tokenizer.
    inside_tokens (str): What is done with mentions that begin or end inside of a token: "leave_out", or "expand".
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    RAISES (ValueError): If there is no such format, or if a record is malformed and errors are not skipped.
    """
    read = find_reader(name)
    if inside_tokens not in get_args(InsideTokens):
        allowed = " or ".join(get_args(InsideTokens))
        raise ValueError(Errors.E404.format(name="inside_tokens", where="", value=inside_tokens, allowed=allowed))
    if not source.exists():
        raise FileNotFoundError(Errors.E102.format(file=source, cwd=Path.cwd()))
    nlp, docs = spacy.blank(lang), []
    for found in read(source, report, prefix):
        if len(found.text) > nlp.max_length:
            form = f"texts of at most {nlp.max_length:,} characters, spaCy's limit"
            report.refuse(f"{source}, document {found.doc_id}", f"{len(found.text):,} characters", form)
        else:
            docs.append(make_doc(found, nlp.make_doc, report, inside_tokens=inside_tokens))
    write_docs(output, docs)
    spans = [span for doc in docs for span in list_spans(doc)]
    counts = {
        "documents": len(docs),
        "mentions": len(spans),
        "mentions without an id": sum(not span.kb_id_ for span in spans),
        f"mentions in the span group {OVERLAPPING!r}": sum(len(doc.spans.get(OVERLAPPING, ())) for doc in docs),
    }
    return write_report(output, counts, report)


def export_concepts(
    docs: Path,
    output: Path,
    concepts: CodeableConcepts,
    report: ExchangeReport,
    *,
    spans_keys: Sequence[str] = (),
    attributes: Mapping[str, Sequence[str]] = ATTRIBUTES,
) -> dict[str, Any]:
    """Write a line of JSON with a CodeableConcept of FHIR for each mention.

    docs (Path): The documents, .spacy.
    output (Path): The file to write, .jsonl.
    concepts (CodeableConcepts): Makes them.
    report (ExchangeReport): The report that `concepts` counts in.
    spans_keys (Sequence[str]): Span groups with further mentions.
    attributes (Mapping[str, Sequence[str]]): As for `export_docs`.
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    """
    linked = read_docs(docs, report)
    rows = list(concepts.list_rows(linked, spans_keys, _make_reader(linked, attributes, report)))
    if rows and all(row["context"] is None for row in rows):
        report.note_odd(UNKNOWN, f"document {rows[0]['document']}", len(rows))
    words = Counter(word for row in rows for word in row["context"] or ())
    output.parent.mkdir(parents=True, exist_ok=True)
    write_lines(output, rows)
    counts = {
        "mentions": len(rows),
        "mentions with a code": sum("coding" in row["codeableConcept"] for row in rows),
        "codes": sum(len(row["codeableConcept"].get("coding", ())) for row in rows),
        **{f"{word} mentions": n for word, n in words.items()},
    }
    return write_report(output, counts, report)


def export_notes(
    docs: Path,
    output: Path,
    notes: NoteNlp,
    report: ExchangeReport,
    athena: AthenaTables,
    *,
    spans_keys: Sequence[str] = (),
    first_id: int = 1,
    attributes: Mapping[str, Sequence[str]] = ATTRIBUTES,
) -> dict[str, Any]:
    """Write rows of OMOP's table NOTE_NLP for mentions.

    docs (Path): The documents, .spacy.
    output (Path): The file to write, .csv.
    notes (NoteNlp): Makes the rows.
    report (ExchangeReport): The report that `notes` counts in.
    athena (AthenaTables): The concepts.
    spans_keys (Sequence[str]): Span groups with further mentions.
    first_id (int): The note_nlp_id of the first row.
    attributes (Mapping[str, Sequence[str]]): As for `export_docs`.
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    """
    linked = read_docs(docs, report)
    read = _make_reader(linked, attributes, report)
    rows = list(notes.list_rows(linked, athena, spans_keys, first_id, read))
    if rows and not any(row["term_exists"] for row in rows):
        report.note_odd(UNKNOWN, f"note {rows[0]['note_id']}", len(rows))
    output.parent.mkdir(parents=True, exist_ok=True)
    write_note_nlp(output, rows)
    counts = {
        "rows": len(rows),
        "rows with a concept": sum(row["note_nlp_concept_id"] != NO_CONCEPT for row in rows),
        "rows whose term does not exist": sum(row["term_exists"] == "N" for row in rows),
    }
    return write_report(output, counts, report)


def _make_reader(docs: Sequence[Doc], attributes: Mapping[str, Sequence[str]], report: ExchangeReport) -> ContextReader:
    """Make a reader of contexts. What ran over one document of a file ran over all of them."""
    stored = {name for doc in docs for name in list_attributes(doc)}
    for word, names in attributes.items():
        for name in {name.partition("=")[0] for name in names if name not in ATTRIBUTES[word]} - stored:
            report.note_odd("attributes that no mention has: they are misspelt, or true of none", name)
    return partial(read_contexts, attributes=attributes, is_known=has_context(docs, attributes))


def write_report(output: Path, counts: dict[str, int], report: ExchangeReport) -> dict[str, Any]:
    """Write the counts of a conversion beside its output, as <output>.report.json.

    output (Path): What was written.
    counts (dict[str, int]): What it holds.
    report (ExchangeReport): What was left out, and what is odd.
    RETURNS (dict[str, Any]): All counts.
    """
    data = {"counts": counts, **report.to_dict()}
    with write_whole(output.with_name(output.name + REPORT)) as temporary:
        temporary.write_text(json.dumps(data, indent=2, ensure_ascii=False), encoding="utf8")
    return data


def parse_pairs(values: Iterable[str], what: str) -> dict[str, str]:
    """Read the values of an option that names a source and something of it.

    values (Iterable[str]): The values, such as "MSH=2025".
    what (str): The option, for the message.
    RETURNS (dict[str, str]): By source.
    RAISES (ValueError): If a value has no "=" in it.
    """
    pairs = [value.partition("=") for value in values]
    for value, (source, _, rest) in zip(values, pairs, strict=True):
        if not (source and rest):
            raise ValueError(Errors.E404.format(name=what, where="", value=value, allowed="SOURCE=VALUE"))
    return {source: rest for source, _, rest in pairs}
