"""Files of documents: a text, a table with a column of texts, or lines of JSON; and what can't be used in them."""

import csv
import io
import json
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from limits import ServiceSettings, check_texts
from starlette.exceptions import HTTPException

from spacy_sapbert.files import is_inside

KINDS = (".txt", ".csv", ".jsonl")
# How columns of texts and of names are called, the best first.
COLUMNS: dict[str, list[str]] = json.loads(Path(__file__).with_name("columns.json").read_text(encoding="utf8"))
MAX_NAME = 200
# A text may be a cell.
MAX_CELL = 1 << 30


class Problem(NamedTuple):
    """What of a file is not used, or looks odd; the line is 0 for the whole file."""

    file: str
    line: int
    reason: str


class Row(NamedTuple):
    """A text of a file; the name is empty if the file has none for it."""

    line: int
    name: str
    text: str


class Columns(NamedTuple):
    """The columns that somebody chose; empty for those whose names say what they hold."""

    text: str = ""
    name: str = ""


ANY = Columns()


class UnclearColumns(ValueError):
    """Nobody can tell which column of a table has the texts."""

    def __init__(self, reason: str, columns: Sequence[str]) -> None:
        super().__init__(reason)
        self.columns = list(columns)


class _Odd(NamedTuple):
    line: int
    reason: str


def check_name(name: str) -> str:
    """Say why a name can't be used; "" if it can."""
    if not name.strip():
        return "it is empty"
    if len(name) > MAX_NAME or len(name.encode("utf8", "replace")) > MAX_NAME:
        return f"it is longer than {MAX_NAME} bytes"
    if any(unicodedata.category(character).startswith("C") for character in name):
        return "it has control characters"
    return ""


def check_file_name(name: str) -> str:
    """Say why a name is not one of a file of documents; "" if it is."""
    if reason := check_name(name):
        return reason
    if "/" in name or "\\" in name or not is_inside(name):
        return "it is a path, and not only a name"
    if name != name.strip() or name.startswith("."):
        return "it begins with a dot, or has white space around it"
    return "" if Path(name).suffix.lower() in KINDS else f"it ends in none of {', '.join(KINDS)}"


def read_rows(
    name: str, content: str, settings: ServiceSettings, columns: Columns = ANY
) -> tuple[list[Row], list[Problem]]:
    """Read the texts of a file, and list what can't be used.

    name (str): The name of the file, for its kind and for messages.
    content (str): What is in it.
    settings (ServiceSettings): Limits of a text.
    columns (Columns): The columns of a table, if somebody chose them.
    RETURNS (tuple[list[Row], list[Problem]]): The texts, and what is wrong with others.
    """
    readers = {".txt": _read_text, ".csv": lambda content: _read_table(content, columns), ".jsonl": _read_lines}
    rows, problems = [], []
    for row in readers[Path(name).suffix.lower()](content.removeprefix("\ufeff")):
        reason = row.reason if isinstance(row, _Odd) else _check_text(row.text, settings)
        if reason:
            problems.append(Problem(name, row.line, reason))
            continue
        if row.name and (reason := check_name(row.name)):
            problems.append(Problem(name, row.line, f"its name can't be used, because {reason}; it is numbered"))
            row = row._replace(name="")
        rows.append(row)
    return rows, problems


def _check_text(text: str, settings: ServiceSettings) -> str:
    if not text.strip():
        return "there is no text"
    try:
        text.encode("utf8")
        check_texts([text], settings)
    except UnicodeEncodeError:
        return "the text has half of a character (a lone surrogate)"
    except HTTPException as error:
        return str(error.detail)
    return ""


def _read_text(content: str) -> Iterator[Row | _Odd]:
    yield Row(0, "", content)


def _read_lines(content: str) -> Iterator[Row | _Odd]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            yield _Odd(number, "the line is no JSON")
            continue
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            yield _Odd(number, 'the line has no "text"')
        else:
            yield Row(number, _find_name(record), record["text"])


def _find_name(record: dict[str, Any]) -> str:
    """Find the name of a text in its line, or else in what the line says about it."""
    meta = record.get("meta")
    for part in (record, meta if isinstance(meta, dict) else {}):
        for key in COLUMNS["name"]:
            if isinstance(value := part.get(key), (str, int)) and str(value).strip():
                return str(value).strip()
    return ""


def _read_table(content: str, columns: Columns) -> Iterator[Row | _Odd]:
    header = _find_header(content)
    if not any(map(str.strip, header.cells)):
        yield _Odd(1, "the table has no columns with a name")
        return
    text = _find_column(header.cells, "text", columns.text)
    name = _find_column(header.cells, "name", columns.name)
    if text is None:
        listed = ", ".join(map(repr, header.cells))
        raise UnclearColumns(f"None of the columns is known to hold texts: {listed}. Choose one.", header.cells)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=header.delimiter, strict=True)
    for line, cells in _list_cells(reader):
        if isinstance(cells, str):
            yield _Odd(line, cells)
        elif line > 1 and cells:
            if len(cells) == len(header.cells):
                yield Row(line, "" if name is None else cells[name].strip(), cells[text])
            else:
                yield _Odd(line, f"the row has {len(cells)} cells, and the header {len(header.cells)}")


def _list_cells(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """List the rows of a table with the lines where they begin, or what is wrong with them."""
    while True:
        line = reader.line_num + 1
        before = csv.field_size_limit(MAX_CELL)
        try:
            cells: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells = f"the row can't be read: {error}"
        finally:
            csv.field_size_limit(before)
        yield line, cells


class _Header(NamedTuple):
    cells: list[str]
    delimiter: str


def _find_header(content: str) -> _Header:
    """Read the first row. Spreadsheets of many countries put semicolons between cells."""
    headers = []
    for delimiter in ",;\t":
        reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
        _, cells = next(_list_cells(reader), (1, []))
        headers.append(_Header(cells if isinstance(cells, list) else [], delimiter))
    return max(headers, key=lambda header: len(header.cells))


def _find_column(header: Sequence[str], kind: str, chosen: str) -> int | None:
    cells = [cell.strip() for cell in header]
    if chosen:
        if chosen.strip() not in cells:
            listed = ", ".join(map(repr, header))
            raise UnclearColumns(f"There is no column {chosen!r:.100}, but {listed}. Choose one.", header)
        return cells.index(chosen.strip())
    folded = [cell.casefold() for cell in cells]
    return next((folded.index(name) for name in COLUMNS[kind] if name in folded), None)
