"""The list of the papers' tables and figures: none is missing, and its commands are there."""

import shlex
import sys
from pathlib import Path

import pytest

from training.markup import NOTHING
from training.report.literature import COLUMNS, COPIED, HERE, WITH_DATA, list_paper_rows, read_papers

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from shell_commands import check_command

ITEMS = read_papers()
# As the papers number them; table 8 of each is not listed.
WANTED = {
    *(("sapbert", f"Table {number}") for number in (1, 2, 3, 4, 5, 6, 7, 9)),
    *(("sapbert", f"Figure {number}") for number in (1, 2, 3)),
    *(("coder", f"Table {number}") for number in (1, 2, 3, 4, 5, 9, 10)),
    ("coder", "Tables 6 and 7"),
    ("coder", "Figures 2 and 3"),
}
# What the cell of a table says about the figures that are copied, counted on paper.
COUNTS = {
    ("sapbert", "Table 2"): "the figures (4)",
    ("coder", "Table 5"): "the figures (12)",
    ("coder", "Tables 6 and 7"): "lists of examples",
    ("sapbert", "Table 7"): "in the tests of adapters",
}
COMMANDS = sorted({command for item in ITEMS for command in (*item.commands, *item.commands_with_data)})


def test_every_table_and_figure_is_listed_once():
    assert sorted((item.source, item.item) for item in ITEMS) == sorted(WANTED)


def test_no_cell_is_empty():
    for source in ("sapbert", "coder"):
        ways: dict[str, set[str]] = {}
        for row in list_paper_rows(source):
            assert len(row) == len(COLUMNS) and all(row), row
            assert (row[2] == COPIED) == (row[-1] == NOTHING)
            ways.setdefault(row[0], set()).add(row[2])
            if row[2] == COPIED and (source, row[0]) in COUNTS:
                assert row[3].endswith(COUNTS[source, row[0]])
        assert ways == {item.item: {HERE, WITH_DATA, COPIED} for item in ITEMS if item.source == source}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_there_with_these_arguments(command):
    check_command(shlex.split(command))
