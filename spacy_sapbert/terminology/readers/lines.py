"""What the readers share: numbered lines of a hashed file, malformed records, checksums, and settings as arguments."""

from __future__ import annotations

import codecs
import functools
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ...errors import CUT_SHORT, warn
from ...files import check_is_file
from ...settings import OnMalformed, Settings, with_settings

if TYPE_CHECKING:
    from ..builder import TerminologyBuilder
    from ..table import Terminology, TerminologyReader

GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
# How files in UTF-16 begin, which programs for spreadsheets call Unicode.
UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What a message says of a file.
DAMAGED_GZIP = "holds gzip data that end early or are damaged"
# Dates and decimal numbers, which spreadsheets and data frames make of ids. Codes of ICD-9 such as "250.0" are ids.
_MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
NOT_AN_ID = (
    r"^(\d{1,2}/\d{1,2}/(\d\d){1,2}|\d{4}(-\d\d-\d\d|/\d{1,2}/\d{1,2})|\d\d\.\d\d\.\d{4}|\d{4,}\.0+|\d(\.\d+)?E\+\d+"
    rf"|\d{{1,2}}-{_MONTH}(-(\d\d){{1,2}})?|{_MONTH}-\d\d)( 00:00:00(\.0+)?)?$"
)
# Examples of each kind in a report.
MAX_EXAMPLES = 20
CHECKSUMS_FILE = "SHA256SUMS"
P = ParamSpec("P")
S = TypeVar("S", bound=Settings)
Watcher = Callable[[memoryview], object]
RecordT = TypeVar("RecordT", bound=BaseModel)
# The number of a line, or where a record stands in a file without meaningful lines.
Place = int | str


class ReadFile:
    """A file that is read. At its first malformed record, reading stops ("raise"), or such records are counted, and the
    first ones kept as examples ("skip")."""

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        self.path, self.errors = path, errors
        # The names and hashes of the file, or of its parts, after reading.
        self.hashes: list[dict[str, str]] = []
        self.n_malformed = 0
        self.examples: list[str] = []

    @contextmanager
    def open(self, path: Path, *watchers: Watcher) -> Iterator[io.BufferedReader[Any]]:
        """Open the file, or a part of it, to be read to its end. It is decompressed and hashed. Watchers get its bytes,
        too."""
        sha256 = hashlib.sha256()
        with path.open("rb", buffering=0) as raw:
            hashed = io.BufferedReader(WatchedReader(raw, sha256.update, *watchers), buffer_size=1 << 20)
            with unpacked(path, hashed) as content:
                yield content
        self.hashes.append({"name": path.name, "sha256": sha256.hexdigest()})

    def refuse(self, place: Place, reason: object) -> None:
        """Log a malformed record by its place. The caller leaves it out."""
        text = str(reason).rstrip(".")
        if self.errors == "raise":
            where, what = (f"line {place}", "the line") if isinstance(place, int) else (place, "it")
            raise ValueError(
                f"{self.path}, {where}: {text}. The file is damaged or of another kind. Correct {what}, or set "
                "errors = 'skip' to leave such records out and have them counted in the terminology's report."
            )
        self.n_malformed += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(f"{self.path.name}:{place}: {text}")

    def warn(self) -> None:
        """Warn if records were skipped. Call this after reading the whole file."""
        if self.n_malformed:
            message = (
                f"{self.path}: {self.n_malformed} malformed records were skipped because errors = 'skip', the first at "
                f"{self.examples[0]}. The first {MAX_EXAMPLES} are in `terminology.report`."
            )
            warn(message)


def report_files(files: Sequence[ReadFile], read: Mapping[str, int], dropped: Mapping[str, int]) -> dict[str, Any]:
    """Report what was read of files, and what was dropped."""
    return {
        "files": [hashed for file in files for hashed in file.hashes],
        "read": read,
        "dropped": {**dropped, "malformed": sum(file.n_malformed for file in files)},
        "malformed_examples": [example for file in files for example in file.examples],
    }


class SourceFile(ReadFile):
    """An input file, gzipped or not, read once from beginning to end. It is in UTF-8, in UTF-16 if it begins so, or in
    the given encoding."""

    def __init__(self, path: str | Path, errors: OnMalformed = "raise", *, encoding: str | None = None) -> None:
        super().__init__(Path(path), errors)
        self._encoding = encoding
        check_is_file(self.path)

    def lines(self, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
        r"""Iterate over the lines and their numbers, from 1. Only \n ends a line: names may contain U+0085 or U+2028.
        Bytes that are not UTF-8 become lone surrogates, so that a reader can refuse the whole record; see
        `invalid_utf8`. Formats with records of several lines need their ends."""
        with self.open(self.path) as content:
            for number, data in enumerate(self._as_utf8(content), start=1):
                if number == 1:
                    data = data.removeprefix(BOM)
                if not keep_ends:
                    data = data.removesuffix(b"\n").removesuffix(b"\r")
                yield number, data.decode("utf8", errors="surrogateescape")

    def content(self) -> bytes:
        """Read the whole file, as UTF-8 and without a byte order mark."""
        with self.open(self.path) as content:
            return self._as_utf8(content).read().removeprefix(BOM)

    def _as_utf8(self, content: io.BufferedReader[Any]) -> BinaryIO:
        encoding = self._encoding or ("utf-16" if content.peek(2)[:2] in UTF16_BOMS else None)
        if encoding is None:
            return content
        data = content.read()
        try:
            return io.BytesIO(data.decode(encoding).encode("utf8"))
        except UnicodeError as error:
            raise ValueError(
                f"{self.path} is not in {encoding}: {error}. Give the encoding in which it was saved."
            ) from error

    def describe(self) -> dict[str, str]:
        """Describe the file for a terminology's report, after reading all lines."""
        return self.hashes[0]


class WatchedReader(io.RawIOBase):
    """Reads an unbuffered file, and passes on the bytes of each read to watchers."""

    def __init__(self, file: BinaryIO | io.FileIO, *watchers: Watcher) -> None:
        self._file, self._watchers = file, watchers

    def readable(self) -> bool:
        """Say that the file is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer, and return their number."""
        n = self._file.readinto(buffer)  # type: ignore[union-attr]
        for watch in self._watchers:
            watch(memoryview(buffer)[:n])
        return n


@contextmanager
def unpacked(path: Path, file: io.BufferedReader[Any]) -> Iterator[io.BufferedReader[Any]]:
    """Decompress a file if its name or its first bytes are those of a gzipped one."""
    if path.suffix != ".gz" and file.peek(2)[:2] != GZIP_MAGIC:
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as content:
            yield io.BufferedReader(content, buffer_size=1 << 20)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(CUT_SHORT.format(file=path, found=f"{DAMAGED_GZIP} ({error})")) from error


def invalid_utf8(text: str) -> str | None:
    """Find bytes in a text from `SourceFile.lines` that are not UTF-8, and say why to refuse it."""
    if text.isascii():
        return None
    try:
        text.encode("utf8")
    except UnicodeEncodeError as error:
        # An invalid byte 0xNN was decoded as U+DCNN.
        return f"the byte 0x{ord(text[error.start]) & 0xFF:02x} at character {error.start + 1} is not UTF-8"
    return None


def parse_record(kind: type[RecordT], text: str) -> RecordT:
    """Parse one line of JSON, or raise a ValueError with the reason why it is not such a record."""
    if reason := invalid_utf8(text):
        raise ValueError(reason)
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(describe_problem(error)) from None


def describe_problem(error: ValidationError) -> str:
    """Say what is first wrong with a record: where, and which value."""
    problem = error.errors()[0]
    place = ".".join(map(str, problem["loc"]))
    found = "" if problem["type"] in ("missing", "json_invalid") else f", not {problem['input']!r:.80}"
    return f"{place}: {problem['msg']}{found}".removeprefix(": ")


def finish(
    builder: TerminologyBuilder,
    source: SourceFile,
    *,
    read: Mapping[str, int],
    dropped: Mapping[str, int],
    version: str | None = None,
    **more: Any,
) -> Terminology:
    """Build the terminology with its report, and warn of skipped records and of ids that a program has changed."""
    source.warn()
    report = {**report_files([source], read, dropped), "source_version": version, **more}
    terminology = builder.build(report)
    if odd := [*filter(re.compile(NOT_AN_ID).search, terminology.concepts["id"])]:
        message = (
            f"{source.path}: {len(odd):,} ids look like dates or decimal numbers, such as {odd[0]!r}. A spreadsheet or "
            "a data frame has probably changed them. Make the file again, with ids as text."
        )
        warn(message)
    return terminology


def check_values(
    place: Path, what: str, wanted: Iterable[str], known: Iterable[str], titles: Mapping[str, str] | None = None
) -> None:
    """Refuse the values of a setting if a release has none of them, and warn of those that it lacks: they are misspelt,
    or it is smaller than others."""
    listed = list(dict.fromkeys(known))
    named = set(wanted)
    unknown = sorted(named.difference(listed))
    if not unknown:
        return
    shown = [f"{one} ({titles[one]})" if titles and one in titles else one for one in listed[:30]]
    found = ", ".join(shown) + (", ..." if len(listed) > 30 else "") or "none at all"
    message = (
        f"{place} names no {what} {', '.join(map(repr, unknown))}. Those it has are: {found}. Values are matched "
        "exactly, case included."
    )
    if len(unknown) == len(named):
        raise ValueError(message)
    warn(f"{message} The rest is read without them.")


def verify(files: Sequence[dict[str, Any]], folder: str | Path) -> int:
    """Compare files that were read with the folder's list SHA256SUMS, in the format of `sha256sum`. The number of
    verified files is 0 if there is no list. A spaCy project does not stop at an asset with a wrong checksum."""
    path = Path(folder) / CHECKSUMS_FILE
    if not path.is_file():
        return 0
    lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf8").splitlines() if line.strip()]
    expected = {Path(fields[1].lstrip("*")).name: fields[0].lower() for fields in lines if len(fields) == 2}
    for file in files:
        name, found = file["name"], file["sha256"]
        if expected.get(name, found) != found:
            raise ValueError(
                f"'{name}' in {folder} is not the file that {path} lists: its SHA-256 is {found}, not "
                f"{expected[name]}. It is damaged, or of another release. Fetch it again, or correct the list."
            )
    if unlisted := [file["name"] for file in files if file["name"] not in expected]:
        raise ValueError(
            f"The list of checksums {path} lacks files that were read: {', '.join(unlisted)}. It belongs to another "
            "folder, is out of date, or is not in the form that `sha256sum` writes."
        )
    return len(files)


def takes_settings(
    settings: Callable[P, S],
) -> Callable[[Callable[[Path, S], Terminology]], Callable[Concatenate[str | Path, P], Terminology]]:
    """Decorate a function of a path and settings, so that callers give the settings as keyword arguments."""
    cls = cast(type[Settings], settings)

    def decorate(read: Callable[[Path, S], Terminology]) -> Callable[Concatenate[str | Path, P], Terminology]:
        @functools.wraps(read)
        def read_with(path: str | Path, *args: P.args, **values: P.kwargs) -> Terminology:
            return read(Path(path), cast(S, cls.read(values, f"`{read.__name__}`")))

        # Not positional-only: configs give the path by its name.
        return cast("Callable[Concatenate[str | Path, P], Terminology]", with_settings(cls)(read_with))

    return decorate


def make_factory(
    name: str, read: Callable[Concatenate[str | Path, P], Terminology], settings: Callable[P, S]
) -> Callable[Concatenate[str, P], TerminologyReader]:
    """Make the registered function that makes a reader from a block of a config. The reader opens the file."""
    cls = cast(type[Settings], settings)

    def make_reader(path: str, *args: P.args, **values: P.kwargs) -> TerminologyReader:
        # Invalid settings are refused when the config is read, not when the file is.
        cls.read(values, f"`{name}`")
        return functools.partial(read, path, *args, **values)

    make_reader.__name__ = make_reader.__qualname__ = name
    make_reader.__module__ = read.__module__
    make_reader.__doc__ = f"Make a reader for use in a config. Its settings are those of `{cls.__name__}`."
    return cast("Callable[Concatenate[str, P], TerminologyReader]", with_settings(cls)(make_reader))
