"""Sweeps: what is compared, what is run again, and what the table says."""

from pathlib import Path

import pytest
import srsly

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.terminology import TerminologyBuilder
from training.evaluation import LinkingTask, ScoreBook, format_scores, measure_accuracy
from training.pairs import write_pairs
from training.sweep import read_sweep, run_sweep

ROOT = Path(__file__).parents[2]
SWEEP = """
[sweep]
config = "run.cfg"
seeds = [0, 1]
base_shares = [0.0, 0.5]
settings = {"batch.max_steps": 3, "batch.pairs": 8}

[variants]
slow = {"optimizer.learning_rate": 1e-4}
fast = {"optimizer.learning_rate": 1e-2}
"""
RUN = """
[paths]
encoder = "{encoder}"
pairs = "{pairs}"
output = "unused"

[run]
precision = "fp32"
checkpoint_steps = 2
"""


@pytest.fixture
def config(tmp_path, encoder_folder):
    builder = TerminologyBuilder()
    for concept in range(30):
        for form in ("acute {}", "{} disease", "disorder of the {}"):
            builder.add_name(f"C{concept}", form.format(f"organ {concept}"))
    write_pairs(builder.build(), tmp_path / "pairs")
    (tmp_path / "run.cfg").write_text(RUN.format(encoder=encoder_folder, pairs=tmp_path / "pairs"))
    (tmp_path / "sweep.cfg").write_text(SWEEP)
    return tmp_path / "sweep.cfg"


@pytest.fixture
def corpora():
    names = [f"part {number}" for number in range(9)]
    return {"parts": LinkingTask(["part one", "part 2"], [["P1"], ["P2"]], names, [f"P{n}" for n in range(9)])}


def test_a_sweep_runs_measures_and_goes_on(config, corpora, tmp_path, monkeypatch):
    sweep = read_sweep(config, tmp_path / "out", {"batch.chunk_names": 5})
    assert [list(runs) for runs in sweep.variants.values()] == [[0, 1], [0, 1]]
    table = run_sweep(sweep, tmp_path / "out", held_out={}, corpora=corpora)
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        "before training",
        "slow",
        "slow, base share 0.5",
        "fast",
        "fast, base share 0.5",
    ]
    result = srsly.read_json(tmp_path / "out" / "sweep.json")
    assert len(result["runs"]) == 8
    for record in result["runs"]:
        settings = record["report"]["settings"]
        assert settings["batch"]["chunk_names"] == 5 and settings["run"]["seed"] == record["seed"]
        if not record["base_share"]:
            encoder = EncoderShim({}, "auto")
            encoder.load(str(Path(settings["paths"]["output"]) / "encoder"))
            assert measure_accuracy(encoder, corpora) == record["scores"]
    # All is done: nothing is trained or measured again, and the table is the same.
    monkeypatch.setattr("training.sweep.pretrain", None)
    monkeypatch.setattr("training.evaluation.scores.measure_accuracy", None)
    assert run_sweep(sweep, tmp_path / "out", held_out={}, corpora=corpora) == table
    assert (tmp_path / "out" / "sweep.md").read_text() == table
    assert "slow" in (tmp_path / "out" / "curves.svg").read_text()


def test_seeds_and_settings_that_have_changed_are_run(config, corpora, tmp_path, monkeypatch):
    run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    config.write_text(SWEEP.replace("seeds = [0, 1]", "seeds = [1, 2]"))
    taken = []

    def pretrain(settings):
        taken.append((Path(settings.paths.output).parent.name, settings.run.seed))
        return {"training": {"ended": "interrupted"}}

    monkeypatch.setattr("training.sweep.pretrain", pretrain)
    table = run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    # The first one was interrupted, and so is the sweep.
    assert taken == [("slow", 2)] and "| fast |" in table


def test_held_out_concepts_must_not_be_in_the_pairs(config, tmp_path):
    held_out = {"held_out": LinkingTask(["organ 3"], [["C3"]], ["acute organ 3"], ["C3"])}
    with pytest.raises(ValueError, match="E640.*C3"):
        run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out=held_out, corpora={})


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('learning_rate": 1e-2', 'learning_rate": 1e-4', "E677.*slow.*fast"),
        ('{"optimizer.learning_rate": 1e-2', '{"optimiser.learning_rate": 1e-2', "E680.*optimiser"),
        ('learning_rate": 1e-2', 'rate": 1e-2', "E622.*rate"),
        ("[variants]", "[others]", "E676.*others"),
    ],
)
def test_sweeps_without_meaning_are_refused(old, new, message, config, tmp_path):
    config.write_text(SWEEP.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_sweep(config, tmp_path / "out")


def test_sweeps_that_come_with_it_can_be_read(tmp_path):
    paths = sorted((ROOT / "training" / "sweeps").glob("*.cfg"))
    assert len(paths) == 4
    for path in paths:
        assert len(read_sweep(path, tmp_path).variants) >= 3
    margins = read_sweep(ROOT / "training" / "sweeps" / "search.cfg", tmp_path).variants["margin_0.05"]
    assert margins[0].objective.margin == 0.05
    with pytest.raises(FileNotFoundError, match="E102"):
        read_sweep(tmp_path / "no.cfg", tmp_path)


def test_scores_are_measured_once_for_an_encoder_and_a_task(encoder_folder, corpora, tmp_path, monkeypatch):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    scores = ScoreBook(corpora, tmp_path / "scores.json").measure(encoder)
    assert scores == measure_accuracy(encoder, corpora)
    measured = []
    monkeypatch.setattr(
        "training.evaluation.scores.measure_accuracy",
        lambda _, tasks: measured.extend(tasks) or measure_accuracy(_, tasks),
    )
    other = {**corpora, "other": LinkingTask(["part 3"], [["P3"]], ["part 3"], ["P3"])}
    assert ScoreBook(other, tmp_path / "scores.json").measure(encoder)["parts"] == scores["parts"]
    assert measured == ["other"]


def test_the_table_has_means_deviations_and_gains():
    def scores(at_1, at_5):
        return {"corpus": {"acc_at_1": at_1, "acc_at_5": at_5}}

    table = format_scores({"raw": [scores(0.5, 0.6)], "new": [scores(0.5, 0.7), scores(0.54, 0.7)]}, reference="raw")
    assert table.splitlines()[2:] == ["| raw | 50.0/60.0 |", "| new | 52.0±2.8/70.0±0.0 (+2.0/+10.0) |"]
