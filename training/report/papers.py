"""The tables and figures of two papers: what runs with open data, what with a licence, what is copied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from thinc.api import Config

from ..markup import NOTHING
from .literature import read_literature

PAPERS = Path(__file__).with_name("papers.cfg")
COLUMNS = ("Table or figure", "Shows", "How", "With", "Command")
HERE, WITH_DATA, COPIED = "runs here", "runs with your data", "copied"


class PaperItem(NamedTuple):
    """A table or figure of a paper: a section of papers.cfg, which explains its values."""

    source: str
    item: str
    shows: str
    here: str
    commands: Sequence[str]
    needs: str
    commands_with_data: Sequence[str]
    constant: str


def read_papers() -> list[PaperItem]:
    """Read the list of tables and figures."""
    return [PaperItem(**section) for section in Config().from_disk(PAPERS)["papers"].values()]


def count_figures(item: PaperItem) -> int:
    """Count the published figures of a table that stand in literature.tsv."""
    if not item.item.startswith("Table"):
        return 0
    numbers = item.item.removeprefix("Tables ").removeprefix("Table ").split(" and ")
    return sum(figure.source == item.source and figure.table in numbers for figure in read_literature())


def list_rows(items: Sequence[PaperItem]) -> list[list[str]]:
    """List a row for each command of tables and figures, and one for what is copied: a cell for each of `COLUMNS`."""
    rows = []
    for item in items:
        first = [item.item, item.shows]
        rows += [[*first, HERE, item.here, command] for command in item.commands]
        rows += [[*first, WITH_DATA, item.needs, command] for command in item.commands_with_data]
        n = count_figures(item)
        rows.append([*first, COPIED, f"{item.constant} ({n})" if n else item.constant, NOTHING])
    return rows
