"""The original files of a corpus: a file, a folder, or an archive of either."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from spacy_sapbert.terminology.readers.lines import BOM, DAMAGED_GZIP, GZIP_MAGIC

from ....errors import Errors
from .report import ReadingReport

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
# Files that archivers and desktops leave behind.
LITTER = ("__MACOSX", ".DS_Store", "Thumbs.db")


@dataclass(frozen=True)
class InputFile:
    """A file of a corpus, of a folder or an archive.

    name (str): Its path below the input, without ".gz".
    label (str): Its name in messages and reports, without the folder that the input lies in.
    source (Path | bytes): Its path, or its content if it is in an archive.
    hashes (dict[str, str]): Gets the hash of the file, by name, when it is read.
    """

    name: str
    label: str
    source: Path | bytes
    hashes: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def read(self) -> bytes:
        """Read the whole file, unpacked if it is gzipped.

        RETURNS (bytes): Its content.
        RAISES (ValueError): If gzip data are damaged.
        """
        data = self.source if isinstance(self.source, bytes) else self.source.read_bytes()
        self.hashes[self.name] = hashlib.sha256(data).hexdigest()
        if not data.startswith(GZIP_MAGIC):
            return data
        try:
            return gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(Errors.E103.format(file=self.label, found=f"{DAMAGED_GZIP} ({error})")) from error

    def text(self, report: ReadingReport) -> str:
        """Read the whole file as text. Its line ends stay as they are: offsets count them.

        report (ReadingReport): Gets a note if the file is not UTF-8.
        RETURNS (str): The text.
        """
        data = self.read().removeprefix(BOM)
        try:
            return data.decode("utf8")
        except UnicodeDecodeError:
            report.note_odd("not UTF-8, read as Latin-1", self.label)
            return data.decode("latin-1")

    def lines(self, report: ReadingReport) -> Iterator[tuple[int, str]]:
        r"""Iterate over the lines. Each ends at \n or \r\n; a file that has both is reported.

        A line that is not UTF-8 is read as Latin-1 and reported; AskAPatient has some.

        report (ReadingReport): Gets odd lines.
        YIELDS (tuple[int, str]): The line's number, from 1, and its text.
        """
        lines = self.read().removeprefix(BOM).split(b"\n")
        n_dos = sum(line.endswith(b"\r") for line in lines[:-1])
        if 0 < n_dos < len(lines) - 1:
            report.note_odd("files with line ends of two kinds", f"{self.label}: {n_dos} of {len(lines) - 1} lines")
        for number, data in enumerate(lines, start=1):
            place = f"{self.label}, line {number}"
            data = data.removesuffix(b"\r")
            if b"\r" in data:
                report.note_odd("lines with a carriage return inside", place)
            try:
                yield number, data.decode("utf8")
            except UnicodeDecodeError:
                report.note_odd("not UTF-8, read as Latin-1", place)
                yield number, data.decode("latin-1")


def open_input(path: Path) -> list[InputFile]:
    """List the files of a corpus.

    path (Path): A file, a folder with files at any depth, or an archive (.zip, .tar, .tar.gz), which is not unpacked.
    RETURNS (list[InputFile]): The files, sorted by name.
    RAISES (OSError): If there is nothing there, or an archive is damaged.
    """
    hashes: dict[str, str] = {}
    if path.is_dir():
        found = ((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
        files = [InputFile(_plain(name), name, file, hashes) for name, file in found]
    elif not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    elif path.name.endswith(ARCHIVES):
        contents = _read_archive(path)
        files = [InputFile(_plain(name), f"{path.name}: {name}", content, hashes) for name, content in contents]
    else:
        files = [InputFile(_plain(path.name), path.name, path, hashes)]
    return sorted((file for file in files if not _is_litter(file.name)), key=lambda file: file.name)


def _read_archive(path: Path) -> list[tuple[str, bytes]]:
    # A password makes zipfile raise RuntimeError, an unknown compression NotImplementedError.
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return [(info.filename, archive.read(info)) for info in archive.infolist() if not info.is_dir()]
        with tarfile.open(path) as tar:
            return [(member.name, file.read()) for member in tar if (file := tar.extractfile(member))]
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, OSError, RuntimeError, KeyError) as error:
        raise OSError(Errors.E702.format(file=path, reason=error)) from error


def _plain(name: str) -> str:
    return name.removesuffix(".gz")


def _is_litter(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(part in LITTER for part in parts) or parts[-1].startswith("._")
