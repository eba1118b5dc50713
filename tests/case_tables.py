"""Tables of cases: each row of a file of `cases` is a test. Add a row, and it runs.

Lines that begin with `#` say what the rows below them are about. The first other line names the columns, which are the
parameters of the test, apart from `why`. Empty cells at the end of a row may be left out. The sign at the end of a
column's name says how its cells are written:

- none: a text, in which `\\n`, `\\t`, `\\\\` and `\\u00e9` are what they are in JSON
- `[]`: a list of texts, parted by ` | `; those with ` = ` are tuples
- `?`: `yes` or `no`
- `{}`: JSON
- `~`: a regular expression, as it stands
"""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "cases"


def read_text(cell):
    return json.loads('"' + cell.replace('"', '\\"') + '"')


def read_list(cell):
    items = [read_text(item) for item in cell.split(" | ")] if cell else []
    return [tuple(item.split(" = ")) if " = " in item else item for item in items]


READERS = {"[]": read_list, "?": {"yes": True, "no": False}.__getitem__, "{}": json.loads, "~": str, "": read_text}


def read_table(name):
    """Read a table: names of its columns, and of each row its id and cells."""
    lines = (FOLDER / f"{name}.tsv").read_text(encoding="utf8").split("\n")
    (_, head), *rows = ((number, line.split("\t")) for number, line in enumerate(lines, 1) if line and line[0] != "#")
    columns = [column.rstrip("[]?{}~") for column in head]
    readers = [READERS[sign.removeprefix(column)] for sign, column in zip(head, columns, strict=True)]
    table = []
    for number, cells in rows:
        if len(cells) > len(head):
            raise ValueError(f"Line {number} of {name}.tsv has {len(cells)} cells, but its head has {len(head)}.")
        cells += [""] * (len(head) - len(cells))
        row = {column: read(cell) for column, read, cell in zip(columns, readers, cells, strict=True)}
        id_ = f"{name}:{number} {row.pop('why', '')}".rstrip()
        table.append((id_, [*row.values()]))
    return [column for column in columns if column != "why"], table


def cases(*names):
    """Let a test run with each row of a table, or of several with the same columns."""
    tables = [read_table(name) for name in names]
    (columns,) = {tuple(columns) for columns, _ in tables}
    rows = [pytest.param(*values, id=id_) for _, table in tables for id_, values in table]
    return pytest.mark.parametrize(columns, rows)
