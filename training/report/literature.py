"""Published figures, each with its source table, and the tables and figures of the papers: what runs with open data,
what needs a licence, what is copied."""

from __future__ import annotations

import csv
from collections import Counter
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from thinc.api import Config

from ..markup import NOTHING

FOLDER = Path(__file__).parent
COLUMNS = ("Table or figure", "Shows", "How", "With", "Command")
HERE = "runs here"
WITH_DATA = "runs with your data"
COPIED = "copied"


class PublishedFigure(NamedTuple):
    """A published figure: a line of literature.tsv."""

    source: str
    table: str
    system: str  # As the table has it; the base encoder stands before "+ SapBERT".
    corpus: str
    metric: str
    printed: str  # Per cent, but for MCSM.
    pooling: str  # How tokens become one vector; empty if the table doesn't say or there are none.
    supervised: str  # yes or no: whether the system was trained on the corpus.
    note: str

    @property
    def value(self) -> float:
        """The figure as a number."""
        return float(self.printed)

    @property
    def where(self) -> str:
        """The table for a citation, such as "Table 1"."""
        return f"Table {self.table}" if self.table.isdigit() else self.table


@cache
def read_publications() -> dict[str, dict[str, Any]]:
    """Read the publications: short, citation, url, and tables with their descriptions."""
    return Config().from_disk(FOLDER / "literature_sources.cfg")["sources"]


@cache
def read_literature() -> list[PublishedFigure]:
    """Read all published figures, in the order of the file."""
    with (FOLDER / "literature.tsv").open(encoding="utf8", newline="") as file:
        return [PublishedFigure(*row) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


def read_counts() -> dict[str, dict[str, float]]:
    """Read the published sizes of corpora: concepts and names of the ontology, and test mentions."""
    with (FOLDER / "corpus_counts.tsv").open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row.pop("corpus"): {key: float(value) for key, value in row.items()} for row in rows}


def published_value(system: str, corpus: str, metric: str, *, pooling: str = "") -> PublishedFigure | None:
    """Look up a figure by the names of literature.tsv, of any pooling if none is given. The first in the file wins."""
    key = (system, corpus, metric)
    figures = (figure for figure in read_literature() if (figure.system, figure.corpus, figure.metric) == key)
    return next((figure for figure in figures if pooling in ("", figure.pooling)), None)


def check_published(system: str, pooling: str = "") -> None:
    """Refuse a system or pooling without published figures, as nothing could be compared. Empty means none."""
    poolings: dict[str, set[str]] = {"": {""}}
    for figure in read_literature():
        poolings.setdefault(figure.system, {""}).add(figure.pooling)
    if system not in poolings:
        near = ", ".join(get_close_matches(system, poolings) or sorted(poolings)[1:])
        raise ValueError(f"No published system is called {system!r} (see `published`). Choose one of: {near}.")
    if pooling not in poolings[system]:
        names = ", ".join(map(repr, sorted(poolings[system])))
        raise ValueError(f"No figure of {system!r} has the `published_pooling` {pooling!r}. Choose one of: {names}.")


class PaperItem(NamedTuple):
    """A table or figure of a paper: a section of papers.cfg, which explains its values."""

    source: str
    item: str
    shows: str
    here: str
    commands: list[str]
    needs: str
    commands_with_data: list[str]
    constant: str


def read_papers() -> list[PaperItem]:
    """Read the list of tables and figures."""
    return [PaperItem(**section) for section in Config().from_disk(FOLDER / "papers.cfg")["papers"].values()]


def list_paper_rows(source: str) -> list[list[str]]:
    """List a row for each command of a paper's tables and figures, and for what is copied: see `COLUMNS`."""
    counts = Counter(figure.table for figure in read_literature() if figure.source == source)
    rows = []
    for item in (item for item in read_papers() if item.source == source):
        first = [item.item, item.shows]
        rows += [[*first, HERE, item.here, command] for command in item.commands]
        rows += [[*first, WITH_DATA, item.needs, command] for command in item.commands_with_data]
        n = counts[item.item.removeprefix("Table ")]
        rows.append([*first, COPIED, f"{item.constant} ({n})" if n else item.constant, NOTHING])
    return rows
