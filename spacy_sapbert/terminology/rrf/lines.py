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

from ...progress import show_progress
from ..readers.lines import BOM, HashingReader, invalid_utf8, unpacked
from ..readers.malformed import MalformedLog

BLOCK_SIZE = 32 << 20
PIPE, NEWLINE = 0x7C, 0x0A


class Block(NamedTuple):
    """Lines that all have the right number of fields.

    data (bytes): The lines, each with its trailing pipe and newline; UTF-8.
    rows (int): How many there are.
    """

    data: bytes
    rows: int


class RrfLines:
    """The lines of one RRF file, which may be cut into parts and gzipped.

    Lines end at a newline and nowhere else: names may hold U+0085 or U+2028. After reading, `rows` says how many lines
    there were, and `repaired` which slips were put right.
    """

    def __init__(self, paths: Sequence[Path], n_columns: int, malformed: MalformedLog) -> None:
        """Name the file.

        paths (Sequence[Path]): Its parts, in order.
        n_columns (int): Fields of a line.
        malformed (MalformedLog): What to do about lines with other fields.
        """
        self.paths = list(paths)
        self.n_columns = n_columns
        self.malformed = malformed
        self.rows = 0
        self.repaired: Counter[str] = Counter()
        self.hashes: dict[str, str] = {}

    def blocks(self) -> Iterator[Block]:
        """Iterate over the lines, reading and checking a block while the one before it is used.

        YIELDS (Block): Some millions of bytes of lines.
        RAISES (ValueError): If gzip data are damaged, or a line is malformed and not to be skipped.
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

        RETURNS (list[dict[str, Any]]): Name and SHA-256 of each.
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
        """Read blocks that end at a line's end. A part may end within a line that the next part goes on with."""
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
        """Put right what can be, and pass over or refuse the rest, with the number of its line."""
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
        # The pipe behind the last field is often lost when files are edited; what is meant is plain.
        if (n == self.n_columns and line.endswith(b"|")) or (n == self.n_columns - 1 and not line.endswith(b"|")):
            return None
        found = n + (not line.endswith(b"|"))
        return f"{found} fields were found, but there are {self.n_columns} columns"


def is_clean(data: bytes, n_columns: int) -> bool:
    """Tell whether every line has the right number of fields, a trailing pipe and nothing unusual.

    data (bytes): Lines, each with its newline.
    n_columns (int): Fields of a line.
    RETURNS (bool): False if a closer look is needed.
    """
    if b"\r" in data:
        return False
    if not data.isascii():
        try:
            data.decode("utf8")
        except UnicodeDecodeError:
            return False
    characters = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(characters == NEWLINE)
    pipes = np.flatnonzero(characters == PIPE)
    # If the last pipe that the i-th line should have stands right before its end, for every i, each has as many.
    last = pipes[n_columns - 1 :: n_columns]
    return len(pipes) == n_columns * len(newlines) and bool((last + 1 == newlines).all())
