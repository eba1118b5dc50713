"""Files of other tools: their names, text in UTF-8, its lines, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import Errors
from .fields import number_name
from .report import ExchangeReport


def name_file(name: str, taken: set[str], report: ExchangeReport) -> str:
    """Make a file's name of a document's.

    name (str): The document's name.
    taken (set[str]): The names of the folder's other files in small letters; gets this one.
    report (ExchangeReport): Counts names that a file cannot have.
    RETURNS (str): The name, with "%" and numbers for characters that files cannot have in their names everywhere, and
            "#" and a number if another differs in capitals only.
    """
    written = quote(name, safe=" #()+,;=@[]")
    if written != name:
        report.note_odd("documents whose names are no file names, with % for other characters", name)
    number = number_name(written.lower(), taken)[len(written) :]
    if number:
        report.note_odd("documents whose names differ in capitals only, which get a number", name)
    return written + number


def read_text(path: Path, report: ExchangeReport) -> str | None:
    """Read a whole file as text. Its line ends stay as they are: offsets count them.

    path (Path): The file.
    report (ExchangeReport): Gets the file if it is not UTF-8.
    RETURNS (str | None): The text; None if the file is refused and errors are skipped.
    RAISES (FileNotFoundError): If there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        return path.read_bytes().decode("utf8")
    except UnicodeDecodeError as error:
        report.refuse(str(path), f"byte {error.start + 1} is not UTF-8", "text in UTF-8")
        return None


def read_lines(path: Path, report: ExchangeReport) -> Iterator[tuple[int, str]]:
    r"""Iterate over the lines of a text file. Each ends at \n or \r\n.

    path (Path): The file. A byte order mark at its start is no text.
    report (ExchangeReport): Gets the file if it is not UTF-8.
    YIELDS (tuple[int, str]): The line's number, from 1, and its text.
    RAISES (FileNotFoundError): If there is no such file.
    """
    text = read_text(path, report) or ""
    yield from enumerate((line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")), 1)


def read_json(path: Path, report: ExchangeReport, form: str) -> Any:
    """Read a file of JSON.

    path (Path): The file.
    report (ExchangeReport): Gets the file if it is not JSON, or not UTF-8.
    form (str): What the file should be, for the message.
    RETURNS (Any): The data; None if the file is refused and errors are skipped.
    RAISES (FileNotFoundError): If there is no such file.
    """
    text = read_text(path, report)
    return None if text is None else parse_json(text, str(path), report, form)


def parse_json(text: str, place: str, report: ExchangeReport, form: str) -> Any:
    """Read JSON. Half a character, which JSON can spell ("\\ud83d") and no file can hold, is refused.

    text (str): The text.
    place (str): The file and line, for messages.
    report (ExchangeReport): Gets the text if it is not JSON.
    form (str): What it should be, for the message.
    RETURNS (Any): The data; None if it is refused and errors are skipped.
    """
    try:
        data = json.loads(text)
        json.dumps(data, ensure_ascii=False).encode("utf8")
    except (ValueError, RecursionError) as error:
        report.refuse(place, f"no valid JSON ({error!s:.120})", form)
        return None
    return data
