"""Tables of vectors as their authors publish them: an id and its numbers on each line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from ...errors import Errors


@dataclass(frozen=True)
class VectorTable:
    """A table of vectors.

    keys (list[str]): Ids or words, each once.
    vectors (ndarray): Shape (keys, width), float32, finite.
    sha256 (str): The hash of the file.
    """

    keys: list[str]
    vectors: np.ndarray
    sha256: str


def read_vector_table(path: str | Path) -> VectorTable:
    """Read a table of vectors, gzipped or not.

    Two forms are known. CSV: cui2vec (Beam et al., PSB 2020) has the header `"","V1","V2",...` and lines of a quoted
    CUI and numbers. Text with spaces: word2vec's, and the claims and DeVine vectors of Choi et al. (AMIA 2016), with or
    without the first line "rows width".

    path (str | Path): The file.
    RETURNS (VectorTable): Ids and vectors in the order of the file.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If an id is repeated, a line has too few or too many numbers, a number is not finite, there are
        fewer lines than the first says, or none.
    """
    source = SourceFile(path)
    rows = _Rows(source.path)
    for number, fields in show_progress(_split_lines(source), description=f"Reading {source.path.name}", unit="lines"):
        rows.add(number, fields)
    return VectorTable(*rows.finish(), source.describe()["sha256"])


class _Rows:
    """The rows of a table, checked against each other.

    path (Path): The file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.width: int | None = None
        self.announced: int | None = None
        self.line_of: dict[str, int] = {}
        self.vectors: list[np.ndarray] = []

    def add(self, number: int, fields: list[str]) -> None:
        """Add a line, or take its width from it if it is a header."""
        if number == 1 and self._read_header(fields):
            return
        key, *numbers = fields
        if self.width is None:
            self.width = len(numbers)
        if len(numbers) != self.width or not numbers:
            self._refuse(number, f"{len(numbers)} numbers instead of {self.width or 'one or more'}")
        if reason := invalid_utf8(key) if key else "there is no id":
            self._refuse(number, reason)
        if key in self.line_of:
            self._refuse(number, f"{key!r} is there already, on line {self.line_of[key]}")
        self.line_of[key] = number
        self.vectors.append(self._parse(number, numbers))

    def finish(self) -> tuple[list[str], np.ndarray]:
        """Put the rows together."""
        if not self.vectors:
            raise ValueError(Errors.E771.format(file=self.path, reason="it has no line with an id and numbers"))
        if self.announced not in (None, len(self.vectors)):
            reason = f"it has {len(self.vectors)} rows, but its first line says {self.announced}"
            self._refuse(max(self.line_of.values()), reason)
        return list(self.line_of), np.stack(self.vectors)

    def _read_header(self, fields: list[str]) -> bool:
        if len(fields) == 2 and all(field.isdecimal() for field in fields):
            self.announced, self.width = map(int, fields)
            return True
        # Names of columns. A first line whose numbers are damaged has an id.
        if len(fields) > 1 and not fields[0] and not any(map(_is_number, fields[1:])):
            self.width = len(fields) - 1
            return True
        return False

    def _parse(self, number: int, numbers: list[str]) -> np.ndarray:
        try:
            with np.errstate(over="ignore"):
                vector = np.array(numbers, dtype=np.float64).astype(np.float32)
        except ValueError:
            wrong = next(text for text in numbers if not _is_number(text))
            self._refuse(number, f"{wrong!r} is not a number")
        if not np.isfinite(vector).all():
            wrong = numbers[int(np.flatnonzero(~np.isfinite(vector))[0])]
            self._refuse(number, f"{wrong!r} is not a finite number")
        return vector

    def _refuse(self, number: int, reason: str) -> None:
        raise ValueError(Errors.E770.format(file=self.path, line=number, reason=reason))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _split_lines(source: SourceFile) -> Iterator[tuple[int, list[str]]]:
    """Split lines into fields, at commas if the first line has one. Empty lines are passed over."""
    separator = ""
    for number, line in source.lines():
        if not line.strip():
            continue
        separator = separator or ("," if "," in line else " ")
        yield number, _split_csv(line) if separator == "," else _split_text(line)


def _split_csv(line: str) -> list[str]:
    return [field.strip() for field in next(iter(csv.reader([line])))]


def _split_text(line: str) -> list[str]:
    # word2vec ends each line with a space. Two spaces in a row would be an empty number, or an empty word.
    return line.replace("\t", " ").rstrip(" ").split(" ")
