"""The project adaptation: annotations and a saved pipeline in, a saved pipeline and tables before and after out."""

import json
import shlex
from pathlib import Path

import pytest
import spacy
from conftest import make_encoder_folder
from weasel.util import load_project_config

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app

PROJECT = Path(__file__).parents[2] / "projects" / "adaptation"
ORGANS = ["heart", "liver", "lung", "skin"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    builder = TerminologyBuilder()
    for number in range(12):
        for name in (f"{ORGANS[number % 4]} {number}", f"{number} of the {ORGANS[number % 4]}"):
            builder.add_name(f"C{number:02d}", name)
    nlp = spacy.blank("en")
    encoder = make_encoder_folder(tmp_path / "encoder")
    nlp.add_pipe("sapbert_linker").initialize(terminology=builder.build(), encoder=str(encoder))
    nlp.to_disk(tmp_path / "pipeline")
    lines = []
    for number in range(20):
        mention = f"{'cardiac hepatic pulmonary dermal'.split()[number % 4]} {number % 4}"
        span = {"start": 4, "end": 4 + len(mention), "label": "SIGN", "kb_id": f"C{number % 4:02d}"}
        lines.append(json.dumps({"text": f"Had {mention} in case {number}", "spans": [span]}))
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(workflow, **variables):
    """Run a workflow of the project in this process, in the working folder."""
    config = load_project_config(PROJECT, overrides={f"vars.{key}": value for key, value in variables.items()})
    scripts = {entry["name"]: entry["script"] for entry in config["commands"]}
    for line in (line for step in config["workflows"][workflow] for line in scripts[step]):
        words = shlex.split(line)
        assert words[:3] == ["python", "-m", "training"]
        app(words[3:], standalone_mode=False)


def test_one_command_adapts_a_pipeline(folder):
    given = {"annotations": "mine.jsonl", "pipeline": "pipeline", "held_out": 3, "dictionary": 8, "shares": "0.5"}
    run("adapt", **given)
    output = folder / "output" / "mine"
    assert spacy.load(output / "adapted" / "pipeline").pipe_names == ["sapbert_linker"]
    assert "| 0.5, chosen" in (output / "adapted" / "shares.md").read_text()
    documents = (output / "evaluation" / "documents.md").read_text()
    assert "| before | 4 |" in documents and "| after | 4 |" in documents
    assert "held_out" in (output / "evaluation" / "scores.md").read_text()
    # The same command again finds the run complete, and comes to the same pipeline.
    encoder = Path("adapted/pipeline/sapbert_linker/encoder/name_encoder.json")
    before = (output / encoder).read_text()
    run("adapt", **given)
    assert (output / encoder).read_text() == before
