"""Runs whose process has another device than the CPU: nothing that they compute with is left on the CPU."""

import json

import pytest
import torch
from accelerate import Accelerator
from fake_device import FakeDevice
from small_runs import assert_same, final_weights, losses, make, pairs, terminology  # noqa: F401

from training.engine.run import train
from training.methods.registry import make_settings

DICTIONARY = "C1\tcold\nC1\tflu\nC2\theart attack\nC2\tmi\nC3\tliver pain\nC4\tb12\n"
MENTIONS = [{"mention": "a cold", "ids": ["C1"]}, {"mention": "attack", "ids": ["C2"]}]


class Elsewhere(Accelerator):
    """A process with a device of its own."""

    device = property(lambda self: torch.device("mps"))


@pytest.fixture
def make_any(make, encoder_folder, tmp_path, terminology):  # noqa: F811
    """Make settings of a small run of a method."""
    terminology.to_disk(tmp_path / "terminology")
    (tmp_path / "dictionary.tsv").write_text(DICTIONARY)
    (tmp_path / "mentions.jsonl").write_text("".join(json.dumps(mention) + "\n" for mention in MENTIONS))
    sections = {
        "coder_plusplus": {
            "paths": {"terminology": str(tmp_path / "terminology")},
            "batch": {"groups": 2, "neighbours": 3, "accumulation": 1, "max_steps": 2, "refresh_steps": 1},
        },
        "biosyn": {
            "paths": {"mentions": str(tmp_path / "mentions.jsonl"), "dictionary": str(tmp_path / "dictionary.tsv")},
            "candidates": {"total": 4, "sparse": 2},
            "batch": {"mentions": 2, "epochs": 1},
        },
    }

    def make_run(method, output):
        if method == "sapbert":
            return make(output, batch={"gradient_cache": True, "max_steps": 2})
        paths = {"encoder": str(encoder_folder), "output": str(tmp_path / output), **sections[method]["paths"]}
        return make_settings({**sections[method], "paths": paths, "run": {"method": method, "precision": "fp32"}})

    return make_run


@pytest.mark.parametrize("method", ["sapbert", "coder_plusplus", "biosyn"])
def test_runs_learn_the_same_on_another_device(monkeypatch, make_any, method):
    here, there = make_any(method, "here"), make_any(method, "there")
    train(here)
    monkeypatch.setattr("training.engine.run.Accelerator", Elsewhere)
    with FakeDevice("mps") as fake:
        train(there)
    # CODER++ and BioSyn also search there, among all names.
    assert {"linear", "backward"} | ({"topk"} if method != "sapbert" else set()) <= fake.computed
    assert losses(there) == pytest.approx(losses(here), abs=1e-6)
    assert_same(final_weights(there), final_weights(here), atol=1e-6)
