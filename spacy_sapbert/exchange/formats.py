"""The formats of annotated texts, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors
from .bioc import read_bioc, write_bioc
from .brat import read_brat, write_brat
from .documents import AnnotatedText
from .inception import read_inception, write_inception
from .mention_tables import read_csv, read_tsv, write_csv, write_tsv
from .prodigy import read_prodigy
from .pubtator import read_pubtator, write_pubtator
from .report import ExchangeReport

Reader = Callable[[Path, ExchangeReport, str], Iterator[AnnotatedText]]
Writer = Callable[[Iterable[AnnotatedText], Path, ExchangeReport, str], None]


class Format(NamedTuple):
    """A format. Readers and writers take a path, a report, and what stands before each id in the files only.

    read (Reader | None): Reads it.
    write (Writer | None): Writes it.
    is_folder (bool): Whether it is a folder, not a file.
    has_context (bool): Whether it can say that a mention is negated, and such.
    """

    read: Reader | None
    write: Writer | None
    is_folder: bool = False
    has_context: bool = True


FORMATS = {
    "bioc": Format(read_bioc, write_bioc),
    "brat": Format(read_brat, write_brat, is_folder=True),
    "csv": Format(read_csv, write_csv, is_folder=True),
    "inception": Format(read_inception, write_inception, is_folder=True, has_context=False),
    "prodigy": Format(read_prodigy, None),
    "pubtator": Format(read_pubtator, write_pubtator, has_context=False),
    "tsv": Format(read_tsv, write_tsv, is_folder=True),
}


def find_reader(name: str) -> Reader:
    """Find the reader of a format.

    name (str): The format.
    RETURNS (Reader): Its reader.
    RAISES (ValueError): If there is none.
    """
    known = {name: format_.read for name, format_ in FORMATS.items() if format_.read}
    if name not in known:
        raise ValueError(Errors.E473.format(name=name, direction="read", known=", ".join(known)))
    return known[name]


def find_writer(name: str, *, escape_formulas: bool = False) -> Writer:
    """Find the writer of a format.

    name (str): The format.
    escape_formulas (bool): Put an apostrophe before cells that programs for tables take for a formula.
    RETURNS (Writer): Its writer.
    RAISES (ValueError): If there is none, or it writes no cells.
    """
    known: dict[str, Writer] = {name: format_.write for name, format_ in FORMATS.items() if format_.write}
    direction = "write"
    if escape_formulas:
        tables = {"csv": write_csv, "tsv": write_tsv}
        known = {name: partial(write, escape_formulas=True) for name, write in tables.items()}
        direction = "write with formulas escaped"
    if name not in known:
        raise ValueError(Errors.E473.format(name=name, direction=direction, known=", ".join(known)))
    return known[name]
