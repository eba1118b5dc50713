"""The project `cross_lingual`, on a release of a few concepts and a tiny encoder."""

from pathlib import Path

import srsly
from project_scripts import import_scripts
from rrf_files import atom, write_release
from spacy.cli import app
from typer.testing import CliRunner

with import_scripts("cross_lingual"):
    import pipeline as project

PROJECT = Path(__file__).parents[2] / "projects" / "cross_lingual"
FILES = ",".join(str(PROJECT / "corpus" / f"{language}.jsonl") for language in ("de", "fr", "es"))


def test_sentences_of_three_languages_are_linked(tmp_path, encoder_folder, capsys):
    release = write_release(
        tmp_path / "rrf",
        MRCONSO=[
            atom("C0015967", "Fever"),
            atom("C0015967", "hohes Fieber", LAT="GER"),
            atom("C0039231", "Tachycardia"),
            atom("C0020538", "Hypertension"),
        ],
    )
    project.read(release, str(PROJECT / "corpus" / "names.tsv"), FILES, tmp_path / "assets")
    # Three concepts of the release have names in three languages in the file, one of them twice.
    assert "12 names added" in " ".join(capsys.readouterr().out.split())
    config, pipeline = PROJECT / "configs" / "cross_lingual.cfg", tmp_path / "output" / "pipeline"
    paths = {
        "encoder": encoder_folder,
        "terminology": tmp_path / "assets" / "terminology",
        "patterns": tmp_path / "assets" / "patterns.json",
    }
    overrides = [text for name, path in paths.items() for text in (f"--paths.{name}", str(path))]
    result = CliRunner().invoke(app, ["assemble", str(config), str(pipeline), *overrides])
    assert not result.exit_code, result.output
    project.link(pipeline, FILES, pipeline.parent)
    lines = (pipeline.parent / "languages.md").read_text().splitlines()
    # Mentions that are written like a name are found by any encoder; one of each language is not.
    rows = {row[0]: row for row in (line.strip("| ").split(" | ") for line in lines[2:])}
    assert {language: row[1:4] for language, row in rows.items()} == dict.fromkeys(("de", "fr", "es"), ["11", "3", "0"])
    assert int(rows["de"][4].split()[0]) >= 2 and int(rows["fr"][4].split()[0]) >= 2
    records = list(srsly.read_jsonl(pipeline.parent / "links.jsonl"))
    assert [record["language"] for record in records] == ["de"] * 5 + ["fr"] * 5 + ["es"] * 5


def test_the_corpus_is_what_it_says():
    names = [line.split("\t") for line in (PROJECT / "corpus" / "names.tsv").read_text().splitlines()]
    assert names[0] == ["id", "name", "language"] and {line[2] for line in names[1:]} == {"GER", "FRE", "SPA"}
    for sentence in project.read_sentences(FILES):
        assert all(mention in sentence.text.lower() for mention in sentence.meant)
        assert {gold for ids in sentence.meant.values() for gold in ids} <= {line[0] for line in names}
