"""Small runs of all methods, in this process and in others: data, settings, what they leave, and fixtures to import."""

import itertools
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import srsly
import torch
from pair_rows import build, save_triple_rows
from safetensors.torch import load_file
from thinc.api import Config

from training.data.pairs import write_pairs
from training.data.run_folder import RunFolder
from training.data.splits import split_terminology
from training.engine.checkpoints import STATE_FILE, list_checkpoints
from training.engine.loop import TrainingLoop
from training.engine.run import train
from training.methods.registry import make_settings

ROOT = Path(__file__).parents[1]
WORDS = ["heart", "attack", "cold", "acute", "liver", "pain", "of the", "chronic", "failure", "b12"]
TEXTS = ["cold hands", "my heart hurts", "b12", "pain in the liver"]
DICTIONARY = (
    "C1\tFever\nC1\tpyrexia\nC2|OM:2\theart attack\nC2|OM:2\tmi\nC3\tmi\nC4\tcommon cold\nC4\tcoryza\nC5\tinsomnia\n"
    "C5\tsleeplessness\nC6\thypertension\nC6\thigh blood pressure\nC12\thigh temperature\n"
)
MENTIONS = [
    {"mention": "Feverish", "ids": ["C1"]},
    {"mention": "feverish", "ids": ["C1"]},
    {"mention": "heart attacks", "ids": ["OM:2", "C2"]},
    {"mention": "cold|fever", "ids": ["C4", "C1"]},
    {"mention": "cold and fever", "ids": ["C4", "C1"], "parts": ["cold", "fever"]},
    {"mention": "who knows", "ids": []},
    {"mention": "a cold", "ids": ["C4"]},
    {"mention": "sleepless nights", "ids": ["C5"]},
    {"mention": "high pressure", "ids": ["C6"]},
    {"mention": "hyper tension", "ids": ["C6"]},
    {"mention": "gone", "ids": ["C9"]},
]
# The data that a method learns from, in the folder `world`.
FILES = {
    "sapbert": {"pairs": "pairs"},
    "static": {"pairs": "pairs", "texts": "texts.txt"},
    "coder": {"terminology": "terminology", "triples": "triples"},
    "coder_plusplus": {"terminology": "terminology"},
    "biosyn": {"mentions": "mentions.jsonl", "dictionary": "dictionary.tsv"},
}
# Settings of small runs of all methods, and of each.
SMALL = {
    "optimizer": {"learning_rate": 1e-3},
    "batch": {"max_steps": 6, "chunk_names": 5},
    "run": {"precision": "fp32", "checkpoint_steps": 2},
}
OWN = {
    "sapbert": {"batch": {"pairs": 8}},
    "static": {
        "table": {"width": 8, "words": 3},
        "distillation": {"names": 0.5, "texts": 2.0},
        "optimizer": {"learning_rate": 0.05},
        "batch": {"pairs": 8, "chunk_names": 64, "texts": 3},
    },
    "coder": {
        "optimizer": {"warmup_steps": 2},
        "batch": {"triplets": 8, "repetitions": 2, "accumulation": 2},
    },
    "coder_plusplus": {
        "optimizer": {"warmup_steps": 2},
        "batch": {"groups": 2, "neighbours": 3, "synonyms": 2, "accumulation": 2, "refresh_steps": 3},
    },
    "biosyn": {"candidates": {"total": 6, "sparse": 3}, "batch": {"mentions": 2, "epochs": 3, "max_steps": 0}},
}


@pytest.fixture(scope="module")
def terminology():
    rng = np.random.default_rng(0)

    def draw_name():
        return " ".join(rng.choice(WORDS, size=int(rng.integers(1, 5))))

    return build({f"C{concept:03d}": [draw_name() for _ in range(int(rng.integers(1, 6)))] for concept in range(40)})


@pytest.fixture(scope="module")
def world(terminology, tmp_path_factory):
    """A folder with the data of all methods."""
    folder = tmp_path_factory.mktemp("world")
    terminology.to_disk(folder / "terminology")
    write_pairs(terminology, folder / "pairs")
    # Four labels, one of them with a single triple.
    triples = [(head, f"RO r{tail % 3}", tail) for head, tail in itertools.product(range(4), range(4, 12))]
    write_triples_of([*triples, (0, "PAR r9", 1)], folder / "triples")
    (folder / "texts.txt").write_text("\n".join([*TEXTS, "", "b12"]))
    write_mentions(folder)
    return folder


def write_triples_of(rows, folder):
    """Write triples of concepts of `terminology` by their numbers."""
    save_triple_rows([(f"C{head:03d}", label, f"C{tail:03d}") for head, label, tail in rows], folder)


def write_mentions(folder, mentions=MENTIONS, dictionary=DICTIONARY):
    """Write mentions and a dictionary, and return their paths."""
    files = folder / "mentions.jsonl", folder / "dictionary.tsv"
    srsly.write_jsonl(files[0], mentions)
    files[1].write_text(dictionary, encoding="utf8", newline="\n")
    return files


def make_run(encoder, data, output, method="sapbert", /, **sections):
    """Make settings of a small run; values by section."""
    paths = {name: str(data / file) for name, file in FILES.get(method, FILES["sapbert"]).items()}
    given = {"paths": {"encoder": str(encoder), "output": str(output), **paths}, "run": {"method": method}}
    values = {}
    for layer in (SMALL, OWN.get(method, {}), given, sections):
        for section, settings in layer.items():
            values[section] = {**values.get(section, {}), **settings}
    return make_settings(values)


@pytest.fixture
def make_any(world, encoder_folder, tmp_path):
    """Make settings of a small run of a method in a folder of the test's; values by section."""
    return lambda method, output="run", **sections: make_run(
        encoder_folder, world, tmp_path / output, method, **sections
    )


@pytest.fixture
def make(make_any):
    """Make settings of a small run of SapBERT."""
    return partial(make_any, "sapbert")


@pytest.fixture(scope="module")
def whole(world, encoder_folder, tmp_path_factory):
    """The settings of a small run of six steps that has ended, with the default settings of `make_run`."""
    settings = make_run(encoder_folder, world, tmp_path_factory.mktemp("whole") / "run")
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


def find_violating_pairs(embeddings, labels, margin, metric="euclidean"):
    """Find the pairs of all triplets that violate the margin, with three loops."""
    unit = torch.nn.functional.normalize(torch.as_tensor(embeddings).detach().float(), dim=1)
    far = torch.cdist(unit, unit) if metric == "euclidean" else 1 - unit @ unit.T
    positives, negatives = set(), set()
    for a, p, n in itertools.product(range(len(labels)), repeat=3):
        if a != p and labels[a] == labels[p] and labels[a] != labels[n] and far[a, n] - far[a, p] <= margin:
            positives.add((a, p))
            negatives.add((a, n))
    return positives, negatives


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
