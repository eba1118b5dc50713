"""What has changed between releases, compared with what was changed on purpose."""

import json

import pytest
from typer.testing import CliRunner

from spacy_sapbert.terminology import (
    Terminology,
    TerminologyBuilder,
    read_table,
)
from training.cli import app
from training.release.changes import diff_releases, diff_terminologies
from training.release.rrf import write_rrf


def make(concepts: dict[str, str], **codes: str) -> Terminology:
    builder = TerminologyBuilder()
    for concept_id, name in concepts.items():
        builder.add_concept(concept_id, codes=[codes[concept_id]] if concept_id in codes else [])
        builder.add_name(concept_id, name, source="X", preferred=True)
    return builder.build()


OLD = {f"C{i}": f"name {i}" for i in range(9)}
NEW = {"C0": "name 0", "C1": "another name", "C9": "new"}
MRCUI = """\
C2|2020AA|SY|||C3|Y|
C3|2021AA|SY|||C0|Y|
C4|2021AA|DEL|||||
C5|2021AA|RB|||C0|Y|
C5|2021AA|RO|||C1|Y|
C5|2021AA|RN|||C99|N|
C6|2021AA|RB|||C99|N|
C7|2021AA|SY|||C99|N|
C1|2019AA|SY|||C0|Y|
C77|2019AA|SY|||C0|Y|
"""


@pytest.fixture
def folders(tmp_path):
    write_rrf(make(OLD), tmp_path / "old")
    write_rrf(make(NEW), tmp_path / "new")
    (tmp_path / "new" / "MRCUI.RRF").write_text(MRCUI, encoding="utf8")
    return tmp_path / "old", tmp_path / "new"


def test_releases_with_successors(folders):
    diff = diff_releases(*folders)
    assert diff.added.rows() == [("C9", "new")]
    assert diff.renamed.rows() == [("C1", "name 1", "another name")]
    assert diff.merged.rows() == [
        ("C2", "name 2", "SY", "C0", "name 0"),
        ("C3", "name 3", "SY", "C0", "name 0"),
    ]
    assert diff.mapped.rows() == [("C5", "name 5", "RB", "C0", "name 0"), ("C5", "name 5", "RO", "C1", "another name")]
    assert diff.retired.rows() == [
        ("C4", "name 4", "deleted"),
        ("C6", "name 6", "successor missing"),
        ("C7", "name 7", "successor missing"),
        ("C8", "name 8", "not listed"),
    ]
    assert diff.counts == {
        "concepts": {"old": 9, "new": 3, "in_both": 2},
        "names": {"old": 9, "new": 3},
        "added": 1,
        "retired": 4,
        "retired_by_reason": {"deleted": 1, "not listed": 1, "successor missing": 2},
        "merged": 2,
        "mapped": 1,
        "mapped_by_relation": {"RB": 1, "RO": 1},
        "renamed": 1,
    }


def test_codes_tell_successors_where_no_file_does():
    old = make({"HP:1": "one", "HP:2": "two", "HP:3": "three"})
    new = make({"HP:4": "four", "HP:5": "five", "C1": "six"}, **{"HP:4": "HP:1", "HP:5": "HP:2", "C1": "HP:2"})
    diff = diff_terminologies(old, new)
    assert diff.merged.rows() == [("HP:1", "one", "code", "HP:4", "four")]
    assert [row[:4] for row in diff.mapped.rows()] == [("HP:2", "two", "code", "C1"), ("HP:2", "two", "code", "HP:5")]
    assert diff.retired.rows() == [("HP:3", "three", "not listed")]


def test_missing_list_of_successors_is_told(folders):
    (folders[1] / "MRCUI.RRF").unlink()
    with pytest.warns(UserWarning, match="no MRCUI"):
        diff = diff_releases(*folders)
    assert diff.counts["retired_by_reason"] == {"not listed": 7}


def test_command_writes_tables_and_counts(folders, tmp_path):
    arguments = ["diff-releases", *map(str, folders), str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    counts = json.loads((tmp_path / "out" / "report.json").read_text())
    assert counts == diff_releases(*folders).counts
    added = read_table(tmp_path / "out" / "added.tsv")
    assert added["C9"].names == ("new",)
    assert (tmp_path / "out" / "merged.tsv").read_text().splitlines()[1] == "C2\tname 2\tSY\tC0\tname 0"
