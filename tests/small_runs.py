"""Small runs of SapBERT, in this process and in others: settings, what they leave, and fixtures to import."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

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
def held_out(terminology, tmp_path_factory):
    """A task of five concepts, and the paths of a run that does not learn them."""
    folder = tmp_path_factory.mktemp("held_out")
    rest, task = split_terminology(terminology, held_out=5, dictionary=30, seed=1)
    write_pairs(rest, folder / "pairs")
    task.to_disk(folder / "held_out.json")
    return task, {"pairs": str(folder / "pairs"), "held_out": str(folder / "held_out.json")}


def stop_at(step, monkeypatch, error=RuntimeError):
    """Let runs fail before a step, from 0."""
    take_step = TrainingLoop.take_step

    def fail(self, batch):
        if self.step == step:
            raise error("power cut")
        return take_step(self, batch)

    monkeypatch.setattr(TrainingLoop, "take_step", fail)


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
    with monkeypatch.context() as patch:
        stop_at(step, patch, KeyboardInterrupt)
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


def start(settings, tmp_path, *launcher):
    """Start a run in a process of its own."""
    path = tmp_path / "run.cfg"
    lines = []
    for section, values in settings.to_dict().items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    path.write_text("\n".join(lines))
    command = [sys.executable, *(launcher or ("-m", "training")), "train", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for_steps(settings, n):
    for _ in range(1800):
        path = Path(settings.paths.output) / "metrics.jsonl"
        if path.exists() and len(path.read_text().splitlines()) >= n:
            return
        time.sleep(0.1)
    raise AssertionError("no steps")


# What each process finds at its very end: whether the run has been exported, and whether connections are still open.
LAST_WORDS = """
import atexit, os, pathlib, runpy, sys
import torch
sys.path.insert(0, os.getcwd())
run = pathlib.Path(__file__).parent / "two"

def note():
    found = f"{(run / 'report.json').is_file()} {torch.distributed.is_initialized()}"
    (run / f"last-{os.environ['RANK']}").write_text(found)

atexit.register(note)
runpy.run_module("training", run_name="__main__")
"""
