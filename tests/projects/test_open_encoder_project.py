"""The project open_encoder: three runs, their average, its scores and its card, by one command."""

from pathlib import Path

import pytest
from conftest import build_terminology, load_encoder, make_encoder_folder
from project_scripts import list_lines
from thinc.api import Config

from training.cli import app
from training.data.frame import read_results
from training.data.pairs import write_pairs
from training.data.run_folder import RunFolder
from training.data.splits import split_terminology
from training.encoders.export import average_encoders

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "projects" / "open_encoder"
CONFIGS = ROOT / "training" / "configs"
VARIABLES = {
    "data": "data",
    **{"first_config": "cpu.cfg", "first_steps": 3},
    **{"second_config": "hard_negatives.cfg", "second_steps": 4, "third_steps": 2},
}
RUNS = [Path("output/runs", name) for name in ("first", "second", "third")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The output of `training_data`, with opposites, and a small base encoder."""
    names = {}
    for concept in range(24):
        organ, side = "heart liver lung skin".split()[concept % 4], "left right".split()[concept // 4 % 2]
        number = concept // 8
        names[f"C{concept:03d}"] = [f"{side} {organ} {number}", f"{organ} {number}, {side}", f"{organ} {concept}"]
    rest, task = split_terminology(build_terminology(names), held_out=3, dictionary=12)
    rest.to_disk(tmp_path / "data" / "split" / "terminology")
    write_pairs(rest, tmp_path / "data" / "split" / "pairs")
    task.to_disk(tmp_path / "data" / "split" / "held_out.json")
    (tmp_path / "notes.md").write_text("Names of an ontology, CC BY 4.0.")
    for name in ("cpu.cfg", "hard_negatives.cfg"):
        config = Config().from_disk(CONFIGS / name)
        # There are fewer pairs and steps than in a warm-up.
        config["batch"]["pairs"] = 8
        config["optimizer"]["warmup_steps"] = 0
        config.to_disk(tmp_path / name)
    # In place of MiniLM-L6.
    base = make_encoder_folder(tmp_path / "base")
    monkeypatch.setattr("training.encoders.bases._find_in_package", lambda package, place: base)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command, **variables):
    """Run a command or a workflow of the project in this process, in the working folder."""
    for words in list_lines(PROJECT, command, **{**VARIABLES, **variables}):
        assert words[:3] == ["python", "-m", "training"]
        app(words[3:], standalone_mode=False)


def test_one_command_makes_the_encoder(folder):
    run("all", made_by="python -m spacy project run all --vars.second_steps 4")
    descriptions = [RunFolder(path).read_description() for path in RUNS]
    settings = [found.settings for found in descriptions]
    assert [found["objective"]["loss"] for found in settings] == ["multi_similarity", "info_nce", "info_nce"]
    assert [found["batch"]["max_steps"] for found in settings] == [3, 4, 2]
    assert [found["paths"]["terminology"] for found in settings] == ["", *["data/split/terminology"] * 2]
    # The third run goes on with what the first one has exported, not with its last weights.
    assert descriptions[2].encoder["base"] == load_encoder("output/runs/first/encoder").fingerprint
    exported = [str(path / "encoder") for path in RUNS]
    mean = average_encoders(exported, folder / "mean", shares=[0.2, 0.3, 0.5], dtype="bf16")
    assert load_encoder(folder / "model").fingerprint == mean.fingerprint
    card = (folder / "model" / "README.md").read_text()
    for part in (
        "base_model: sentence-transformers/all-MiniLM-L6-v2",
        "...: first, a run that has started from sentence-transformers/all-MiniLM-L6-v2\n",
        "...: second, a run that has started from sentence-transformers/all-MiniLM-L6-v2\n",
        "...: third, a run that has started from first\n",
        "  - Weights: 0.3 of the base and 0.7 of what was trained, stored as fp32.",
        "objective.miner off",
        "optimizer.learning_rate 0.0001",
        "objective.constants.temperature 0.07",
        "| held_out.held_out |",
        "```bash\npython -m spacy project run all --vars.second_steps 4\n```",
        "Names of an ontology, CC BY 4.0.",
        "license: apache-2.0",
    ):
        assert part in card, part
    assert load_encoder(folder / "model").fingerprint in set(read_results("output/measured")["fingerprint"])
    # Another recipe takes variables: two of the runs, and other shares.
    given = {"averaged": f"{exported[0]} output/runs/first {exported[2]}", "shares": "0.25,0.25,0.5"}
    run("average", **given)
    mean = average_encoders([exported[0], exported[2]], folder / "other", shares=[0.5, 0.5], dtype="bf16")
    assert load_encoder("output/stored").fingerprint == mean.fingerprint
