"""The tables and figures of two papers: what runs with open data, what needs a licence, what is copied."""

from __future__ import annotations

from collections import Counter
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
    commands: list[str]
    needs: str
    commands_with_data: list[str]
    constant: str


def read_papers() -> list[PaperItem]:
    """Read the list of tables and figures."""
    return [PaperItem(**section) for section in Config().from_disk(PAPERS)["papers"].values()]


def list_paper_rows(source: str) -> list[list[str]]:
    """List a row for each command of a paper's tables and figures, and for what is copied: see `COLUMNS`."""
    counts, rows = Counter(figure.table for figure in read_literature() if figure.source == source), []
    for item in (item for item in read_papers() if item.source == source):
        first = [item.item, item.shows]
        rows += [[*first, HERE, item.here, command] for command in item.commands]
        rows += [[*first, WITH_DATA, item.needs, command] for command in item.commands_with_data]
        n = counts[item.item.removeprefix("Table ")]
        rows.append([*first, COPIED, f"{item.constant} ({n})" if n else item.constant, NOTHING])
    return rows
