"""Tables of mentions with commas or tabs between columns, and the texts beside them as lines of JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from ..errors import Errors
from .documents import AnnotatedText, Annotation
from .fields import ID_SEPARATOR, write_ids
from .inputs import parse_json, read_lines, read_text
from .report import ExchangeReport

TEXTS = "texts.jsonl"
COLUMNS = ("document", "start", "end", "label", "id", "mention", "name", "canonical_name", "score", "probability")
READ = COLUMNS[:6]
FORM = f"a table with the columns {', '.join(READ)}"
TEXT_FORM = '{"document": "1", "text": "a cold"}'


def write_table(
    documents: Iterable[AnnotatedText], folder: Path, report: ExchangeReport, prefix: str = "", *, ending: str
) -> None:
    """Write a table of mentions, and the texts as lines of JSON.

    documents (Iterable[AnnotatedText]): The documents.
    folder (Path): The folder for mentions.csv or mentions.tsv, and texts.jsonl.
    report (ExchangeReport): Gets mentions with a null character, which a table cannot hold.
    prefix (str): What is put before each id, such as "UMLS:".
    ending (str): "csv" or "tsv".
    """
    table = (folder / f"mentions.{ending}").open("w", encoding="utf8", newline="")
    texts = (folder / TEXTS).open("w", encoding="utf8", newline="\n")
    with table, texts:
        # Texts in quotation marks: a carriage return in a mention would otherwise end its row.
        writer = csv.writer(table, delimiter=_DELIMITERS[ending], lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(COLUMNS)
        for document in documents:
            texts.write(json.dumps({"document": document.doc_id, "text": document.text}, ensure_ascii=False) + "\n")
            for annotation in document.annotations:
                mention = document.text[annotation.start : annotation.end]
                row = (document.doc_id, annotation.start, annotation.end, annotation.label)
                values = (*row, ID_SEPARATOR.join(write_ids(annotation.kb_id, prefix)), mention)
                if any("\0" in str(value) for value in values):
                    report.refuse(f"document {document.doc_id}: {mention!r:.60}", "a null character", FORM)
                else:
                    writer.writerow([*values, *_describe(annotation)])


def _describe(annotation: Annotation) -> list[object]:
    candidate = annotation.candidate
    return [candidate.get(column, "") for column in COLUMNS[6:]] if candidate else [""] * len(COLUMNS[6:])


def read_table(folder: Path, report: ExchangeReport, prefix: str = "", *, ending: str) -> Iterator[AnnotatedText]:
    """Read a table of mentions and the texts beside it.

    folder (Path): The folder with mentions.csv or mentions.tsv, and texts.jsonl.
    report (ExchangeReport): Gets malformed records.
    prefix (str): What stands before each id in the files only, such as "UMLS:".
    ending (str): "csv" or "tsv".
    YIELDS (AnnotatedText): The documents in the order of the texts.
    """
    texts = dict(_read_texts(folder / TEXTS, report))
    annotations: dict[str, list[Annotation]] = {name: [] for name in texts}
    for name, annotation in _read_rows(folder / f"mentions.{ending}", texts, report, prefix):
        annotations[name].append(annotation)
    for name, text in texts.items():
        yield AnnotatedText(name, text, annotations[name])


def _read_texts(path: Path, report: ExchangeReport) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(path, report):
        place = f"{path.name}, line {number}"
        if not line.strip():
            continue
        row = parse_json(line, place, report, TEXT_FORM)
        if not isinstance(row, dict) or not isinstance(row.get("text"), str) or "document" not in row:
            report.refuse(place, "no document with a text", TEXT_FORM)
        else:
            yield str(row["document"]), row["text"]


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
    places = [header.index(column) for column in READ]
    for number, row in enumerate(rows[1:], 2):
        place = f"{path.name}, row {number}"
        if not any(row):
            continue
        name, start, end, label, ids, mention = (row[i] if i < len(row) else "" for i in places)
        text = texts.get(name)
        if text is None or not (start.isdecimal() and end.isdecimal()):
            report.refuse(place, f"no such document as {name!r:.40}, or offsets that are no numbers", FORM)
        elif text[int(start) : int(end)] != mention:
            found = text[int(start) : int(end)]
            report.refuse(
                place, f"the text from {start} to {end} is {found!r:.80}, but the mention is {mention!r:.80}", FORM
            )
        else:
            kb_id = ID_SEPARATOR.join(id_.removeprefix(prefix) for id_ in ids.split(ID_SEPARATOR))
            yield name, Annotation(int(start), int(end), label, kb_id, place)


_DELIMITERS = {"csv": ",", "tsv": "\t"}
read_csv, read_tsv = partial(read_table, ending="csv"), partial(read_table, ending="tsv")
write_csv, write_tsv = partial(write_table, ending="csv"), partial(write_table, ending="tsv")
