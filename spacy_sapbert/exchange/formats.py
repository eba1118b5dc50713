"""The formats of annotated texts, by name, and the ways from files to files. Each output appears whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import spacy

from ..context import ATTRIBUTES, Attributes
from ..errors import Errors
from ..files import fill_folder, write_whole
from .bioc import read_bioc, write_bioc
from .brat import read_brat, write_brat
from .documents import (
    OVERLAPPING,
    AnnotatedText,
    ExchangeReport,
    InsideTokens,
    annotate,
    list_mentions,
    make_doc,
    read_docs,
    write_docs,
)
from .inception import read_inception, write_inception
from .prodigy import read_prodigy
from .pubtator import read_pubtator, write_pubtator
from .tables import DELIMITERS, read_table, write_table

# They take a path, a report, and what stands before each id in the files only.
Reader = Callable[[Path, ExchangeReport, str], Iterator[AnnotatedText]]
Writer = Callable[[Iterable[AnnotatedText], Path, ExchangeReport, str], None]


class ExchangeFormat(NamedTuple):
    """How a format is read and written, if it is a folder, and if it can say that a mention is negated, and such."""

    read: Reader
    write: Writer | None
    is_folder: bool = False
    has_context: bool = True


FORMATS = {
    "bioc": ExchangeFormat(read_bioc, write_bioc),
    "brat": ExchangeFormat(read_brat, write_brat, is_folder=True),
    "csv": ExchangeFormat(partial(read_table, ending="csv"), partial(write_table, ending="csv"), is_folder=True),
    "inception": ExchangeFormat(read_inception, write_inception, is_folder=True, has_context=False),
    "prodigy": ExchangeFormat(read_prodigy, None),
    "pubtator": ExchangeFormat(read_pubtator, write_pubtator, has_context=False),
    "tsv": ExchangeFormat(partial(read_table, ending="tsv"), partial(write_table, ending="tsv"), is_folder=True),
}


def export_docs(
    name: str,
    docs: Path,
    output: Path,
    report: ExchangeReport,
    *,
    prefix: str = "",
    spans_keys: Sequence[str] = (),
    attributes: Attributes = ATTRIBUTES,
    escape_formulas: bool = False,
) -> dict[str, Any]:
    """Write documents in another format.

    name (str): The format, of `FORMATS`.
    docs (Path): The documents, .spacy.
    output (Path): The file or the folder to write to. A folder has to be new or empty.
    report (ExchangeReport): Gets what the format cannot hold.
    prefix (str): What is put before each id, such as "UMLS:".
    spans_keys (Sequence[str]): Span groups with further mentions.
    attributes (Attributes): What says whether a mention is negated, and such; see `read_context`.
    escape_formulas (bool): Put an apostrophe before cells of a table that look like a formula.
    RETURNS (dict[str, Any]): The counts, which are written beside the output as well.
    RAISES (ValueError): If there is no such format, or if it cannot hold a document and errors are not skipped.
    """
    write = _find_writer(name, escape_formulas)
    documents = annotate(read_docs(docs, report), report, spans_keys, attributes)
    n_mentions = sum(len(document.annotations) for document in documents)
    if not FORMATS[name].has_context:
        _count_contexts(documents, name, report)
    output.parent.mkdir(parents=True, exist_ok=True)
    if FORMATS[name].is_folder:
        if output.is_dir() and any(output.iterdir()):
            raise FileExistsError(Errors.E472.format(path=output))
        with fill_folder(output) as folder:
            write(documents, folder, report, prefix)
    else:
        with write_whole(output) as temporary:
            write(documents, temporary, report, prefix)
    return report.write(output, {"documents": len(documents), "mentions": n_mentions})


def _find_writer(name: str, escape_formulas: bool) -> Writer:
    known = {name: format_.write for name, format_ in FORMATS.items() if format_.write}
    direction = "write"
    if escape_formulas:
        known = {name: partial(write_table, ending=name, escape_formulas=True) for name in DELIMITERS}
        direction = "write with formulas escaped"
    if name not in known:
        raise ValueError(Errors.E473.format(name=name, direction=direction, known=", ".join(known)))
    return known[name]


def _count_contexts(documents: Iterable[AnnotatedText], name: str, report: ExchangeReport) -> None:
    for document in documents:
        for annotation in document.annotations:
            place = f"document {document.doc_id}: {document.text[annotation.start : annotation.end]!r:.60}"
            for word in annotation.context.words if annotation.context else ():
                report.note_odd(f"{word} mentions, which {name} cannot mark as such", place)


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
    if name not in FORMATS:
        raise ValueError(Errors.E473.format(name=name, direction="read", known=", ".join(FORMATS)))
    if inside_tokens not in get_args(InsideTokens):
        allowed = " or ".join(get_args(InsideTokens))
        raise ValueError(Errors.E404.format(name="inside_tokens", where="", value=inside_tokens, allowed=allowed))
    if not source.exists():
        raise FileNotFoundError(Errors.E102.format(file=source, cwd=Path.cwd()))
    nlp, docs = spacy.blank(lang), []
    for found in FORMATS[name].read(source, report, prefix):
        if len(found.text) > nlp.max_length:
            form = f"texts of at most {nlp.max_length:,} characters, spaCy's limit"
            report.refuse(f"{source}, document {found.doc_id}", f"{len(found.text):,} characters", form)
        else:
            docs.append(make_doc(found, nlp.make_doc, report, inside_tokens=inside_tokens))
    write_docs(output, docs)
    spans = [span for doc in docs for span in list_mentions(doc)]
    counts = {
        "documents": len(docs),
        "mentions": len(spans),
        "mentions without an id": sum(not span.kb_id_ for span in spans),
        f"mentions in the span group {OVERLAPPING!r}": sum(len(doc.spans.get(OVERLAPPING, ())) for doc in docs),
    }
    return report.write(output, counts)
