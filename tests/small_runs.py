"""Small runs of SapBERT, in this process and in others: settings, what they leave, and fixtures to import."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from thinc.api import Config

from spacy_sapbert.terminology import TerminologyBuilder
from training.data.pairs import write_pairs
from training.data.run_folder import RunFolder
from training.data.splits import split_terminology
from training.engine.checkpoints import STATE_FILE, list_checkpoints
from training.engine.loop import TrainingLoop
from training.engine.run import train
from training.methods.registry import make_settings

ROOT = Path(__file__).parents[1]
WORDS = ["heart", "attack", "cold", "acute", "liver", "pain", "of the", "chronic", "failure", "b12"]


@pytest.fixture(scope="module")
def terminology():
    rng = np.random.default_rng(0)
    builder = TerminologyBuilder()
    for concept in range(40):
        for _ in range(int(rng.integers(1, 6))):
            builder.add_name(f"C{concept:03d}", " ".join(rng.choice(WORDS, size=int(rng.integers(1, 5)))))
    return builder.build()


@pytest.fixture(scope="module")
def pairs(terminology, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(terminology, folder)
    return folder


def make_run(encoder, pairs, output, /, **sections):
    """Make settings of a small run; values by section."""
    values = {
        "paths": {"encoder": str(encoder), "pairs": str(pairs), "output": str(output)},
        "optimizer": {"learning_rate": 1e-3},
        "batch": {"pairs": 8, "max_steps": 6, "chunk_names": 5},
        "run": {"method": "sapbert", "precision": "fp32", "checkpoint_steps": 2},
    }
    for section, settings in sections.items():
        values.setdefault(section, {}).update(settings)
    return make_settings(values)


@pytest.fixture
def make(pairs, encoder_folder, tmp_path):
    """Make settings of a small run in a folder of the test's; values by section."""
    return lambda output="run", **sections: make_run(encoder_folder, pairs, tmp_path / output, **sections)


@pytest.fixture(scope="module")
def whole(pairs, encoder_folder, tmp_path_factory):
    """The settings of a small run of six steps that has ended, with the default settings of `make_run`."""
    settings = make_run(encoder_folder, pairs, tmp_path_factory.mktemp("whole") / "run")
    train(settings)
    return settings


@pytest.fixture
def copy(whole, make, tmp_path):
    """Copy `whole` to the place of `make()`, whose settings it returns."""
    shutil.copytree(whole.paths.output, tmp_path / "run")
    return make()


@pytest.fixture(scope="module")
def held_out(terminology, tmp_path_factory):
    """A task of five concepts, and the paths of a run that does not learn them."""
    folder = tmp_path_factory.mktemp("held_out")
    rest, task = split_terminology(terminology, held_out=5, dictionary=30, seed=1)
    write_pairs(rest, folder / "pairs")
    task.to_disk(folder / "held_out.json")
    return task, {"pairs": str(folder / "pairs"), "held_out": str(folder / "held_out.json")}


def final_weights(settings):
    return load_file(list_checkpoints(Path(settings.paths.output) / "checkpoints")[-1] / STATE_FILE)


def losses(settings):
    return [entry["loss"] for entry in RunFolder(settings.paths.output).read_metrics() if "loss" in entry]


def assert_same(first, second, atol=0.0):
    assert set(first) == set(second)
    for name in first:
        if not name.startswith("random."):
            torch.testing.assert_close(first[name].double(), second[name].double(), rtol=0.0, atol=atol, msg=name)


def assert_same_course(first, second):
    assert losses(first) == losses(second)
    assert_same(final_weights(first), final_weights(second))


def kill_at(monkeypatch, settings, step):
    """End a run at a step without a checkpoint, as `kill -9` does."""
    take_step = TrainingLoop.take_step

    def fail(self, batch):
        if self.step == step:
            raise KeyboardInterrupt
        return take_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "take_step", fail)
        with pytest.raises(KeyboardInterrupt):
            train(settings)


def naive_loss(similarities, positives, negatives, alpha=2.0, beta=50.0, base=0.5, epsilon=0.1):
    """Compute CODER's Multi-Similarity loss as it is printed, with the paper's rules for the mining of each anchor."""
    total = 0.0
    for row, alike, unlike in zip(similarities, positives, negatives, strict=True):
        chosen = [p for p in alike if unlike and row[p] < max(row[n] for n in unlike) + epsilon]
        others = [n for n in unlike if alike and row[n] > min(row[p] for p in alike) - epsilon]
        pull = sum(torch.exp(-alpha * (row[p] - base)) for p in chosen)
        push = sum(torch.exp(beta * (row[n] - base)) for n in others)
        total = total + torch.log(1 + torch.as_tensor(pull)) / alpha + torch.log(1 + torch.as_tensor(push)) / beta
    return total / len(similarities)


def start(*command):
    """Start Python in a process of its own."""
    command = [sys.executable, *map(str, command)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def write_config(settings, path):
    Config(settings.to_dict()).to_disk(path)
    return path


def wait_for_steps(settings, n):
    for _ in range(1800):
        path = Path(settings.paths.output) / "metrics.jsonl"
        if path.exists() and len(path.read_text().splitlines()) >= n:
            return
        time.sleep(0.1)
    raise AssertionError("no steps")
