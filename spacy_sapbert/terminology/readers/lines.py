"""Read the lines of a plain or gzipped text file with their numbers, hashing the file on the way."""

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
BOM = b"\xef\xbb\xbf"


class SourceFile:
    """An input file, read once from beginning to end."""

    def __init__(self, path: str | Path) -> None:
        """Find the file.

        path (str | Path): The file, gzipped or not.
        RAISES (FileNotFoundError): If there is no such file.
        """
        self.path = Path(path)
        self._sha256 = hashlib.sha256()
        if not self.path.is_file():
            raise FileNotFoundError(Errors.E102.format(file=self.path, cwd=Path.cwd()))

    def lines(self, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
        r"""Iterate over the lines, which end at \n only: U+0085 and U+2028 may stand inside a name.

        Bytes that are not UTF-8 become lone surrogates, so that a reader can refuse the whole record that
        they stand in; see `invalid_utf8`.

        keep_ends (bool): Whether to keep the line ends, for formats in which a record may span lines.
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
        """Describe the file for a terminology's report, after its lines were read to the end.

        RETURNS (dict[str, Any]): Its name and sha256. The folder is left out: it says nothing of the content.
        """
        return {"name": self.path.name, "sha256": self._sha256.hexdigest()}


@contextmanager
def unpacked(path: Path, file: io.BufferedReader[Any]) -> Iterator[BinaryIO]:
    """Unpack a file if it is gzipped, by its name or its first bytes.

    path (Path): The file, for its name.
    file (io.BufferedReader): The file, open for reading.
    YIELDS (BinaryIO): Its content.
    RAISES (ValueError): If gzip data are damaged.
    """
    if path.suffix != ".gz" and file.peek(2)[:2] != GZIP_MAGIC:
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as content:
            yield cast(BinaryIO, content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(Errors.E103.format(file=path, reason=error)) from error


def _lines(path: Path, file: io.BufferedReader[Any]) -> Iterator[bytes]:
    with unpacked(path, file) as content:
        yield from content if content is file else io.BufferedReader(cast(io.RawIOBase, content), buffer_size=1 << 20)


def invalid_utf8(text: str) -> str | None:
    """Say what is wrong with text that came from bytes that are not UTF-8.

    text (str): Text from `SourceFile.lines`.
    RETURNS (str | None): The reason to refuse it, or None if it is fine.
    """
    if text.isascii():
        return None
    try:
        text.encode("utf8")
    except UnicodeEncodeError as error:
        # A byte 0xNN that does not decode stands in the text as U+DCNN.
        return f"the byte 0x{ord(text[error.start]) & 0xFF:02x} at character {error.start + 1} is not UTF-8"
    return None


class HashingReader(io.RawIOBase):
    """Pass a file's bytes on while hashing them."""

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
        """Tell that the file can be read.

        RETURNS (bool): True.
        """
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, at most as many as fit.

        buffer (Any): Where to put them.
        RETURNS (int): How many they are.
        """
        n = self._file.readinto(buffer)  # type: ignore[union-attr]
        self._sha256.update(memoryview(buffer)[:n])
        if self._on_read is not None:
            self._on_read(n)
        return n
