"""Tables of mentions with commas or tabs between columns, and the texts beside them as lines of JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from ..context import MentionContext
from ..errors import Errors
from .documents import AnnotatedText, Annotation
from .fields import ID_SEPARATOR, read_flags, write_flags, write_ids
from .inputs import parse_json, read_lines, read_text
from .report import ExchangeReport

TEXTS = "texts.jsonl"
READ = ("document", "start", "end", "label", "id", "mention")
OF_CANDIDATE = ("name", "canonical_name", "score", "probability")
COLUMNS = (*READ, *OF_CANDIDATE, *MentionContext._fields)
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
    """Write a table of mentions, and the texts as lines of JSON.

    documents (Iterable[AnnotatedText]): The documents.
    folder (Path): The folder for mentions.csv or mentions.tsv, and texts.jsonl.
    report (ExchangeReport): Gets mentions with a null character, which a table cannot hold.
    prefix (str): What is put before each id, such as "UMLS:".
    ending (str): "csv" or "tsv".
    escape_formulas (bool): Put an apostrophe before cells that programs for tables take for a formula.
    """
    table = (folder / f"mentions.{ending}").open("w", encoding="utf8", newline="")
    texts = (folder / TEXTS).open("w", encoding="utf8", newline="\n")
    with table, texts:
        # Texts in quotation marks: a carriage return in a mention would otherwise end its row.
        writer = csv.writer(table, delimiter=_DELIMITERS[ending], lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow([*COLUMNS, MARKED] if escape_formulas else COLUMNS)
        for document in documents:
            texts.write(json.dumps({"document": document.doc_id, "text": document.text}, ensure_ascii=False) + "\n")
            for annotation in document.annotations:
                mention = document.text[annotation.start : annotation.end]
                row = (document.doc_id, annotation.start, annotation.end, annotation.label)
                values = (*row, ID_SEPARATOR.join(write_ids(annotation.kb_id, prefix)), mention)
                if any("\0" in str(value) for value in values):
                    report.refuse(f"document {document.doc_id}: {mention!r:.60}", "a null character", FORM)
                else:
                    cells = [*values, *_describe(annotation), *write_flags(annotation.context).values()]
                    writer.writerow([*map(_escape, cells), MARK] if escape_formulas else cells)


def _describe(annotation: Annotation) -> list[object]:
    candidate = annotation.candidate
    return [candidate.get(column, "") for column in OF_CANDIDATE] if candidate else [""] * len(OF_CANDIDATE)


def _escape(cell: object) -> object:
    return MARK + cell if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def read_table(folder: Path, report: ExchangeReport, prefix: str = "", *, ending: str) -> Iterator[AnnotatedText]:
    """Read a table of mentions and the texts beside it.

    folder (Path): The folder with mentions.csv or mentions.tsv, and texts.jsonl.
    report (ExchangeReport): Gets malformed records.
    prefix (str): What stands before each id in the files only, such as "UMLS:".
    ending (str): "csv" or "tsv".
    YIELDS (AnnotatedText): The documents in the order of the texts.
    """
    texts = _read_texts(folder / TEXTS, report)
    annotations: dict[str, list[Annotation]] = {name: [] for name in texts}
    for name, annotation in _read_rows(folder / f"mentions.{ending}", texts, report, prefix):
        annotations[name].append(annotation)
    for name, text in texts.items():
        yield AnnotatedText(name, text, annotations[name])


def _read_texts(path: Path, report: ExchangeReport) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in read_lines(path, report):
        place = f"{path.name}, line {number}"
        if not line.strip():
            continue
        row = parse_json(line, place, report, TEXT_FORM)
        if not isinstance(row, dict) or not isinstance(row.get("text"), str) or "document" not in row:
            report.refuse(place, "no document with a text", TEXT_FORM)
        elif (name := str(row["document"])) in texts:
            report.refuse(place, f"a second document {name!r:.80}, so that its mentions could be of either", TEXT_FORM)
        else:
            texts[name] = row["text"]
    return texts


def _read_rows(
    path: Path, texts: dict[str, str], report: ExchangeReport, prefix: str
) -> Iterator[tuple[str, Annotation]]:
    # A whole text may be a mention. The limit is that of the module, so that others find it as it was.
    limit = csv.field_size_limit(1 << 30)
    try:
        lines = (read_text(path, report) or "").removeprefix("\ufeff").split("\n")
        rows = list(csv.reader((f"{line}\n" for line in lines), delimiter=_DELIMITERS[path.suffix[1:]]))
    except csv.Error as error:
        report.refuse(str(path), str(error), FORM)
        return
    finally:
        csv.field_size_limit(limit)
    header = rows[0] if rows else []
    missing = [column for column in READ if column not in header]
    if missing:
        raise ValueError(Errors.E475.format(path=path, missing=", ".join(missing), found=", ".join(header)[:200]))
    is_marked = MARKED in header
    for number, row in enumerate(rows[1:], 2):
        place = f"{path.name}, row {number}"
        if not any(row):
            continue
        # A short row has no values at its end.
        cells = dict.fromkeys(header, "") | dict(zip(header, row, strict=False))
        if is_marked:
            cells = {column: cell.removeprefix(MARK) for column, cell in cells.items()}
        name, start, end, label, ids, mention = (cells[column] for column in READ)
        text, flags = texts.get(name), [cells.get(word, "").lower() for word in MentionContext._fields]
        if text is None or not (start.isdecimal() and end.isdecimal()):
            report.refuse(place, f"no such document as {name!r:.40}, or offsets that are no numbers", FORM)
        elif text[int(start) : int(end)] != mention:
            found = text[int(start) : int(end)]
            report.refuse(
                place, f"the text from {start} to {end} is {found!r:.80}, but the mention is {mention!r:.80}", FORM
            )
        elif not {"", "true", "false"}.issuperset(flags):
            report.refuse(place, f"{', '.join(MentionContext._fields)} are {flags!r:.80}, not all true or false", FORM)
        else:
            kb_id = ID_SEPARATOR.join(id_.removeprefix(prefix) for id_ in ids.split(ID_SEPARATOR))
            yield name, Annotation(int(start), int(end), label, kb_id, place, context=read_flags(cells))


_DELIMITERS = {"csv": ",", "tsv": "\t"}
read_csv, read_tsv = partial(read_table, ending="csv"), partial(read_table, ending="tsv")
write_csv, write_tsv = partial(write_table, ending="csv"), partial(write_table, ending="tsv")
