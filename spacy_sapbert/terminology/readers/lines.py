"""Read the lines of a plain or gzipped text file with their numbers, and hash the file."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...errors import Errors

GZIP_MAGIC = b"\x1f\x8b"
# What a message says of a file.
DAMAGED_GZIP = "holds gzip data that end early or are damaged"
BOM = b"\xef\xbb\xbf"


class SourceFile:
    """An input file, read once from beginning to end."""

    def __init__(self, path: str | Path) -> None:
        """Find the file.

        path (str | Path): The file, gzipped or not.
        RAISES (FileNotFoundError): If the file does not exist.
        RAISES (IsADirectoryError): If it is a folder.
        """
        self.path = Path(path)
        self._sha256 = hashlib.sha256()
        if self.path.is_dir():
            raise IsADirectoryError(Errors.E127.format(path=self.path))
        if not self.path.is_file():
            raise FileNotFoundError(Errors.E102.format(file=self.path, cwd=Path.cwd()))

    def lines(self, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
        r"""Iterate over the lines. Only \n ends a line: names may contain U+0085 or U+2028.

        Bytes that are not UTF-8 become lone surrogates, so that a reader can refuse the whole record; see
        `invalid_utf8`.

        keep_ends (bool): Whether to keep the line ends, for formats with records of several lines.
        YIELDS (tuple[int, str]): The line's number, from 1, and its text.
        RAISES (ValueError): If gzip data are damaged.
        """
        with self.path.open("rb", buffering=0) as raw:
            hashed = io.BufferedReader(HashingReader(raw, self._sha256), buffer_size=1 << 20)
            for number, data in enumerate(_lines(self.path, hashed), start=1):
                if number == 1:
                    data = data.removeprefix(BOM)
                if not keep_ends:
                    data = data.removesuffix(b"\n").removesuffix(b"\r")
                yield number, data.decode("utf8", errors="surrogateescape")

    def describe(self) -> dict[str, Any]:
        """Describe the file for a terminology's report, after reading all lines.

        RETURNS (dict[str, Any]): The name of the file, without its folder, and its SHA-256.
        """
        return {"name": self.path.name, "sha256": self._sha256.hexdigest()}


@contextmanager
def unpacked(path: Path, file: io.BufferedReader[Any]) -> Iterator[BinaryIO]:
    """Decompress a file if its name or its first bytes are those of a gzipped one.

    path (Path): The file, for its name.
    file (io.BufferedReader): The file, open for reading.
    YIELDS (BinaryIO): The content of the file.
    RAISES (ValueError): If gzip data are damaged.
    """
    if path.suffix != ".gz" and file.peek(2)[:2] != GZIP_MAGIC:
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as content:
            yield cast(BinaryIO, content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(Errors.E103.format(file=path, found=f"{DAMAGED_GZIP} ({error})")) from error


def _lines(path: Path, file: io.BufferedReader[Any]) -> Iterator[bytes]:
    with unpacked(path, file) as content:
        yield from content if content is file else io.BufferedReader(cast(io.RawIOBase, content), buffer_size=1 << 20)


def invalid_utf8(text: str) -> str | None:
    """Find bytes in a text that are not UTF-8.

    text (str): Text from `SourceFile.lines`.
    RETURNS (str | None): The reason to refuse the text, or None if it is valid.
    """
    if text.isascii():
        return None
    try:
        text.encode("utf8")
    except UnicodeEncodeError as error:
        # An invalid byte 0xNN was decoded as U+DCNN.
        return f"the byte 0x{ord(text[error.start]) & 0xFF:02x} at character {error.start + 1} is not UTF-8"
    return None


class HashingReader(io.RawIOBase):
    """Reads a file and hashes its bytes."""

    def __init__(self, file: BinaryIO | io.FileIO, sha256: Any, on_read: Callable[[int], object] | None = None) -> None:
        """Wrap a file.

        file (BinaryIO | io.FileIO): An unbuffered file, open for reading.
        sha256 (Any): The hash to update.
        on_read (Callable[[int], object] | None): Called with the number of bytes of each read.
        """
        self._file = file
        self._sha256 = sha256
        self._on_read = on_read

    def readable(self) -> bool:
        """Return that the file is readable.

        RETURNS (bool): True.
        """
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer.

        buffer (Any): The buffer.
        RETURNS (int): The number of bytes read; 0 at the end of the file.
        """
        n = self._file.readinto(buffer)  # type: ignore[union-attr]
        self._sha256.update(memoryview(buffer)[:n])
        if self._on_read is not None:
            self._on_read(n)
        return n
