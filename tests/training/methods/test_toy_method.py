"""A method of a few lines: data, loss and card; the runner resumes, measures, exports and reports."""

from functools import partial

import numpy as np
from conftest import load_encoder
from small_runs import assert_same_course, held_out, kill_at, make_any, terminology, world

from training.data.pairs import load_pairs
from training.data.run_folder import RunFolder
from training.engine.method import Method, TrainingData
from training.engine.run import export_run, train
from training.engine.settings import TrainingSettings
from training.methods.pairs import PairPaths

# Fixtures.
__all__ = ["held_out", "make_any", "terminology", "world"]


class ToySettings(TrainingSettings):
    paths: PairPaths


class Toy(Method[ToySettings]):
    """Pulls the names of a random pair together."""

    name, purpose = "toy", "a toy: names are pulled together."
    Settings = ToySettings

    def load(self):
        self.data = load_pairs(self.settings.paths.pairs)
        self.tokens = self.make_tokens(self.data.names, self.base)
        path, counts = self.settings.paths.pairs, {"names": len(self.data.names)}
        return TrainingData(path, counts, self.data.sha256, self.data.concepts.to_list())

    def loss(self, step, scale):
        pair = np.random.default_rng([self.settings.run.seed, step]).integers(len(self.data))
        tokens = [self.tokens[side[pair]] for side in (self.data.left, self.data.right)]
        loss, _ = self.gradient.compute(
            tokens, lambda vectors: ((vectors[0] - vectors[1]).square().mean(), None), scale=scale
        )
        return {"loss": loss, "names": 2}


def test_a_toy_method_is_trained_resumed_measured_exported_and_described(make_any, held_out, tmp_path, monkeypatch):
    make = partial(make_any, "toy", paths=held_out[1], run={"evaluation_steps": 3})
    report = train(make())
    assert report.training["steps"] == 6 and report.training["ended"] == "max_steps"
    assert (
        set(report.held_out) == {"before", "after"}
        and report.to_dict() == RunFolder(tmp_path / "run").read_report().to_dict()
    )
    encoder = load_encoder(tmp_path / "run" / "encoder")
    assert encoder.fingerprint == report.encoder["trained"] != report.encoder["base"]
    card = (tmp_path / "run" / "encoder" / "README.md").read_text(encoding="utf8")
    assert "after a toy: names are pulled together." in card and "6 steps" in card and "\n- toy\n" in card
    assert export_run(tmp_path / "run", tmp_path / "again").encoder == report.encoder
    # Killed after step 5, it takes the steps after the last checkpoint again.
    kill_at(monkeypatch, make("parts"), 5)
    assert train(make("parts")).encoder == report.encoder
    assert_same_course(make(), make("parts"))
    assert len([entry for entry in RunFolder(tmp_path / "run").read_metrics() if "evaluation" in entry]) == 3
