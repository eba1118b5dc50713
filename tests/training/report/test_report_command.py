"""From a corpus to its report, by commands."""

import json

import pytest
from typer.testing import CliRunner

from training.cli import app

CORPORA = """
[corpora]

[corpora.small]
title = "Small"
mentions = "small/test.jsonl"
dictionary = "small/names.tsv"
note = "Made up."

[corpora.absent]
title = "Absent"
mentions = "absent/test.jsonl"
dictionary = "absent/names.tsv"
obtain = "https://example.org"
"""
CONFIG = """
[systems]

[systems.exact]
kind = "exact"

[systems.tfidf]
kind = "tfidf"

[tasks]

[tasks.corpora]
kind = "corpora"
folder = "corpora"
list = "corpora.cfg"
"""


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert not result.exit_code, (result.output, result.exception)
    return result.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = tmp_path / "corpora" / "small"
    small.mkdir(parents=True)
    mentions = [("Sore toes", "D1"), ("blue beak", "D2"), ("rust", "D9")]
    lines = [json.dumps({"mention": mention, "ids": [single], "doc_id": "1"}) for mention, single in mentions]
    (small / "test.jsonl").write_text("\n".join(lines) + "\n")
    (small / "names.tsv").write_text("D1\tsore toes\nD2\tblue beaks\nD3\tgreen beaks\n")
    (tmp_path / "corpora.cfg").write_text(CORPORA)
    (tmp_path / "measure.cfg").write_text(CONFIG)
    return tmp_path


def test_what_is_measured_is_reported(folder):
    run("measure", "measure.cfg", "out")
    assert "report.md and out/report.html are written" in run("report", "out")
    report = (folder / "out" / "report.md").read_text()
    for part in ("### Small", "Made up.", "| exact |", "| tfidf |", "McNemar", "| rust | D9 |"):
        assert part in report, part
    missing = report.split("What was not measured")[-1]
    assert "| Absent |" in missing and "https://example.org" in missing
    assert "<html" in (folder / "out" / "report.html").read_text()
