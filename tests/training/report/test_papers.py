"""The list of the papers' tables and figures: none is missing, and its commands are there."""

import shlex
import sys
from pathlib import Path

import pytest
from training.evaluation.report.papers import (
    COLUMNS,
    COPIED,
    HERE,
    WITH_DATA,
    count_figures,
    make_papers_section,
    make_rows,
    read_papers,
)

from training.evaluation.report.values import NOTHING

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
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
COMMANDS = sorted({command for item in ITEMS for command in (*item.commands, *item.commands_with_data)})


def test_every_table_and_figure_is_listed_once():
    assert sorted((item.source, item.item) for item in ITEMS) == sorted(WANTED)


def test_no_cell_is_empty():
    for row in make_rows(ITEMS):
        assert len(row) == len(COLUMNS)
        assert all(row), row
    ways = {item.item: {row[2] for row in make_rows([item])} for item in ITEMS}
    assert all(found == {HERE, WITH_DATA, COPIED} for found in ways.values())


def test_figures_are_counted():
    counts = {(item.source, item.item): count_figures(item) for item in ITEMS}
    assert counts["sapbert", "Table 2"] == 4
    assert counts["coder", "Table 5"] == 12
    assert counts["sapbert", "Figure 1"] == counts["sapbert", "Table 7"] == 0


def test_the_section_has_a_table_for_each_paper():
    section = make_papers_section()
    assert [len(table.rows) for table in section.blocks[1:]] == [
        len(make_rows([item for item in ITEMS if item.source == source])) for source in ("sapbert", "coder")
    ]
    assert all(row[-1] == NOTHING for table in section.blocks[1:] for row in table.rows if row[2] == COPIED)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_there_with_these_arguments(command):
    check_command(shlex.split(command))
