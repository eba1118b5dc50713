"""The commands of the benchmarks, from original files to a report."""

import json

import pytest
from corpus_originals import PUBTATOR, write
from rrf_files import rrf_line, write_release
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app

ORIGINALS = """
[originals]

[originals.small]
format = "pubtator"
input = "small"
output = "small"

[originals.absent]
format = "medic"
input = "absent"
output = "absent"
"""
CORPORA = """
[corpora]

[corpora.small]
title = "Small"
mentions = "small/test.jsonl*"
dictionary = "terminology"
note = "Made up."

[corpora.absent]
title = "Absent"
mentions = "absent/test.jsonl*"
dictionary = "absent/names.tsv"
obtain = "https://example.org"
"""


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert bool(result.exit_code) == fails, (result.output, result.exception)
    return str(result.exception) if fails else result.output


def evaluate(folder, *arguments):
    where = ["--benchmarks", folder / "corpora", "--terminology", folder / "terminology"]
    return run(
        "evaluate", folder / "systems.cfg", folder / "out", "--corpora", folder / "corpora.cfg", *where, *arguments
    )


@pytest.fixture
def folder(tmp_path, encoder_folder):
    """Write a corpus in its original form, a terminology, and configs."""
    write(tmp_path / "assets" / "small", {"test.pubtator": PUBTATOR})
    builder = TerminologyBuilder()
    for concept, names in {"D1": "sore toes", "D2": "blue beaks", "D3": "green beaks", "D9": "salt"}.items():
        for form in ("{}", "{} of gulls", "very {}", "no {}"):
            builder.add_name(concept, form.format(names), language="ENG")
        builder.add_concept(concept, types=["T047"])
    builder.build().to_disk(tmp_path / "terminology")
    (tmp_path / "originals.cfg").write_text(ORIGINALS)
    (tmp_path / "corpora.cfg").write_text(CORPORA)
    encoder = json.dumps(str(encoder_folder))
    (tmp_path / "systems.cfg").write_text(
        f'[systems]\n\n[systems.exact]\nkind = "exact"\n\n[systems.tiny]\nkind = "encoder"\nencoder = {encoder}\n'
    )
    return tmp_path


def test_original_files_become_a_report(folder, encoder_folder):
    text = run("convert", "all", folder / "assets", folder / "corpora", "--originals", folder / "originals.cfg")
    assert "small: 5 mentions" in text and "absent: not there" in text
    output = folder / "out"
    text = evaluate(folder, "--cache", folder / "kept")
    assert "exact on small.strict" in text and "Not measured: absent: no absent/test.jsonl*" in text
    few = ["--concepts", 3, "--batch", 4]
    run("illustrate", output, folder / "terminology", "--encoder", f"tiny={encoder_folder}", *few)
    run("report", output)
    report = (output / "report.md").read_text()
    for part in ("Small", "Absent", "https://example.org", "Made up.", "tsne", "histograms", "angina"):
        assert part in report, part
    assert "<html" in (output / "report.html").read_text()


def test_what_a_terminology_cannot_answer_is_listed(folder, encoder_folder):
    output = folder / "out"
    run("convert", "all", folder / "assets", folder / "corpora", "--originals", folder / "originals.cfg")
    evaluate(folder, "--only", "exact")
    release = write_release(folder / "rrf", MRCONSO=[], MRREL=[rrf_line("MRREL", CUI1="D1", REL="PAR", CUI2="D2")])
    run("triples", release, folder / "terminology", folder / "triples")
    text = run("coder-tasks", output, encoder_folder, folder / "terminology", folder / "triples")
    assert "Not measured: mcsm: [E772]" in text and "Not measured: relations: [E773]" in text
    run("report", output)
    report = (output / "report.md").read_text()
    missing = report.split("What was not measured")[-1]
    assert all(f"| {name} |" in missing for name in ("Absent", "mcsm", "relations"))
    assert "Without other tools" in run("report", output, "--peers", folder / "no.json")
    assert (output / "report.md").read_text() == report


def test_metrics_that_are_damaged_are_not_reported(folder):
    run("convert", "all", folder / "assets", folder / "corpora", "--originals", folder / "originals.cfg")
    evaluate(folder, "--only", "exact")
    (folder / "out" / "metrics.json").write_text("{}")
    assert "E781" in run("report", folder / "out", fails=True)


def test_a_result_is_shown_before_the_next_system_is_measured(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("no memory")

    run("convert", "all", folder / "assets", folder / "corpora", "--originals", folder / "originals.cfg")
    monkeypatch.setattr("training.evaluation.systems.encoder.EncoderSystem.search", fail)
    where = ["--benchmarks", folder / "corpora", "--terminology", folder / "terminology"]
    command = ["evaluate", folder / "systems.cfg", folder / "out", "--corpora", folder / "corpora.cfg", *where]
    result = CliRunner().invoke(app, [str(argument) for argument in command])
    assert str(result.exception) == "no memory"
    assert "exact on small.strict: acc@1" in result.stdout


def test_unknown_systems_are_refused(folder):
    error = run("evaluate", folder / "systems.cfg", folder / "out", "--only", "exact,other", fails=True)
    assert "E620" in error and "'other'" in error
    error = run("evaluate", folder / "systems.cfg", folder / "out", "--corpora", folder / "corpora.cfg", fails=True)
    assert "E678" in error
