"""Published figures, each with its source table."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from thinc.api import Config

from ...errors import Errors

LITERATURE = Path(__file__).with_name("literature.tsv")
SOURCES = Path(__file__).with_name("literature_sources.cfg")
# The highest value of each metric: per cent, or for MCSM at 40 neighbours the sum of 1 / log2(i + 1).
METRICS = {"acc_at_1": 100.0, "acc_at_3": 100.0, "acc_at_5": 100.0, "f1": 100.0, "accuracy": 100.0, "mcsm": 11.1}
SUPERVISED = {"yes": True, "no": False}


@dataclass(frozen=True)
class Publication:
    """A publication with figures.

    name (str): Its name in the table of figures.
    short (str): Authors and year.
    citation (str): Authors, title, place and year.
    url (str): Its address.
    tables (dict[str, str]): A description of each table.
    """

    name: str
    short: str
    citation: str
    url: str
    tables: dict[str, str]


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure.

    source (str): The source's name.
    table (str): The table in it.
    system (str): The system, as the table has it; the base encoder stands before "+ SapBERT".
    corpus (str): The corpus.
    metric (str): One of `METRICS`.
    printed (str): The figure as it is printed: per cent, but for MCSM.
    pooling (str): How tokens become one vector; empty if the table doesn't say or there are none.
    supervised (bool): Whether the system was trained on the corpus.
    note (str): A remark.
    """

    source: str
    table: str
    system: str
    corpus: str
    metric: str
    printed: str
    pooling: str
    supervised: bool
    note: str

    @property
    def value(self) -> float:
        """The figure as a number: per cent, but for MCSM."""
        return float(self.printed)

    @property
    def where(self) -> str:
        """The table for a citation, such as "Table 1"."""
        return f"Table {self.table}" if self.table.isdigit() else self.table


COLUMNS = [column.name if column.name != "printed" else "value" for column in fields(PublishedFigure)]


def read_sources(path: str | Path = SOURCES) -> dict[str, Publication]:
    """Read the publications.

    path (str | Path): A config with a section [sources.<name>] for each.
    RETURNS (dict[str, Publication]): The sources by their names.
    """
    sections = Config().from_disk(path)["sources"]
    return {name: Publication(name=name, **section) for name, section in sections.items()}


def read_literature(path: str | Path = LITERATURE, sources: str | Path = SOURCES) -> list[PublishedFigure]:
    """Read published figures.

    path (str | Path): A table with a header, with tabs between its fields.
    sources (str | Path): As for `read_sources`.
    RETURNS (list[PublishedFigure]): The figures in the order of the file.
    RAISES (ValueError): If a line is malformed, its source, table or metric unknown, its value out of range, or
        its figure there already: with the line.
    """
    known = read_sources(sources)
    with Path(path).open(encoding="utf8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != COLUMNS:
        raise ValueError(Errors.E780.format(file=path, line=1, reason=f"the header is not {', '.join(COLUMNS)}"))
    figures: dict[tuple[str, ...], PublishedFigure] = {}
    for number, row in enumerate(rows[1:], 2):
        reason = _find_fault(row, known)
        key = (*row[:5], *row[6:7])
        if not reason and key in figures:
            reason = "this figure is there already"
        if reason:
            raise ValueError(Errors.E780.format(file=path, line=number, reason=reason))
        source, table, system, corpus, metric, value, pooling, supervised, note = row
        figures[key] = PublishedFigure(
            source, table, system, corpus, metric, value, pooling, SUPERVISED[supervised], note
        )
    return list(figures.values())


def published_value(system: str, corpus: str, metric: str, *, pooling: str = "") -> PublishedFigure | None:
    """Look up a published figure.

    system (str): The system, as the literature's table has it.
    corpus (str): The corpus.
    metric (str): One of `METRICS`.
    pooling (str): How tokens become one vector; empty for any.
    RETURNS (PublishedFigure | None): The figure; of several the first in the file, which follows the numbers of the
        tables, and None if there is none.
    RAISES (ValueError): If there is no such metric.
    """
    if metric not in METRICS:
        raise ValueError(Errors.E620.format(what="metric", value=metric, allowed=", ".join(METRICS)))
    found = _by_key().get((system, corpus, metric), [])
    return next((figure for figure in found if pooling in ("", figure.pooling)), None)


def check_published(system: str, pooling: str = "") -> None:
    """Refuse names that no published figure has: nothing would stand beside the measured ones.

    system (str): The system, as the literature's table has it; empty for none.
    pooling (str): How tokens become one vector; empty for any.
    RAISES (ValueError): If there is no figure of this system and this pooling.
    """
    poolings: dict[str, set[str]] = {"": {""}}
    for (name, _, _), figures in _by_key().items():
        poolings.setdefault(name, {""}).update(figure.pooling for figure in figures)
    if system not in poolings:
        near = get_close_matches(system, poolings) or sorted(poolings)[1:]
        raise ValueError(Errors.E620.format(what="published system", value=system, allowed=", ".join(near)))
    if pooling not in poolings[system]:
        allowed = ", ".join(map(repr, sorted(poolings[system])))
        raise ValueError(Errors.E620.format(what="published_pooling", value=pooling, allowed=allowed))


@cache
def _by_key() -> dict[tuple[str, str, str], list[PublishedFigure]]:
    by_key: dict[tuple[str, str, str], list[PublishedFigure]] = {}
    for figure in read_literature():
        by_key.setdefault((figure.system, figure.corpus, figure.metric), []).append(figure)
    return by_key


def _find_fault(row: list[str], sources: dict[str, Publication]) -> str:
    """Describe what is wrong with a line; empty if nothing is."""
    if len(row) != len(COLUMNS):
        return f"there are {len(row)} fields instead of {len(COLUMNS)}"
    source, table, system, corpus, metric, value, _, supervised, _ = row
    if source not in sources:
        return f"the source {source!r} is none of {', '.join(sources)}"
    if table not in sources[source].tables:
        return f"the table {table!r} is none of {', '.join(sources[source].tables)}"
    if not system or not corpus:
        return "it names no system or no corpus"
    if metric not in METRICS:
        return f"the metric {metric!r} is none of {', '.join(METRICS)}"
    if supervised not in SUPERVISED:
        return f"supervised is {supervised!r} instead of yes or no"
    if not value.replace(".", "", 1).isdecimal() or not value.isascii() or not 0 <= float(value) <= METRICS[metric]:
        return f"the value {value!r} is no number from 0 to {METRICS[metric]:g}"
    return ""
