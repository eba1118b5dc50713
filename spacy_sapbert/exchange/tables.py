"""Tables of mentions with commas or tabs between columns, and the texts beside them as lines of JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..context import MentionContext
from .documents import AnnotatedText, Annotation, ExchangeReport, find_candidate
from .fields import parse_records, read_flags, read_lines, read_text, write_flags

TEXTS, DELIMITERS = "texts.jsonl", {"csv": ",", "tsv": "\t"}
READ = ("document", "start", "end", "label", "id", "mention")
OF_CANDIDATE = ("name", "canonical_name", "score", "probability")
FLAGS = MentionContext._fields
# Programs for tables take a cell that begins with one of these for a formula. With the mark before it, it is text.
FORMULA, MARK = tuple("=+-@\t\r'"), "'"
# A column that says that cells have the mark: it is in each row.
MARKED = "escaped"
FORM = f"a table with the columns {', '.join(READ)}"
TEXT_FORM = '{"document": "1", "text": "a cold"}'


def dump_table(
    documents: Iterable[AnnotatedText], report: ExchangeReport, *, ending: str, escape_formulas: bool = False
) -> Iterator[tuple[str, str]]:
    """Make mentions.csv or mentions.tsv, and the texts as lines of JSON."""
    table, texts = io.StringIO(), []
    columns = [*READ, *OF_CANDIDATE, *FLAGS, *([MARKED] if escape_formulas else [])]
    # Texts in quotation marks: a carriage return in a mention would otherwise end its row.
    form: dict[str, Any] = {"delimiter": DELIMITERS[ending], "lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}
    writer = csv.DictWriter(table, columns, extrasaction="ignore", **form)
    writer.writeheader()
    for document in documents:
        texts.append(json.dumps({"document": document.doc_id, "text": document.text}, ensure_ascii=False) + "\n")
        for annotation in document.annotations:
            mention = annotation.start, annotation.end, annotation.label, annotation.kb_id, document.cut(annotation)
            candidate = find_candidate(annotation.span) if annotation.span else None
            cells = {**(candidate or {}), **dict(zip(READ, (document.doc_id, *mention), strict=True))}
            cells |= write_flags(annotation.context)
            if any("\0" in str(cells[column]) for column in READ):
                report.refuse(f"document {document.doc_id}: {mention[-1]!r:.60}", "a null character", FORM)
                continue
            if escape_formulas:
                cells = {name: _escape(cell) for name, cell in cells.items()} | {MARKED: MARK}
            writer.writerow(cells)
    yield f"mentions.{ending}", table.getvalue()
    yield TEXTS, "".join(texts)


def _escape(cell: Any) -> Any:
    return MARK + cell if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def read_table(folder: Path, report: ExchangeReport, *, ending: str) -> Iterator[AnnotatedText]:
    """Read mentions.csv or mentions.tsv and the texts beside it, in the order of the texts."""
    documents: dict[str, AnnotatedText] = {}
    for _, place, record in parse_records(read_lines(folder / TEXTS, report), TEXTS, report, TEXT_FORM):
        name = str(record.get("document", ""))
        if "document" not in record:
            report.refuse(place, "a text without a document", TEXT_FORM)
        elif name in documents:
            report.refuse(place, f"a second document {name!r:.80}, so that its mentions could be of either", TEXT_FORM)
        else:
            documents[name] = AnnotatedText(name, record["text"], [])
    for place, cells in _read_rows(folder / f"mentions.{ending}", DELIMITERS[ending], report):
        name, start, end, label, ids, mention = (cells[column] for column in READ)
        flags = [cells.get(word, "").lower() for word in FLAGS]
        if name not in documents or not (start.isdecimal() and end.isdecimal()):
            report.refuse(place, f"no such document as {name!r:.40}, or offsets that are no numbers", FORM)
        elif (found := documents[name].text[int(start) : int(end)]) != mention:
            fault = f"the text from {start} to {end} is {found!r:.80}, but the mention is {mention!r:.80}"
            report.refuse(place, fault, FORM)
        elif not {"", "true", "false"}.issuperset(flags):
            report.refuse(place, f"{', '.join(FLAGS)} are {flags!r:.80}, not all true or false", FORM)
        else:
            annotation = Annotation(int(start), int(end), label, ids, place, context=read_flags(cells))
            documents[name].annotations.append(annotation)
    yield from documents.values()


def _read_rows(path: Path, delimiter: str, report: ExchangeReport) -> Iterator[tuple[str, dict[str, str]]]:
    # A whole text may be a mention. The limit is that of the module, so that others find it as it was.
    limit = csv.field_size_limit(1 << 30)
    try:
        lines = (read_text(path, report) or "").removeprefix("\ufeff").split("\n")
        header, *rows = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)
    except csv.Error as error:
        report.refuse(str(path), str(error), FORM)
        return
    finally:
        csv.field_size_limit(limit)
    if missing := ", ".join(column for column in READ if column not in header):
        raise ValueError(
            f"{path} has no column {missing}. Its columns are: {', '.join(header)[:200]}. Name them in the first line, "
            "with commas between them in a .csv and tabs in a .tsv."
        )
    for number, row in enumerate(rows, 2):
        if any(row):
            # A short row has no values at its end.
            cells = dict.fromkeys(header, "") | dict(zip(header, row, strict=False))
            if MARKED in header:
                cells = {column: cell.removeprefix(MARK) for column, cell in cells.items()}
            yield f"{path.name}, row {number}", cells
