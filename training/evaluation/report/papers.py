"""The tables and figures of two papers: what runs with open data, what with a licence, what is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thinc.api import Config

from .document import Column, ReportSection, Table
from .literature import read_literature, read_sources
from .values import NOTHING

PAPERS = Path(__file__).with_name("papers.cfg")
COLUMNS = ("Table or figure", "Shows", "How", "With", "Command")
HERE, WITH_DATA, COPIED = "runs here", "runs with your data", "copied"


@dataclass(frozen=True)
class PaperItem:
    """A table or figure of a paper.

    source (str): The paper, by its name in literature_sources.cfg.
    item (str): Such as "Table 1".
    shows (str): What it shows.
    here (str): What of it runs with open data and encoders.
    commands (Sequence[str]): By which commands.
    needs (str): Data and encoders that it takes to run it as published.
    commands_with_data (Sequence[str]): By which commands.
    constant (str): What of it is in this repository.
    """

    source: str
    item: str
    shows: str
    here: str
    commands: Sequence[str]
    needs: str
    commands_with_data: Sequence[str]
    constant: str


def read_papers(path: str | Path = PAPERS) -> list[PaperItem]:
    """Read the list of tables and figures.

    path (str | Path): A config with a section [papers.<name>] for each.
    RETURNS (list[PaperItem]): In the order of the file.
    """
    return [PaperItem(**section) for section in Config().from_disk(path)["papers"].values()]


def count_figures(item: PaperItem) -> int:
    """Count the published figures of a table that stand in literature.tsv.

    item (PaperItem): The table.
    RETURNS (int): The number; 0 for figures and for tables without results.
    """
    numbers = item.item.removeprefix("Tables ").removeprefix("Table ").split(" and ")
    return sum(figure.source == item.source and figure.table in numbers for figure in read_literature())


def make_rows(items: Sequence[PaperItem]) -> list[list[str]]:
    """Describe tables and figures, with the commands that make them.

    items (Sequence[PaperItem]): The tables and figures.
    RETURNS (list[list[str]]): Rows with a cell for each of `COLUMNS`: one for each command, and one for what is copied.
    """
    rows = []
    for item in items:
        first = [item.item, item.shows]
        rows += [[*first, HERE, item.here, command] for command in item.commands]
        rows += [[*first, WITH_DATA, item.needs, command] for command in item.commands_with_data]
        n = count_figures(item)
        rows.append([*first, COPIED, f"{item.constant} ({n})" if n else item.constant, NOTHING])
    return rows


def make_papers_section() -> ReportSection:
    """Make a table of the tables and figures of each paper.

    RETURNS (ReportSection): A folded section.
    """
    items, sources = read_papers(), read_sources()
    tables = [
        Table(sources[name].short, [Column(title) for title in COLUMNS], make_rows(of_paper))
        for name in dict.fromkeys(item.source for item in items)
        if (of_paper := [item for item in items if item.source == name])
    ]
    text = "Commands start in the root of the repository, those with the paper's own data and weights as well."
    return ReportSection("The papers, table by table", [text, *tables], is_folded=True)
