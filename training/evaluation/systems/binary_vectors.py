"""Word vectors in word2vec's binary form."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology.readers.lines import HashingReader, unpacked

from ...errors import Errors, Warnings
from .vector_tables import VectorTable

# Read at once. A vector of 300 numbers has 1,200 bytes.
CHUNK = 1 << 24
# The longest word that is looked for: more bytes without a space are no word.
LONGEST_WORD = 1 << 16
NUMBER = np.dtype("<f4")


def is_binary(path: str | Path) -> bool:
    """Tell whether a file has word2vec's binary form, by its name.

    path (str | Path): The file.
    RETURNS (bool): Whether its name ends in .bin, or in .bin.gz.
    """
    return Path(path).name.removesuffix(".gz").endswith(".bin")


def read_binary_vectors(path: str | Path) -> VectorTable:
    """Read word vectors in word2vec's binary form (Mikolov et al., 2013), gzipped or not: GoogleNews, BioNLP, Wiki-PMC.

    A first line "rows width", and for each row the word, a space, and the numbers as little-endian float32; the
    original program ends each row with a line feed, others do not. Words that are not UTF-8 are left out, with a
    warning.

    path (str | Path): The file.
    RETURNS (VectorTable): Words and vectors in the order of the file.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If the first line is another, the file ends before its last row or goes on behind it, a word is
        repeated or missing, or a number is not finite.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as raw:
        hashed = io.BufferedReader(HashingReader(raw, digest), buffer_size=1 << 20)
        with unpacked(path, hashed) as content:
            rows, width = _read_header(path, content)
            # Before memory is asked for. A gzipped file is larger than it looks.
            if content is hashed and path.stat().st_size < rows * width * NUMBER.itemsize:
                _refuse(
                    path, rows, f"the file ends before it, but its first line says {rows:,} rows of {width:,} numbers"
                )
            vectors = np.empty((rows, width), dtype=np.float32)
            keys, n_skipped = _fill(path, _split_rows(path, content, rows, width), vectors)
    if n_skipped:
        warnings.warn(Warnings.W662.format(path=path, n=n_skipped, rows=rows), stacklevel=2)
    return VectorTable(keys, vectors[: len(keys)], digest.hexdigest())


def _read_header(path: Path, content: BinaryIO) -> tuple[int, int]:
    fields = content.readline(LONGEST_WORD).split()
    numbers = [int(field) for field in fields if field.isdigit()]
    if len(fields) != 2 or len(numbers) != 2 or not all(numbers):
        _refuse(path, 0, "the first line is not the number of rows and of numbers in each")
    return numbers[0], numbers[1]


def _split_rows(path: Path, content: BinaryIO, rows: int, width: int) -> Iterator[tuple[bytes, np.ndarray]]:
    """Split the file into words and vectors. A part of it is in memory at a time."""
    data, place, n_bytes = b"", 0, width * NUMBER.itemsize
    for row in range(1, rows + 1):
        end = data.find(b" ", place)
        while end < 0 or end + 1 + n_bytes > len(data):
            if end < 0 and len(data) - place > LONGEST_WORD:
                _refuse(path, row, f"there is no space among {LONGEST_WORD:,} bytes, where a word should end")
            more = content.read(CHUNK)
            if not more:
                _refuse(path, row, f"the file ends there, but its first line says {rows:,} rows")
            data, place = data[place:] + more, 0
            end = data.find(b" ", place)
        vector = np.frombuffer(data, dtype=NUMBER, count=width, offset=end + 1)
        yield data[place:end].lstrip(b"\n"), vector
        place = end + 1 + n_bytes
    if (data[place:] + content.read(CHUNK)).strip():
        _refuse(path, rows, f"the file goes on behind it, but its first line says {rows:,} rows")


def _fill(path: Path, rows: Iterator[tuple[bytes, np.ndarray]], vectors: np.ndarray) -> tuple[list[str], int]:
    """Fill in the vectors of the words that can be read. Return these words, and the number of the others."""
    row_of: dict[str, int] = {}
    n_skipped = 0
    progress = show_progress(rows, description=f"Reading {path.name}", unit="words", total=len(vectors))
    for number, (word, vector) in enumerate(progress, 1):
        if not word:
            _refuse(path, number, "there is no word")
        if not np.isfinite(vector).all():
            _refuse(path, number, "a number of its vector is not finite")
        try:
            key = word.decode("utf8")
        except UnicodeDecodeError:
            n_skipped += 1
            continue
        if key in row_of:
            _refuse(path, number, f"{key!r} is there already, in row {row_of[key]}")
        vectors[len(row_of)] = vector
        row_of[key] = number
    return list(row_of), n_skipped


def _refuse(path: Path, row: int, reason: str) -> NoReturn:
    raise ValueError(Errors.E776.format(file=path, row=row, reason=reason))
