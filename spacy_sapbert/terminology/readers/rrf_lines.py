"""Read the files of a release in Rich Release Format (RRF) as tables, in blocks of whole, checked lines."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from operator import itemgetter
from pathlib import Path
from string import ascii_lowercase
from typing import Any, TypeVar

import numpy as np
import polars as pl

from ...errors import CUT_SHORT, warn
from ...progress import show_progress
from ...settings import OnMalformed
from ..names import find_rows
from .lines import BOM, ReadFile, invalid_utf8, report_files, verify

# Standard columns (UMLS Reference Manual, chapter 3), for folders without MRFILES.
COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY TTYL ATNL LAT CENC "
    "CURVER SABIN SSN SCIT",
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
    "RXNCUI": "CUI1 VER_START VER_END CARDINALITY CUI2",
    "MRSAT": "CUI LUI SUI METAUI STYPE CODE ATUI SATUI ATN SAB ATV SUPPRESS CVF",
    "MRDOC": "DOCKEY VALUE TYPE EXPL",
    "MRFILES": "FIL DES FMT CLS RWS BTS",
    "MRCOLS": "COL DES REF MIN AV MAX FIL DTY",
}
# What the names of files begin with in UMLS and in RxNorm, and the folder of a release that holds them.
UMLS, RXNORM = "MR", "RXN"
FOLDERS = {UMLS: "META", RXNORM: "rrf"}
# What a terminology is without if a file is empty.
GIVES = {"MRSTY": "semantic types", "MRDEF": "definitions", "MRREL": "parents and tradenames"}
GIVES |= {"MRSAB": "versions and licences of its sources"}
# A whole file, or one of the parts of a file in a full release: MRCONSO.RRF.aa.gz, MRCONSO.RRF.ab.gz, ...
_PART = re.compile(r"\.RRF(?P<part>\.(?!gz$)[a-z]{2})?(?P<packed>\.gz)?$")
# Larger blocks cost more in fresh memory than they save in calls.
BLOCK_SIZE = 8 << 20
# Blocks that are read ahead.
AHEAD = 3
NEWLINE = 0x0A
T = TypeVar("T")


class RrfFolder:
    """A folder with the files of one release, and counts of what was read."""

    def __init__(self, path: str | Path, *, errors: OnMalformed = "raise") -> None:
        """Find the files and read their columns from MRFILES. The folder may also be the parent of META."""
        self.path = Path(path)
        self.errors = errors
        self.read: dict[str, int] = {}
        self.repaired: Counter[str] = Counter()
        self.files: list[RrfLines] = []
        # Columns and rows of each file. MRFILES itself has the standard columns.
        self._formats: dict[str, tuple[list[str], int | None]] = {}
        places = [(prefix, folder) for prefix, name in FOLDERS.items() for folder in (self.path, self.path / name)]
        found = [(prefix, folder) for prefix, folder in places if find_parts(folder, f"{prefix}CONSO")]
        if len({prefix for prefix, _ in found}) > 1:
            raise ValueError(
                f"{self.path} holds both UMLS and RxNorm. Give the folder of one; move the other elsewhere."
            )
        if not found:
            raise FileNotFoundError(
                f"There is no MRCONSO.RRF (nor MRCONSO.RRF.gz, nor parts MRCONSO.RRF.aa.gz, ..., nor RXNCONSO.RRF) in "
                f"{self.path}. Give the folder of a release in Rich Release Format; a relative path starts from the "
                f"folder you run in ({Path.cwd()}). UMLS is licensed, free of charge, at "
                "https://www.nlm.nih.gov/research/umls. Without a licence, `projects/open_terminology` makes such a "
                "folder of open ontologies."
            )
        self.prefix, self.path = found[0]
        for name, columns, rows in self.table("MRFILES", ("FIL", "FMT", "RWS")).iter_rows():
            self._formats[Path(name).stem] = columns.split(","), int(rows) if rows.isdigit() else None
        for name in GIVES:
            _, expected = self._formats.get(name, ([], None))
            if expected and name not in self:
                fault = f"{self.path} has no {name}, but MRFILES says that it has {expected} rows."
                self._refuse(fault, "Copy the file there, or set errors = 'skip' to go on without it.")

    def __contains__(self, name: str) -> bool:
        return bool(find_parts(self.path, self.place(name).name))

    def place(self, name: str) -> Path:
        """Return the path, without an ending, that the release has for a file of UMLS such as "MRREL"."""
        return self.path / (self.prefix + name.removeprefix(UMLS))

    def tables(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read a file in blocks. All columns are strings without nulls."""
        return self.map_tables(lambda table: table, name, columns)

    def map_tables(self, work: Callable[[pl.DataFrame], T], name: str, columns: Sequence[str]) -> Iterator[T]:
        """Read a file in blocks, and do some work on each, in two threads that read ahead."""
        file = self.place(name).name
        header, expected = self._formats.get(name, (COLUMNS.get(file, COLUMNS[name]).split(), None))
        parts = find_parts(self.path, file)
        for column in columns:
            if column not in header:
                found = ", ".join(header)
                raise ValueError(f"{parts[0]} has no column {column}. According to MRFILES, its columns are: {found}.")
        lines = RrfLines(parts, len(header), self.errors)
        is_empty = True
        for done in lines.map(lambda data: work(lines.parse(data, header, columns))):
            is_empty = False
            yield done
        if is_empty and lines.n_malformed:
            found = f"has no well-formed line ({lines.n_malformed} malformed ones, the first is {lines.examples[0]})"
            raise ValueError(CUT_SHORT.format(file=parts[0], found=found))
        if is_empty and name in GIVES and expected != 0:
            message = (
                f"{parts[0]} is empty, so the terminology is without {GIVES[name]}. Copy the file again, or remove it."
            )
            warn(message)
        if is_empty:
            yield work(pl.DataFrame(schema={column: pl.String() for column in columns}))
        self.read[file] = lines.rows
        self.repaired.update(lines.repaired)
        self.files.append(lines)
        lines.warn()
        if expected not in (None, lines.rows):
            fault = (
                f"{parts[0]} has {lines.rows} lines, but MRFILES says {expected}. The copy is incomplete, the file was "
                "cut on purpose, or it comes from another release than MRFILES."
            )
            self._refuse(fault, "Copy the release again, or set errors = 'skip' to read the file as it is.")

    def table(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Read a file as a whole. If it is missing, the table is empty."""
        if name not in self:
            return pl.DataFrame(schema={column: pl.String() for column in columns})
        return pl.concat(self.tables(name, columns))

    def report(self, dropped: Mapping[str, int]) -> dict[str, Any]:
        """Report the files read so far, and compare them with the folder's checksums."""
        report = report_files(self.files, self.read, dropped)
        report["files"].sort(key=itemgetter("name"))
        return {**report, "verified": verify(report["files"], self.path)}

    def _refuse(self, fault: str, advice: str) -> None:
        if self.errors == "raise":
            raise ValueError(f"{fault} {advice}")
        warn(fault)


def find_parts(folder: Path, name: str) -> list[Path]:
    """Find a file of a release, such as "MRCONSO", or its parts in order."""
    if not folder.is_dir():
        return []
    matches = {path: _PART.search(path.name) for path in sorted(folder.glob(f"{name}.RRF*"))}
    found = {path: match for path, match in matches.items() if match}
    names = ", ".join(path.name for path in found)
    if len({(bool(match["part"]), match["packed"]) for match in found.values()}) > 1:
        raise ValueError(
            f"{folder} holds the same file in several forms: {names}. They may differ. Leave one of the forms there."
        )
    parts = [match["part"][1:] for match in found.values() if match["part"]]
    if parts == ["aa"]:
        raise ValueError(
            f"{folder} holds {names} alone, which is called like the first of several parts. Copy the others there as "
            f"well; if it is the whole file, rename it to {names.replace('.RRF.aa', '.RRF')}."
        )
    if parts != [first + second for first in ascii_lowercase for second in ascii_lowercase][: len(parts)]:
        raise ValueError(
            f"Parts of a file are missing in {folder}: {names}. They have to be named .aa, .ab, .ac and so on without "
            "a gap. Copy the others there as well."
        )
    return list(found)


class RrfLines(ReadFile):
    """The lines of one RRF file, which may be in parts and gzipped. Only a newline ends a line: names may contain
    U+0085 or U+2028. After reading, `rows` is the number of lines, and `repaired` counts the repaired lines by kind of
    fault."""

    # Stands behind each field, the last one too.
    separator = b"|"

    def __init__(self, paths: Sequence[Path], n_columns: int, errors: OnMalformed) -> None:
        super().__init__(paths[0], errors)
        self.paths = paths
        self.n_columns = n_columns
        self.rows = 0
        self.repaired: Counter[str] = Counter()

    def map(self, work: Callable[[bytes], T]) -> Iterator[T]:
        """Check blocks of lines, about 8 MiB each, and do some work on the good lines of each, in two threads ahead."""

        def check(data: bytes) -> tuple[int, T | None]:
            n = count_clean(data, self.n_columns, self.separator)
            return n, work(data) if n else None

        blocks = self._whole_lines()
        with ThreadPoolExecutor(2) as threads:
            waiting = deque((data, threads.submit(check, data)) for data in islice(blocks, AHEAD))
            while waiting:
                data, checked = waiting.popleft()
                waiting.extend((ahead, threads.submit(check, ahead)) for ahead in islice(blocks, 1))
                n, done = checked.result()
                if not n:
                    # Here, because lines and faults are counted in their order.
                    mended = self._mend(data, self.rows + 1)
                    n, done = data.count(b"\n"), work(mended) if mended else None
                self.rows += n
                if done is not None:
                    yield done

    def parse(self, data: bytes, header: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
        """Make a table of good lines. All columns are strings without nulls."""
        wanted = sorted(header.index(column) for column in columns)
        separator = self.separator.decode()
        frame = pl.read_csv(
            data, separator=separator, has_header=False, quote_char=None, columns=wanted, infer_schema=False
        )
        frame.columns = [header[position] for position in wanted]
        return frame.select(pl.col(column).fill_null("") for column in columns)

    def _whole_lines(self) -> Iterator[bytes]:
        """Read blocks of whole lines. A line may continue in the next part of the file."""
        rest = b""
        size = sum(path.stat().st_size for path in self.paths)
        with show_progress(total=size, description=f"Reading {self.paths[0].name}", unit="B") as progress:
            for path in self.paths:
                with self.open(path, lambda data: progress.update(len(data))) as content:
                    while data := content.read(BLOCK_SIZE):
                        data, rest = rest + data + content.readline(), b""
                        if data.endswith(b"\n"):
                            yield data
                        else:
                            rest = data
        if rest:
            yield rest + b"\n"

    def _mend(self, data: bytes, first: int) -> bytes:
        """Repair lines, and log those that cannot be repaired with their numbers."""
        kept = []
        if first == 1 and data.startswith(BOM):
            self.repaired["byte order mark"] += 1
            data = data.removeprefix(BOM)
        for number, line in enumerate(data.split(b"\n")[:-1], start=first):
            if line.endswith(b"\r"):
                line = line[:-1]
                self.repaired["carriage return"] += 1
            if line in (b"", self.separator):
                self.repaired["empty line"] += 1
                continue
            has_end = line.endswith(self.separator)
            found = line.count(self.separator) + (not has_end)
            reason = invalid_utf8(line.decode("utf8", errors="surrogateescape"))
            if reason or found != self.n_columns:
                wrong = f"{found} fields were found, but there are {self.n_columns} columns"
                self.refuse(number, reason or wrong)
                continue
            # Editors often drop the pipe after the last field; the line stays unambiguous.
            if not has_end:
                line += self.separator
                self.repaired["missing trailing pipe"] += 1
            kept.append(line)
        return b"\n".join([*kept, b""])


class TabLines(RrfLines):
    """The lines of a file with tabs between fields, such as RF2's, whose lines may end with CRLF. No tab stands behind
    the last field, so one is added."""

    separator = b"\t"

    def _whole_lines(self) -> Iterator[bytes]:
        for data in super()._whole_lines():
            yield data.replace(b"\r\n", b"\n").replace(b"\n", b"\t\n")


def count_clean(data: bytes, n_columns: int, separator: bytes = RrfLines.separator) -> int:
    """Count lines if all are UTF-8 with the right number of fields, a separator behind the last and no carriage
    return, else 0."""
    if b"\r" in data or data.startswith(BOM):
        return 0
    try:
        # Without decoding them, which takes longer.
        pl.Series([data]).cast(pl.String())
    except pl.exceptions.PolarsError:
        return 0
    characters = np.frombuffer(data, dtype=np.uint8)
    is_end = characters == ord(separator)
    ends = np.flatnonzero(characters == NEWLINE)
    if not is_end[ends - 1].all() or np.count_nonzero(is_end) != n_columns * len(ends):
        return 0
    # In bytes, 256 fields too many would not be seen, but then the sum is too large.
    n_fields = np.add.reduceat(is_end.view(np.uint8), np.append(0, ends[:-1] + 1), dtype=np.uint8)
    return len(ends) if (n_fields == n_columns).all() else 0


def read_changes(folder: RrfFolder) -> pl.DataFrame:
    """Read MRCUI: CUI1, REL and CUI2. RxNorm counts the concepts that took a concept's place; one that was only dropped
    stands in its own place."""
    if folder.prefix != RXNORM:
        return folder.table("MRCUI", ("CUI1", "REL", "CUI2"))
    rows = folder.table("MRCUI", ("CUI1", "CARDINALITY", "CUI2"))
    is_dropped, is_merged = pl.col("CUI2") == pl.col("CUI1"), pl.col("CARDINALITY") == "1"
    relation = pl.when(is_dropped).then(pl.lit("DEL")).when(is_merged).then(pl.lit("SY")).otherwise(pl.lit("RO"))
    return rows.select("CUI1", REL=relation, CUI2=pl.when(is_dropped).then(pl.lit("")).otherwise("CUI2"))


def list_retired(folder: RrfFolder, living: pl.Series) -> pl.DataFrame:
    """List from MRCUI what the concepts that are not in MRCONSO were merged into, and what they were mapped to."""
    rows = read_changes(folder)
    rows = rows.filter(pl.Series(find_rows(rows["CUI1"], living) < 0))
    others, is_same = pl.col("CUI2").replace("", None), pl.col("REL") == "SY"
    return (
        rows.group_by(id="CUI1")
        .agg(
            replaced_by=others.filter(is_same).drop_nulls().last(),
            consider=others.filter(~is_same).drop_nulls().unique(maintain_order=True),
        )
        .sort("id")
    )


def follow_merges(retired: pl.DataFrame) -> dict[str, str]:
    """Follow the concepts of `list_retired` that were merged into others, which may have been merged later. Circular
    merges are left out."""
    merged = dict(retired.drop_nulls("replaced_by").select("id", "replaced_by").iter_rows())
    current = {}
    for start, end in merged.items():
        seen = {start}
        while end in merged and end not in seen:
            seen.add(end)
            end = merged[end]
        if end not in seen:
            current[start] = end
    return current


def remap(table: pl.DataFrame, columns: Sequence[str], merged: Mapping[str, str]) -> pl.DataFrame:
    """Replace retired concepts in columns of ids by the concepts that they were merged into."""
    return table.with_columns(pl.col(columns).replace(merged)) if merged else table
