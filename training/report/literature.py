"""Published figures, each with its source table."""

from __future__ import annotations

import csv
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from thinc.api import Config

LITERATURE = Path(__file__).with_name("literature.tsv")
SOURCES = Path(__file__).with_name("literature_sources.cfg")
COUNTS = Path(__file__).with_name("corpus_counts.tsv")
# The highest value of each metric: per cent, or for MCSM at 40 neighbours the sum of 1 / log2(i + 1).
METRICS = {"acc_at_1": 100.0, "acc_at_3": 100.0, "acc_at_5": 100.0, "f1": 100.0, "accuracy": 100.0, "mcsm": 11.1}
COLUMNS = ["source", "table", "system", "corpus", "metric", "value", "pooling", "supervised", "note"]


class PublishedFigure(NamedTuple):
    """A published figure: a line of literature.tsv."""

    source: str
    table: str
    # As the table has it; the base encoder stands before "+ SapBERT".
    system: str
    corpus: str
    metric: str
    # As it is printed: per cent, but for MCSM.
    printed: str
    # How tokens become one vector; empty if the table doesn't say or there are none.
    pooling: str
    # yes or no: whether the system was trained on the corpus.
    supervised: str
    note: str

    @property
    def value(self) -> float:
        """The figure as a number."""
        return float(self.printed)

    @property
    def where(self) -> str:
        """The table for a citation, such as "Table 1"."""
        return f"Table {self.table}" if self.table.isdigit() else self.table


def read_sources() -> dict[str, dict[str, Any]]:
    """Read the publications: short, citation, url, and tables with their descriptions."""
    return Config().from_disk(SOURCES)["sources"]


def read_counts() -> dict[str, dict[str, float]]:
    """Read the published sizes of corpora: concepts and names of the ontology, and test mentions."""
    with COUNTS.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row.pop("corpus"): {key: float(value) for key, value in row.items()} for row in rows}


def read_literature(path: str | Path = LITERATURE) -> list[PublishedFigure]:
    """Read published figures, in the order of the file. A bad or repeated line is refused with its number."""
    known = read_sources()
    with Path(path).open(encoding="utf8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != COLUMNS:
        raise ValueError(f"{path}, line 1: the header has to be {', '.join(COLUMNS)}, with tabs between.")
    figures: dict[tuple[str, ...], PublishedFigure] = {}
    for number, row in enumerate(rows[1:], 2):
        key = (*row[:5], *row[6:7])
        reason = _find_fault(row, known) or ("this figure is there already" if key in figures else "")
        if reason:
            raise ValueError(
                f"{path}, line {number}: {reason}. Correct the line, or add its source or table to {SOURCES.name}."
            )
        figures[key] = PublishedFigure(*row)
    return list(figures.values())


def published_value(system: str, corpus: str, metric: str, *, pooling: str = "") -> PublishedFigure | None:
    """Look up a figure by the names of literature.tsv, of any pooling if none is given.

    Of several it is the first in the file, which follows the numbers of the tables.
    """
    found = _by_key().get((system, corpus, metric), [])
    return next((figure for figure in found if pooling in ("", figure.pooling)), None)


def check_published(system: str, pooling: str = "") -> None:
    """Refuse names that no published figure has: nothing would stand beside the measured ones. Empty means none."""
    poolings: dict[str, set[str]] = {"": {""}}
    for (name, _, _), figures in _by_key().items():
        poolings.setdefault(name, {""}).update(figure.pooling for figure in figures)
    if system not in poolings:
        near = ", ".join(get_close_matches(system, poolings) or sorted(poolings)[1:])
        raise ValueError(f"No published system is called {system!r} (see `published`). Choose one of: {near}.")
    if pooling not in poolings[system]:
        known = ", ".join(map(repr, sorted(poolings[system])))
        raise ValueError(f"No figure of {system!r} has the `published_pooling` {pooling!r}. Choose one of: {known}.")


@cache
def _by_key() -> dict[tuple[str, str, str], list[PublishedFigure]]:
    by_key: dict[tuple[str, str, str], list[PublishedFigure]] = {}
    for figure in read_literature():
        by_key.setdefault((figure.system, figure.corpus, figure.metric), []).append(figure)
    return by_key


def _find_fault(row: list[str], sources: dict[str, dict[str, Any]]) -> str:
    """Say what is wrong with a line; empty if nothing is."""
    if len(row) != len(COLUMNS):
        return f"there are {len(row)} fields instead of {len(COLUMNS)}"
    source, table, system, corpus, metric, value, _, supervised, _ = row
    if source not in sources:
        return f"the source {source!r} is none of {', '.join(sources)}"
    if table not in sources[source]["tables"]:
        return f"the table {table!r} is none of {', '.join(sources[source]['tables'])}"
    if not system or not corpus:
        return "it names no system or no corpus"
    if metric not in METRICS:
        return f"the metric {metric!r} is none of {', '.join(METRICS)}"
    if supervised not in ("yes", "no"):
        return f"supervised is {supervised!r} instead of yes or no"
    if not value.replace(".", "", 1).isdecimal() or not value.isascii() or not 0 <= float(value) <= METRICS[metric]:
        return f"the value {value!r} is no number from 0 to {METRICS[metric]:g}"
    return ""
