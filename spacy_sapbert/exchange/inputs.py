"""Read the files of other tools: text in UTF-8."""

from __future__ import annotations

from pathlib import Path

from ..errors import Errors
from .report import ExchangeReport


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
