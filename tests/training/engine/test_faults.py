"""Runs that learn nothing, diverge, share a folder, lose a checkpoint, do not fit it or are launched wrongly."""

import json
from functools import partial
from pathlib import Path

import pytest
import srsly
import torch
from pair_rows import build
from safetensors.torch import load_file
from small_runs import (
    MENTIONS,
    assert_same_course,
    copy,
    final_weights,
    losses,
    make,
    make_any,
    terminology,
    whole,
    world,
    write_triples_of,
)

from spacy_sapbert.encoder.transformer import forward
from training.data.run_folder import LOCK_FILE
from training.engine.checkpoints import CHECKPOINT_FILE, FORMAT_VERSION, STATE_FILE, list_checkpoints
from training.engine.loop import TrainingLoop
from training.engine.run import export_run, train
from training.methods.sapbert import Sapbert

# Fixtures.
__all__ = ["copy", "make", "make_any", "terminology", "whole", "world"]


WRITERS = {
    "texts": lambda path, text: path.write_text(text, errors="surrogateescape"),
    "dictionary": lambda path, text: path.write_text(text),
    "mentions": srsly.write_jsonl,
    "terminology": lambda path, names: build(names).to_disk(path),
    "triples": lambda path, rows: write_triples_of(rows, path),
}


@pytest.mark.parametrize(
    "method, name, content, message",
    [
        ("sapbert", "pairs", None, r"pairs\.json"),
        ("static", "texts", None, "No such file.*here"),
        ("static", "texts", "\n \n", "no string in .*here"),
        ("static", "texts", "\udcff", "here is not UTF-8"),
        ("biosyn", "dictionary", "\n", "has no name to compare"),
        ("biosyn", "mentions", MENTIONS[3:6], "no mention to train on.*of 3 mentions, 2 are composite, 1 have no id"),
        ("biosyn", "mentions", MENTIONS[-1:], "nothing can be learned.*1 have an id that"),
        ("coder", "triples", [(head, "RO", 11) for head in range(8)], "All 8 triples.*C011"),
        ("coder_plusplus", "terminology", {"C1": ["cold", "flu", "pain"]}, "3 distinct names of 1 concepts"),
        ("coder_plusplus", "terminology", {"C1": ["cold"], "C2": ["flu"], "C3": ["pain"]}, "0 with synonyms"),
        ("coder_plusplus", "terminology", {"C1": ["cold", "flu"], "C2": ["pain"]}, "each needs 3 neighbours"),
    ],
)
def test_data_with_nothing_to_learn_are_refused(make_any, tmp_path, method, name, content, message):
    if content is not None:
        WRITERS[name](tmp_path / "here", content)
    with pytest.raises((ValueError, OSError), match=message):
        train(make_any(method, paths={name: str(tmp_path / "here")}))


def list_steps(settings):
    return [path.name for path in list_checkpoints(Path(settings.paths.output) / "checkpoints")]


def assert_nothing_poisoned(settings):
    """Check that all kept checkpoints are finite, and that nothing was exported."""
    output = Path(settings.paths.output)
    for path in list_checkpoints(output / "checkpoints"):
        for name, tensor in load_file(path / STATE_FILE).items():
            assert not tensor.is_floating_point() or torch.isfinite(tensor).all(), (path, name)
    assert not (output / "encoder").exists() and not (output / "report.json").exists()


def break_gradient(monkeypatch, step, value):
    """Put one number into one gradient of a step, or of several."""
    compute = Sapbert.loss

    def loss(self, batch, scale):
        entry = compute(self, batch, scale)
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps in (step if isinstance(step, range) else (step,)):
            next(p for p in self.model.parameters() if p.grad is not None).grad.view(-1)[0] = value
        return entry

    monkeypatch.setattr(Sapbert, "loss", loss)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_number_in_one_gradient_stops_the_run_before_the_step(whole, make, monkeypatch, value):
    settings = make()
    with monkeypatch.context() as patch:
        break_gradient(patch, 5, value)
        with pytest.raises(FloatingPointError, match=r"gradients of step 5 .*learning_rate.*step-00000004"):
            train(settings)
    assert list_steps(settings) == ["step-00000002", "step-00000004"] and len(losses(settings)) == 4
    assert_nothing_poisoned(settings)
    # Nothing was harmed: without the fault, the run goes on.
    train(settings)
    assert_same_course(settings, whole)


@pytest.mark.parametrize(
    "what, place, broken",
    [
        # Not a loss of zero, which no pairs among NaN would give.
        ("embeddings", "engine.gradient.forward", lambda *given, **how: forward(*given, **how) * torch.nan),
        ("loss", "methods.pairs.Objective.__call__", lambda self, vectors, *_: (vectors.sum() * torch.nan, {})),
    ],
)
def test_numbers_that_are_none_stop_the_run(make, monkeypatch, what, place, broken):
    monkeypatch.setattr(f"training.{place}", broken)
    with pytest.raises(FloatingPointError, match=f"{what} of step 1 "):
        train(make())


def test_half_precision_may_skip_steps_but_not_forever(make, monkeypatch):
    settings = make(run={"precision": "fp16"})
    with monkeypatch.context() as patch:
        break_gradient(patch, 2, torch.inf)
        assert train(settings).training["steps"] == 6
    assert all(torch.isfinite(tensor).all() for tensor in final_weights(settings).values())
    # Each overflow halves the scale, until it is 1.
    scaler = partial(torch.amp.GradScaler, init_scale=4.0)
    monkeypatch.setattr("training.engine.loop.torch.amp.GradScaler", scaler)
    break_gradient(monkeypatch, range(1, 99), torch.inf)
    with pytest.raises(FloatingPointError, match="gradients of step 3 "):
        train(make("other", run={"precision": "fp16"}))


def test_a_second_run_in_the_same_folder_is_refused(make, tmp_path, monkeypatch):
    first, second = make(batch={"max_steps": 1}), make(run={"seed": 1})
    take_step = TrainingLoop.take_step
    refused = []

    def start_another(self, batch):
        with pytest.raises(RuntimeError, match=f"Another run is writing to {tmp_path / 'run'}"):
            train(second)
        refused.append(True)
        return take_step(self, batch)

    monkeypatch.setattr(TrainingLoop, "take_step", start_another)
    assert train(first).settings["run"]["seed"] == 0 and refused
    # The lock ends with the run.
    assert not (tmp_path / "run" / LOCK_FILE).exists()


@pytest.mark.parametrize("damage", ["changed", "no state", "no manifest", "empty manifest"])
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(whole, copy, damage):
    checkpoints = Path(copy.paths.output) / "checkpoints"
    state = checkpoints / "step-00000006" / STATE_FILE
    if damage == "changed":
        content = bytearray(state.read_bytes())
        content[-1] ^= 1
        state.write_bytes(content)
    elif damage == "empty manifest":
        state.with_name(CHECKPOINT_FILE).write_text("{}")
    else:
        (state if damage == "no state" else state.with_name(CHECKPOINT_FILE)).unlink()
    with pytest.warns(UserWarning, match="step-00000006.*step-00000004"):
        train(copy)
    assert list_steps(copy) == ["step-00000004", "step-00000006"]
    assert_same_course(copy, whole)


def test_damage_to_all_checkpoints_is_an_error_and_not_a_new_run(copy):
    for path in list_checkpoints(Path(copy.paths.output) / "checkpoints"):
        (path / STATE_FILE).write_bytes(b"")
    with pytest.raises(OSError, match="step-00000006"):
        train(copy)
    assert len(losses(copy)) == 6


def test_checkpoints_that_do_not_fit_are_refused_with_what_to_do(copy, make, tmp_path):
    description = tmp_path / "run" / "settings.json"
    before = description.read_text()
    for changes, message in (
        ({"optimizer": {"learning_rate": 0.5}}, r"other settings.*optimizer.learning_rate: 0.001, not 0.5"),
        # What comes out of a run is an encoder to start from, with other weights.
        ({"paths": {"encoder": str(tmp_path / "run" / "encoder")}}, "other settings.*base.fingerprint"),
        ({"batch": {"max_steps": 5}}, "taken 6 steps.*ask for 5"),
        ({"optimizer": {"warmup_steps": 7}}, "optimizer.warmup_steps is 7.*at most 6"),
    ):
        with pytest.raises(ValueError, match=message):
            train(make(**changes))
    assert description.read_text() == before
    train(make(batch={"max_steps": 7}))
    assert json.loads(description.read_text())["settings"]["batch"]["max_steps"] == 7
    last = list_checkpoints(tmp_path / "run" / "checkpoints")[-1] / CHECKPOINT_FILE
    last.write_text(json.dumps({**json.loads(last.read_text()), "format": FORMAT_VERSION - 1}))
    for use in (lambda: train(copy), lambda: export_run(tmp_path / "run", tmp_path / "encoder")):
        with pytest.raises(ValueError, match="step-00000007.*another version"):
            use()


def test_processes_that_are_not_connected_are_refused(make, monkeypatch):
    settings = make()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="2 processes.*ACCELERATE_USE_CPU"):
        train(settings)
    assert not Path(settings.paths.output).exists()
