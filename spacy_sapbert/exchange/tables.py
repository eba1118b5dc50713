"""Tables of mentions with commas or tabs between columns, and the texts beside them as lines of JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..context import MentionContext
from ..errors import Errors
from .documents import AnnotatedText, Annotation, ExchangeReport
from .fields import ID_SEPARATOR, parse_json, read_flags, read_lines, read_text, write_flags, write_ids

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


def write_table(
    documents: Iterable[AnnotatedText],
    folder: Path,
    report: ExchangeReport,
    prefix: str = "",
    *,
    ending: str,
    escape_formulas: bool = False,
) -> None:
    """Write mentions.csv or mentions.tsv, and the texts as lines of JSON."""
    table = (folder / f"mentions.{ending}").open("w", encoding="utf8", newline="")
    texts = (folder / TEXTS).open("w", encoding="utf8", newline="\n")
    with table, texts:
        # Texts in quotation marks: a carriage return in a mention would otherwise end its row.
        writer = csv.writer(table, delimiter=DELIMITERS[ending], lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow([*READ, *OF_CANDIDATE, *FLAGS, *([MARKED] if escape_formulas else [])])
        for document in documents:
            texts.write(json.dumps({"document": document.doc_id, "text": document.text}, ensure_ascii=False) + "\n")
            for annotation in document.annotations:
                mention = document.text[annotation.start : annotation.end]
                ids = ID_SEPARATOR.join(write_ids(annotation.kb_id, prefix))
                cells = [document.doc_id, annotation.start, annotation.end, annotation.label, ids, mention]
                if any("\0" in str(cell) for cell in cells):
                    report.refuse(f"document {document.doc_id}: {mention!r:.60}", "a null character", FORM)
                    continue
                candidate: Mapping[str, object] = annotation.candidate or {}
                cells += [candidate.get(column, "") for column in OF_CANDIDATE]
                cells += write_flags(annotation.context).values()
                writer.writerow([*map(_escape, cells), MARK] if escape_formulas else cells)


def _escape(cell: object) -> object:
    return MARK + cell if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def read_table(folder: Path, report: ExchangeReport, prefix: str = "", *, ending: str) -> Iterator[AnnotatedText]:
    """Read mentions.csv or mentions.tsv and the texts beside it, in the order of the texts."""
    documents: dict[str, AnnotatedText] = {}
    for number, line in read_lines(folder / TEXTS, report):
        if not line.strip():
            continue
        place = f"{TEXTS}, line {number}"
        row = parse_json(line, place, report, TEXT_FORM)
        if not isinstance(row, dict) or not isinstance(row.get("text"), str) or "document" not in row:
            report.refuse(place, "no document with a text", TEXT_FORM)
        elif (name := str(row["document"])) in documents:
            report.refuse(place, f"a second document {name!r:.80}, so that its mentions could be of either", TEXT_FORM)
        else:
            documents[name] = AnnotatedText(name, row["text"], [])
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
            kb_id = ID_SEPARATOR.join(id_.removeprefix(prefix) for id_ in ids.split(ID_SEPARATOR))
            annotation = Annotation(int(start), int(end), label, kb_id, place, context=read_flags(cells))
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
        raise ValueError(Errors.E475.format(path=path, missing=missing, found=", ".join(header)[:200]))
    for number, row in enumerate(rows, 2):
        if any(row):
            # A short row has no values at its end.
            cells = dict.fromkeys(header, "") | dict(zip(header, row, strict=False))
            if MARKED in header:
                cells = {column: cell.removeprefix(MARK) for column, cell in cells.items()}
            yield f"{path.name}, row {number}", cells
