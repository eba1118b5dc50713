"""The tables of `cases` are read as `case_tables` says, and each of them by a test."""

import re
from collections import Counter
from pathlib import Path

import case_tables
import pytest

TABLES = sorted(path.stem for path in case_tables.FOLDER.iterdir())


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_it_is_about_and_has_each_case_once(name):
    assert (case_tables.FOLDER / f"{name}.tsv").read_text(encoding="utf8").startswith("# ")
    _, table = case_tables.read_table(name)
    assert [row for row, n in Counter(repr(values) for _, values in table).items() if n > 1] == []


@pytest.mark.skipif(not Path(__file__).with_name("training").exists(), reason="tests of the wheel are not all tests")
def test_each_table_is_read_by_a_test():
    tests = "".join(path.read_text(encoding="utf8") for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name in TABLES if not re.search(rf'(cases|read_table)\(.*"{name}"', tests)] == []


def test_cells_are_read_by_the_sign_of_their_column(tmp_path, monkeypatch):
    monkeypatch.setattr(case_tables, "FOLDER", tmp_path)
    head = "text\thits[]\tis_one?\tdata{}\tmessage~\twhy"
    rows = ["# About.", head, "", "# More.", 'a\\n"b\tc | d = e\tyes\t[1]\t\\d\tso']
    (tmp_path / "a.tsv").write_text("\n".join([*rows, "b\t\tno\tnull", "c\t" * 7]), encoding="utf8")
    with pytest.raises(ValueError, match="Line 7 of a.tsv has 8 cells, but its head has 6"):
        case_tables.read_table("a")
    (tmp_path / "a.tsv").write_text("\n".join([*rows, "b\t\tno\tnull"]), encoding="utf8")
    columns, table = case_tables.read_table("a")
    assert columns == ["text", "hits", "is_one", "data", "message"]
    assert table == [
        ("a:5 so", ['a\n"b', ["c", ("d", "e")], True, [1], "\\d"]),
        ("a:6", ["b", [], False, None, ""]),
    ]
