"""Read Rich Release Format (RRF) files in blocks of whole, checked lines."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...progress import show_progress
from ..readers.lines import BOM, HashingReader, invalid_utf8, unpacked
from ..readers.malformed import MalformedLog

# Larger blocks cost more in fresh memory than they save in calls.
BLOCK_SIZE = 8 << 20
PIPE, NEWLINE = 0x7C, 0x0A


class Block(NamedTuple):
    """Checked lines, which all have the right number of fields.

    data (bytes): The lines in UTF-8, each with its trailing pipe and newline.
    rows (int): The number of lines.
    """

    data: bytes
    rows: int


class RrfLines:
    """The lines of one RRF file, which may be in parts and gzipped.

    Only a newline ends a line: names may contain U+0085 or U+2028. After reading, `rows` is the number of lines, and
    `repaired` counts the repaired lines by kind of fault.
    """

    def __init__(self, paths: Sequence[Path], n_columns: int, malformed: MalformedLog) -> None:
        """Prepare to read a file.

        paths (Sequence[Path]): The parts of the file, in order.
        n_columns (int): The number of fields of a line.
        malformed (MalformedLog): The log of malformed lines.
        """
        self.paths = list(paths)
        self.n_columns = n_columns
        self.malformed = malformed
        self.rows = 0
        self.repaired: Counter[str] = Counter()
        self.hashes: dict[str, str] = {}

    def blocks(self) -> Iterator[Block]:
        """Iterate over blocks of lines. A thread reads and checks the next block while the caller uses one.

        YIELDS (Block): The lines of about 8 MiB of the file.
        RAISES (ValueError): If gzip data are damaged, or a line is malformed and the log's `errors` is "raise".
        """
        blocks = self._checked()
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(next, blocks, None)
            while (block := ahead.result()) is not None:
                ahead = reader.submit(next, blocks, None)
                if block.rows:
                    yield block

    def describe(self) -> list[dict[str, Any]]:
        """Describe the parts for a report, after reading.

        RETURNS (list[dict[str, Any]]): The name and SHA-256 of each part.
        """
        return [{"name": path.name, "sha256": self.hashes[path.name]} for path in self.paths]

    def _checked(self) -> Iterator[Block]:
        first = 1
        for data in self._whole_lines():
            if first == 1:
                data = self._without_bom(data)
            rows = data.count(b"\n")
            if is_clean(data, self.n_columns):
                yield Block(data, rows)
            else:
                yield self._mend(data, first)
            first += rows
        self.rows = first - 1

    def _whole_lines(self) -> Iterator[bytes]:
        """Read blocks of whole lines. A line may continue in the next part of the file."""
        rest = b""
        for data in self._raw():
            end = data.rfind(b"\n") + 1
            if not end:
                rest += data
                continue
            yield rest + data[:end]
            rest = data[end:]
        if rest:
            yield rest + b"\n"

    def _raw(self) -> Iterator[bytes]:
        size = sum(path.stat().st_size for path in self.paths)
        with show_progress(total=size, description=f"Reading {self.paths[0].name}", unit="B") as progress:
            for path in self.paths:
                sha256 = hashlib.sha256()
                with path.open("rb", buffering=0) as raw:
                    source = io.BufferedReader(HashingReader(raw, sha256, progress.update), buffer_size=1 << 20)
                    with unpacked(path, source) as content:
                        while data := content.read(BLOCK_SIZE):
                            yield data
                self.hashes[path.name] = sha256.hexdigest()

    def _without_bom(self, data: bytes) -> bytes:
        if not data.startswith(BOM):
            return data
        self.repaired["byte order mark"] += 1
        return data[len(BOM) :]

    def _mend(self, data: bytes, first: int) -> Block:
        """Repair lines, and log those that cannot be repaired with their numbers."""
        kept = []
        for number, line in enumerate(data.split(b"\n")[:-1], start=first):
            if line.endswith(b"\r"):
                line = line[:-1]
                self.repaired["carriage return"] += 1
            if not line:
                self.repaired["empty line"] += 1
                continue
            reason = self._find_fault(line)
            if reason is None:
                if line.count(b"|") == self.n_columns - 1:
                    line += b"|"
                    self.repaired["missing trailing pipe"] += 1
                kept.append(line)
            else:
                self.malformed.add(number, reason)
        return Block(b"\n".join([*kept, b""]), len(kept))

    def _find_fault(self, line: bytes) -> str | None:
        fault = invalid_utf8(line.decode("utf8", errors="surrogateescape"))
        if fault:
            return fault
        n = line.count(b"|")
        # Editors often drop the pipe after the last field; the line stays unambiguous.
        if (n == self.n_columns and line.endswith(b"|")) or (n == self.n_columns - 1 and not line.endswith(b"|")):
            return None
        found = n + (not line.endswith(b"|"))
        return f"{found} fields were found, but there are {self.n_columns} columns"


def is_clean(data: bytes, n_columns: int) -> bool:
    """Check whether all lines are UTF-8 with the right number of fields, a trailing pipe and no carriage return.

    data (bytes): The lines, each with its newline.
    n_columns (int): The number of fields of a line.
    RETURNS (bool): Whether they are. If not, each line has to be checked.
    """
    if b"\r" in data or not _is_utf8(data):
        return False
    characters = np.frombuffer(data, dtype=np.uint8)
    separators = np.flatnonzero((characters == PIPE) | (characters == NEWLINE))
    if len(separators) % (n_columns + 1):
        return False
    # All lines have n_columns pipes if every separator after so many is a newline directly behind the last pipe, and
    # there are no other newlines.
    lines = separators.reshape(-1, n_columns + 1)
    last = lines[:, -1]
    ends_lines = bool((characters[last] == NEWLINE).all() and (lines[:, -2] + 1 == last).all())
    return ends_lines and data.count(b"\n") == len(lines)


def _is_utf8(data: bytes) -> bool:
    """Check whether data are UTF-8, without decoding them."""
    try:
        pl.Series([data]).cast(pl.String())
    except pl.exceptions.PolarsError:
        return False
    return True
