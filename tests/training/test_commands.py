"""The commands as a project runs them, and the check of their inputs."""

import hashlib

import pytest
import srsly
from rrf_files import atom, rrf_line, write_release
from typer.testing import CliRunner

from spacy_sapbert.terminology import Terminology
from training.__main__ import app
from training.pairs import read_pairs
from training.triples import read_triples


@pytest.fixture
def release(tmp_path):
    return write_release(
        tmp_path / "rrf",
        MRCONSO=[
            atom("C1", "Fever"),
            atom("C1", "fever"),
            atom("C1", "Pyrexia"),
            atom("C1", "Fieber", LAT="GER"),
            atom("C2", "Pain", SRL="3"),
        ],
        MRREL=[rrf_line("MRREL", CUI1="C1", REL="PAR", CUI2="C2")],
    )


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert bool(result.exit_code) == fails, (result.output, result.exception)
    return str(result.exception) if fails else result.output


def test_preprocess_pairs_and_triples(release, tmp_path):
    assert "2 concepts with 4 names" in run("preprocess", release, tmp_path / "names")
    assert len(Terminology.from_disk(tmp_path / "names")) == 2
    assert srsly.read_json(tmp_path / "names" / "report.json")["read"]["MRCONSO"] == 5
    assert "| GER | 1 | 0 |" in (tmp_path / "names" / "report.md").read_text()
    output = run("pairs", tmp_path / "names", tmp_path / "pairs", "--text", tmp_path / "pairs.txt")
    assert "1 pairs of 1 possible" in output and "11,792,953" in output
    assert next(read_pairs(tmp_path / "pairs")).rows() == [("C1", "fever", "pyrexia")]
    assert (tmp_path / "pairs.txt").read_text() == "C1||fever||pyrexia\n"
    assert "1 triples" in run("triples", release, tmp_path / "names", tmp_path / "triples")
    assert read_triples(tmp_path / "triples").rows() == [("C2", "PAR", "C1")]


def test_options_of_preprocess(release, tmp_path):
    run("preprocess", release, tmp_path / "names", "--languages", "all", "--level-0-only", "--lower-case")
    terminology = Terminology.from_disk(tmp_path / "names")
    assert terminology.concepts["id"].to_list() == ["C1"]
    assert terminology["C1"].names == ("fever", "pyrexia", "fieber")
    assert terminology.report["settings"]["max_restriction_level"] == 0


def test_inputs_are_compared_with_a_list_of_checksums(release, tmp_path):
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in sorted(release.iterdir())]
    (release / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    assert "2 of 2 files" in run("preprocess", release, tmp_path / "names")
    (release / "MRREL.RRF").write_text("")
    message = run("preprocess", release, tmp_path / "other", fails=True)
    assert "E607" in message and "MRREL.RRF" in message and not (tmp_path / "other").exists()
    (release / "SHA256SUMS").unlink()
    (tmp_path / "sums").write_text("abc  elsewhere.txt\n")
    assert "E608" in run("preprocess", release, tmp_path / "other", "--checksums", tmp_path / "sums", fails=True)
    assert "E102" in run("preprocess", release, tmp_path / "other", "--checksums", tmp_path / "none", fails=True)


def test_missing_release_says_where_to_get_one(tmp_path):
    message = run("preprocess", tmp_path / "nowhere", tmp_path / "names", fails=True)
    assert "E120" in message and "open_terminology" in message
