"""The formats of annotated texts, by name, and the ways from files to files. Each output appears whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import spacy

from ..annotations import NIL
from ..context import ATTRIBUTES, Attributes
from ..errors import Errors
from ..files import fill_folder, write_whole
from . import bioc, brat, inception, prodigy, pubtator, tables
from .documents import (
    OVERLAPPING,
    AnnotatedText,
    Annotation,
    ExchangeReport,
    annotate,
    list_mentions,
    make_doc,
    read_docs,
    write_docs,
)
from .fields import ID_SEPARATOR, read_kb_id


class ExchangeFormat(NamedTuple):
    """How a format is read and written. Its functions leave ids as they are written in its files."""

    form: str
    read: Callable[[Path, ExchangeReport], Iterator[AnnotatedText]]
    # Makes the content of files, each with its path in the folder, which is empty for the only file.
    dump: Callable[..., Iterator[tuple[str, str]]] | None
    # Tells of an annotation and its mention why the format cannot hold them.
    find_fault: Callable[[Annotation, str], str | None] = lambda annotation, mention: None
    is_folder: bool = False
    # Whether it can say that a mention is negated, and such.
    has_context: bool = True
    # Whether ids may have any characters, so that only "|" is between them.
    has_any_id: bool = False


def _table(ending: str) -> ExchangeFormat:
    read, dump = partial(tables.read_table, ending=ending), partial(tables.dump_table, ending=ending)
    return ExchangeFormat(tables.FORM, read, dump, is_folder=True, has_any_id=True)


FORMATS = {
    "bioc": ExchangeFormat(bioc.FORM, bioc.read_bioc, bioc.dump_bioc),
    "brat": ExchangeFormat(brat.FORM, brat.read_brat, brat.dump_brat, brat.find_brat_fault, is_folder=True),
    "csv": _table("csv"),
    "inception": ExchangeFormat(
        inception.FORM,
        inception.read_inception,
        inception.dump_inception,
        inception.find_inception_fault,
        is_folder=True,
        has_context=False,
    ),
    "prodigy": ExchangeFormat(prodigy.FORM, prodigy.read_prodigy, None),
    "pubtator": ExchangeFormat(
        pubtator.FORM, pubtator.read_pubtator, pubtator.dump_pubtator, pubtator.find_pubtator_fault, has_context=False
    ),
    "tsv": _table("tsv"),
}


def read_texts(name: str, source: Path, report: ExchangeReport, prefix: str = "") -> Iterator[AnnotatedText]:
    """Read texts in a format, with ids as in `kb_id_`."""
    for document in FORMATS[name].read(source, report):
        annotations = []
        for annotation in document.annotations:
            if FORMATS[name].has_any_id:
                ids = [id_.removeprefix(prefix) for id_ in annotation.kb_id.split(ID_SEPARATOR)]
                annotations.append(replace(annotation, kb_id=ID_SEPARATOR.join(ids)))
            else:
                annotations.append(replace(annotation, kb_id=read_kb_id(annotation.kb_id, prefix)))
        yield replace(document, annotations=annotations)


def write_texts(
    name: str,
    documents: Iterable[AnnotatedText],
    output: Path,
    report: ExchangeReport,
    prefix: str = "",
    **options: Any,
) -> None:
    """Write texts in a format, as a file or a folder. What the format cannot hold is refused."""
    format_ = FORMATS[name]
    assert format_.dump is not None
    writable = (_keep_writable(document, format_, report, prefix) for document in documents)
    output.parent.mkdir(parents=True, exist_ok=True)
    with fill_folder(output) if format_.is_folder else write_whole(output) as place:
        for file, content in format_.dump(writable, report, **options):
            (place / file).write_bytes(content.encode("utf8"))


def _keep_writable(
    document: AnnotatedText, format_: ExchangeFormat, report: ExchangeReport, prefix: str
) -> AnnotatedText:
    """Keep the annotations that the format can hold, with their ids as written. NIL gets no prefix."""
    kept = []
    for annotation in document.annotations:
        mention, kb_id = document.cut(annotation), annotation.kb_id
        fault = format_.find_fault(annotation, mention)
        if not fault and not format_.has_any_id and read_kb_id(kb_id) != kb_id:
            fault = f"the id {kb_id!r:.80} would be read back as {read_kb_id(kb_id)!r:.80}"
        if fault:
            report.refuse(f"document {document.doc_id}: {mention!r:.60}", fault, format_.form)
            continue
        ids = (id_ if id_ == NIL else prefix + id_ for id_ in kb_id.split(ID_SEPARATOR) if id_)
        kept.append(replace(annotation, kb_id=ID_SEPARATOR.join(ids)))
    return replace(document, annotations=kept)


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
    if escape_formulas:
        _check_format(name, "write with formulas escaped", tables.DELIMITERS)
    _check_format(name, "write", [known for known, format_ in FORMATS.items() if format_.dump])
    documents = annotate(read_docs(docs, report), report, spans_keys, attributes)
    if not FORMATS[name].has_context:
        for document in documents:
            for annotation in document.annotations:
                for word in annotation.context.words if annotation.context else ():
                    place = f"document {document.doc_id}: {document.cut(annotation)!r:.60}"
                    report.note_odd(f"{word} mentions, which {name} cannot mark as such", place)
    if FORMATS[name].is_folder and output.is_dir() and any(output.iterdir()):
        raise FileExistsError(f"{output} is there already, and not empty. Choose another folder, or clear it.")
    write_texts(name, documents, output, report, prefix, **({"escape_formulas": True} if escape_formulas else {}))
    n_mentions = sum(len(document.annotations) for document in documents)
    return report.write(output, {"documents": len(documents), "mentions": n_mentions})


def _check_format(name: str, direction: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"There is no format '{name}' to {direction}. There are: {', '.join(known)}.")


def import_docs(
    name: str,
    source: Path,
    output: Path,
    report: ExchangeReport,
    *,
    prefix: str = "",
    lang: str = "en",
    inside_tokens: str = "leave_out",
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
    _check_format(name, "read", FORMATS)
    if inside_tokens not in ("leave_out", "expand"):
        allowed = "leave_out or expand"
        raise ValueError(Errors.E404.format(name="inside_tokens", where="", value=inside_tokens, allowed=allowed))
    if not source.exists():
        raise FileNotFoundError(Errors.E102.format(file=source, cwd=Path.cwd()))
    nlp, docs = spacy.blank(lang), []
    for found in read_texts(name, source, report, prefix):
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
