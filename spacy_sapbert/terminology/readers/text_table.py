"""Tables in text files: encodings, line ends, lines above the header, and what separates the columns."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import chain, dropwhile, islice

from .lines import SourceFile

# Spreadsheets write a semicolon where the comma is the decimal point.
DELIMITERS = ("\t", ",", ";", "|")
# The first bytes of workbooks, which the names of files do not always tell: ZIP, and Microsoft's older format.
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
# Lines among which the header is looked for.
N_FIRST = 100
WRONG_ENCODING = "set `encoding` (--encoding), such as cp1252 for files of Windows, or save the file in UTF-8"


class TextTable:
    """The lines of a table, and what separates its columns. It can be read once."""

    def __init__(
        self,
        file: SourceFile,
        wanted: Collection[str],
        *,
        delimiter: str | None = None,
        n_columns: int = 0,
        skip_lines: int = 0,
    ) -> None:
        """Look at the first lines of a file: the header has the wanted columns, or there is none (`n_columns`)."""
        self.path = file.path
        _refuse_workbooks(file)
        below = islice(_split_at_returns(file.lines(keep_ends=True)), skip_lines, None)
        lines = dropwhile(lambda line: not _cut(line[1]), below)
        first = list(islice(lines, N_FIRST))
        self._lines = chain(first, lines)
        self.first_line, text = first[0] if first else (1, "")
        if "\0" in text:
            raise ValueError(f"{self.path} holds zero bytes, so it is probably in UTF-16. Set `encoding` to utf-16-le.")
        texts = [_cut(text) for _, text in first] or [""]
        options = [delimiter] if delimiter else DELIMITERS
        self._header_place = 0
        if n_columns:
            has_commas = ".csv" in map(str.lower, self.path.suffixes)
            self.delimiter = max(options, key=lambda one: (text.count(one) == n_columns - 1, one == "," and has_commas))
        else:
            self._header_place, self.delimiter = _find_header(texts, set(wanted), options)
        self.columns = _split(texts[0], self.delimiter)

    @property
    def advice(self) -> str:
        """Say what to do if lines stand above the header."""
        if not self._header_place:
            return ""
        line = self.first_line + self._header_place
        return f" If line {line} is the header, set `skip_lines` to {line - 1} (--skip-lines {line - 1})."

    def read(self) -> bytes:
        """Read all lines, as UTF-8."""
        return "".join(text for _, text in self._lines).encode("utf8", errors="surrogateescape")

    def rows(self, refuse: Callable[[int, str], object], *, has_quotes: bool) -> Iterator[tuple[int, list[str]]]:
        """Iterate over the rows with the numbers of their first lines, skipping empty lines. `refuse` is told the line
        of a row that can't be read, and why."""
        if not has_quotes:
            yield from ((number, _cut(text).split(self.delimiter)) for number, text in self._lines if _cut(text))
            return
        rows = csv.reader((text for _, text in self._lines), delimiter=self.delimiter, strict=True)
        while True:
            start = self.first_line + rows.line_num
            try:
                fields = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                refuse(start, f"{error} (the row ends on line {self.first_line + rows.line_num - 1})")
                continue
            if fields:
                yield start, fields


def _refuse_workbooks(file: SourceFile) -> None:
    with file.path.open("rb") as content:
        is_workbook = content.read(4) in WORKBOOKS
    if is_workbook or file.path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise ValueError(f"{file.path} is a workbook. Save its sheet as CSV in UTF-8.")


def _cut(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _split_at_returns(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Split a file whose lines end with a carriage return alone, as the header shows. Line ends in its cells stay."""
    number, first = next(lines, (1, ""))
    header, is_split, _ = _cut(first).partition("\r")
    if not is_split or header.count('"') % 2:
        yield number, first
        yield from lines
        return
    whole = (first + "".join(text for _, text in lines)).removesuffix("\r")
    yield from enumerate((f"{text}\n" for text in whole.split("\r")), start=1)


def _find_header(texts: list[str], wanted: set[str], delimiters: Collection[str]) -> tuple[int, str]:
    """Find the header, and what separates its columns. The first line is it if it has any of the wanted ones; else the
    line that has the most, or the first with as many fields as most lines."""
    split = {delimiter: [_split(text, delimiter) for text in texts] for delimiter in delimiters}
    widths = Counter((one, len(fields)) for one, rows in split.items() for fields in rows if len(fields) > 1)

    def rank(option: tuple[int, str]) -> tuple[int, ...]:
        place, delimiter = option
        fields = split[delimiter][place]
        n_wanted = len(wanted.intersection(fields))
        is_first = place == 0
        return n_wanted if is_first else 0, n_wanted, widths[delimiter, len(fields)], is_first, len(fields)

    return max(((place, one) for one in delimiters for place in range(len(texts))), key=rank)


def _split(text: str, delimiter: str) -> list[str]:
    """Split a line, and leave out the quotes."""
    try:
        fields = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        fields = text.split(delimiter)
    return [re.sub(r'^"|"$', "", field.strip()) for field in fields]
