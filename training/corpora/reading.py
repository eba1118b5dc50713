"""What readers of corpora share: the original files, the corpus that is read, and where mentions are in their texts."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import tarfile
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn

from spacy_sapbert.errors import CUT_SHORT, NO_FILE
from spacy_sapbert.exchange.documents import ExchangeReport, trim_span
from spacy_sapbert.terminology.readers.lines import BOM, DAMAGED_GZIP, GZIP_MAGIC

from ..data.mentions import Mention

# Files that archivers and desktops leave behind.
LITTER = {"__MACOSX", ".DS_Store", "Thumbs.db"}
# The names of parts in corpora, and ours.
PART_NAMES = {"train": "train", "trng": "train", "training": "train", "test": "test"}
PART_NAMES |= {"dev": "dev", "develop": "dev", "development": "dev"}
# In place of a separator: fields with tabs between them, which may be in quotation marks.
QUOTED = "quoted"
DICTIONARY = "dictionary"
WINDOW = 100


class Row(NamedTuple):
    """The fields of a line, with its place and form for messages."""

    place: str  # The file and line.
    fields: list[str]
    form: str  # The form of a line, for messages.
    report: ExchangeReport

    def refuse(self, reason: str) -> None:
        """Raise an error for a malformed line, or count it if errors are skipped."""
        self.report.refuse(self.place, reason, self.form)


@dataclass(frozen=True)
class InputFile:
    """A file of a corpus, of a folder or an archive."""

    name: str  # Its path below the input, without ".gz".
    label: str  # Its name in messages and reports.
    source: Path | bytes  # Its path, or its content if it is in an archive.
    report: ExchangeReport = field(compare=False, repr=False)
    hashes: dict[str, str] = field(default_factory=dict, compare=False, repr=False)  # Gets its hash when it is read.

    def read(self) -> bytes:
        """Read the whole file, unpacked if it is gzipped."""
        data = self.source if isinstance(self.source, bytes) else self.source.read_bytes()
        self.hashes[self.name] = hashlib.sha256(data).hexdigest()
        if not data.startswith(GZIP_MAGIC):
            return data
        try:
            return gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(CUT_SHORT.format(file=self.label, found=f"{DAMAGED_GZIP} ({error})")) from error

    def text(self) -> str:
        """Read the whole file as text. Its line ends stay as they are: offsets count them."""
        return self._decode(self.read().removeprefix(BOM), self.label)

    def lines(self) -> Iterator[tuple[int, str]]:
        r"""Iterate over the lines and their numbers, from 1. Each ends at \n or \r\n; a file that has both is reported.
        A line that is not UTF-8 is read as Latin-1 and reported; AskAPatient has some."""
        lines = self.read().removeprefix(BOM).split(b"\n")
        n_dos = sum(line.endswith(b"\r") for line in lines[:-1])
        if 0 < n_dos < len(lines) - 1:
            place = f"{self.label}: {n_dos} of {len(lines) - 1} lines"
            self.report.note_odd("files with line ends of two kinds", place)
        for number, data in enumerate(lines, start=1):
            place = f"{self.label}, line {number}"
            data = data.removesuffix(b"\r")
            if b"\r" in data:
                self.report.note_odd("lines with a carriage return inside", place)
            yield number, self._decode(data, place)

    def rows(
        self, form: str, widths: Collection[int] = (), *, separator: str = "\t", splits: int = -1
    ) -> Iterator[Row]:
        """Iterate over the fields of the lines that are not empty. Lines with another number of fields than one of
        `widths`, if there are any, are refused with the right form."""
        for number, line in self.lines():
            row = Row(f"{self.label}, line {number}", line.split(separator, splits), form, self.report)
            if not line.strip():
                continue
            if separator == QUOTED:
                try:
                    # Line by line: one quotation mark too many would otherwise swallow the rest of the file.
                    row = row._replace(fields=next(csv.reader([line], dialect="excel-tab", strict=True)))
                except csv.Error as error:
                    row.refuse(f"quotation marks that do not fit together ({error})")
                    continue
            if widths and len(row.fields) not in widths:
                row.refuse(f"{len(row.fields)} fields instead of {' or '.join(map(str, widths))}")
            else:
                yield row

    def _decode(self, data: bytes, place: str) -> str:
        try:
            return data.decode("utf8")
        except UnicodeDecodeError:
            self.report.note_odd("not UTF-8, read as Latin-1", place)
            return data.decode("latin-1")


@dataclass
class Originals:
    """The original files of a corpus: what a reader of a format takes."""

    files: list[InputFile]
    report: ExchangeReport  # Counts what is left out, odd or malformed.

    def match(self, pattern: str) -> list[tuple[re.Match[str], InputFile]]:
        """Choose files whose whole name matches a pattern, in upper or lower case. Others are reported: a fold too many
        changes an average."""
        chosen = []
        for file in self.files:
            if found := re.fullmatch(pattern, file.name, re.IGNORECASE):
                chosen.append((found, file))
            else:
                self.report.note_odd("stray files, not read", file.label)
        if not chosen:
            self.refuse(pattern)
        return chosen

    def find_parts(self, pattern: str) -> dict[str, InputFile]:
        """Find the file of each part, such as "train" or "fold1.test": the groups `part` and `fold` of their names."""
        parts: dict[str, InputFile] = {}
        for match, file in self.match(pattern):
            groups = match.groupdict()
            name = groups["part"].replace("/", ".")
            name = PART_NAMES.get(name.lower(), name)
            name = f"fold{int(groups['fold'])}.{name}" if "fold" in groups else name
            claim(parts, name, file, name)
        return parts

    def find_pairs(
        self, pattern: str, name: Callable[[re.Match[str]], tuple[str, str]], form: str
    ) -> Iterator[tuple[str, str, InputFile, InputFile]]:
        """Find the text and the annotations of each document: files that differ in the group `kind` of a pattern, which
        is txt or ann. Of a match, `name` gives part and document. Yields both, and the two files."""
        pairs: dict[tuple[str, str], dict[str, InputFile]] = {}
        for match, file in self.match(pattern):
            part, doc_id = name(match)
            claim(pairs.setdefault((part, doc_id), {}), match["kind"].lower(), file, f"document {doc_id}")
        for (part, doc_id), pair in pairs.items():
            if len(pair) == 2:
                yield part, doc_id, pair["txt"], pair["ann"]
            else:
                fault = "a text without annotations, or the other way"
                self.report.refuse(next(iter(pair.values())).label, fault, form)

    def refuse(self, pattern: str) -> NoReturn:
        """Raise an error if files that the format needs are missing."""
        names = ", ".join(file.name for file in self.files[:5]) or "nothing"
        raise ValueError(
            f"There are not all the files that this format has ({pattern}), but: {names}. Give the file or the folder "
            "as its authors hand it out, with their file names."
        )


def claim(taken: dict[Any, InputFile], key: Any, file: InputFile, what: str) -> None:
    """Note which file something is read from, and refuse a second one."""
    first = taken.setdefault(key, file)
    if first is not file:
        raise ValueError(
            f"{what} is there twice: {first.label} and {file.label}. They are probably two versions, or two copies. "
            "Leave one of them there."
        )


@dataclass
class CorpusParts:
    """A corpus as it was read: what a reader of a format returns."""

    # The mentions of each part, such as "train" or "fold1.test".
    mentions: dict[str, list[Mention]] = field(default_factory=lambda: defaultdict(list))
    documents: dict[str, int] = field(default_factory=Counter)  # How many each part has, with mentions or without.
    # The rows of each dictionary: an id, or several with "|" between them, and a name.
    dictionaries: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # The text of each document of each part, if the format has whole texts. Offsets of mentions refer to it.
    texts: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    # The release of each dictionary, such as "SNOMED CT INT 20190731", if its files say it.
    releases: dict[str, str] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)  # Format and input, for the report. Readers leave it empty.

    def add(self, part: str, doc_id: str, text: str, mentions: Iterable[Mention]) -> None:
        """Add a document with its mentions to a part."""
        self.texts[part][doc_id] = text
        self.documents[part] += 1
        self.mentions[part] += mentions


class Format(NamedTuple):
    """A format of corpora: how it is read, and the files that it consists of, for the list of all formats."""

    read: Callable[[Originals], CorpusParts]
    files: str


def open_input(path: Path, report: ExchangeReport) -> Originals:
    """List the files of a file, a folder or an archive (.zip, .tar, .tar.gz), which is not unpacked, sorted by name."""
    contents: Iterable[tuple[str, Path | bytes]]
    prefix = ""
    if path.is_dir():
        contents = [(file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file()]
    elif not path.is_file():
        raise FileNotFoundError(NO_FILE.format(file=path, cwd=Path.cwd()))
    elif path.name.endswith((".zip", ".tar", ".tar.gz", ".tgz")):
        contents = _read_archive(path)
        prefix = f"{path.name}: "
    else:
        contents = [(path.name, path)]
    hashes: dict[str, str] = {}
    files = [
        InputFile(name.removesuffix(".gz"), prefix + name, source, report, hashes)
        for name, source in contents
        if LITTER.isdisjoint(PurePosixPath(name).parts) and not PurePosixPath(name).name.startswith("._")
    ]
    return Originals(sorted(files, key=lambda file: file.name), report)


def _read_archive(path: Path) -> list[tuple[str, bytes]]:
    # A password makes zipfile raise RuntimeError, an unknown compression NotImplementedError.
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return [(info.filename, archive.read(info)) for info in archive.infolist() if not info.is_dir()]
        with tarfile.open(path) as tar:
            return [(member.name, file.read()) for member in tar if (file := tar.extractfile(member))]
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, OSError, RuntimeError, KeyError) as error:
        raise OSError(
            f"Can't read the archive {path}: {error}. The download was probably cut short, or it needs a password. "
            "Fetch it again, or unpack it and give the folder."
        ) from error


def cut_window(text: str, start: int, end: int, size: int = WINDOW) -> tuple[str, int]:
    """Cut out the text around a span, from a word's start to a word's end, and say where it starts."""
    left = max(0, start - size)
    right = min(len(text), end + size)
    if left and not text[left - 1].isspace():
        left = next((place + 1 for place in range(left, start) if text[place].isspace()), start)
    if right < len(text) and not text[right].isspace():
        right = next((place for place in range(right - 1, end - 1, -1) if text[place].isspace()), end)
    return text[left:right], left


def locate(mention: Mention, text: str, *pieces: tuple[int, int]) -> Mention:
    """Add to a mention its text, without spaces at its ends, its place in the document, and the text around
    it. One of several pieces has `fragments` instead, and keeps its text."""
    if len(pieces) > 1:
        return replace(mention, text=" ".join(mention.text.split()), fragments=[list(piece) for piece in pieces])
    start, end = trim_span(text, *pieces[0])
    window, window_start = cut_window(text, start, end)
    return replace(mention, text=text[start:end], start=start, end=end, window=window, window_start=window_start)
