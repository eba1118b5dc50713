"""Runs that diverge, share a folder, lose a checkpoint, are killed or are launched wrongly."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from small_runs import assert_same, final_weights, losses, make, pairs, start, terminology

from spacy_sapbert.encoder.transformer import forward
from training.data.run_folder import LOCK_FILE
from training.engine.checkpoints import STATE_FILE, list_checkpoints
from training.engine.gradient import NotFiniteError
from training.engine.loop import TrainingLoop
from training.engine.run import train
from training.methods.sapbert import Sapbert

# Fixtures.
__all__ = ["make", "pairs", "terminology"]


def list_steps(settings):
    return [path.name for path in list_checkpoints(Path(settings.paths.output) / "checkpoints")]


def assert_nothing_poisoned(settings):
    """Check that all kept checkpoints are finite, and that nothing was exported."""
    output = Path(settings.paths.output)
    for path in list_checkpoints(output / "checkpoints"):
        for name, tensor in load_file(path / STATE_FILE).items():
            assert not tensor.is_floating_point() or torch.isfinite(tensor).all(), (path, name)
    assert not (output / "encoder").exists() and not (output / "report.json").exists()


def break_gradient(monkeypatch, step, value=float("nan")):
    """Put one number into one gradient of a step."""
    compute = Sapbert.loss

    def loss(self, batch, scale):
        entry = compute(self, batch, scale)
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == step:
            next(p for p in self.model.parameters() if p.grad is not None).grad.view(-1)[0] = value
        return entry

    monkeypatch.setattr(Sapbert, "loss", loss)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_number_in_one_gradient_stops_the_run_before_the_step(make, monkeypatch, value):
    good = make("good", batch={"max_steps": 4})
    train(good)
    settings = make()
    with monkeypatch.context() as patch:
        break_gradient(patch, 5, value)
        with pytest.raises(FloatingPointError, match=r"gradients of step 5 .*learning_rate.*step-00000004"):
            train(settings)
    assert list_steps(settings) == ["step-00000002", "step-00000004"]
    assert_nothing_poisoned(settings)
    assert_same(final_weights(settings), final_weights(good))
    assert len(losses(settings)) == 4
    # Nothing was harmed: without the fault, the run goes on.
    train(settings)
    assert len(losses(settings)) == 6


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_a_learning_rate_that_is_too_high_poisons_nothing(make, rate):
    settings = make(optimizer={"learning_rate": rate}, batch={"max_steps": 60})
    with pytest.raises(FloatingPointError, match="learning_rate"):
        train(settings)
    assert len(losses(settings)) < 60
    assert_nothing_poisoned(settings)


def test_numbers_that_are_none_stop_the_run_and_keep_the_batch(make, monkeypatch):
    settings = make()
    for what, place, broken in (
        # Not a loss of zero, which no pairs among NaN would give.
        ("embeddings", "engine.gradient.forward", lambda *given, **how: forward(*given, **how) * torch.nan),
        ("loss", "methods.pairs.Objective.__call__", lambda self, vectors, *_: (vectors.sum() * torch.nan, {})),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"training.{place}", broken)
            with pytest.raises(FloatingPointError, match=f"{what} of step 1 "):
                train(settings)
        batch = json.loads((Path(settings.paths.output) / "failed_batch.json").read_text())
        assert batch["not_finite"] == what and len(batch["names"]) == len(batch["labels"]) == 16


def test_half_precision_may_skip_steps_but_not_forever():
    loop = TrainingLoop.__new__(TrainingLoop)
    loop.method = SimpleNamespace(model=torch.nn.Linear(1, 1))
    loop.method.model.weight.grad = torch.tensor([[torch.inf]])
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    loop._check_gradients()
    for loop.scaler in (torch.amp.GradScaler("cpu", init_scale=1.0), torch.amp.GradScaler("cpu", enabled=False)):
        loop.scaler.scale(torch.ones(()))
        with pytest.raises(NotFiniteError):
            loop._check_gradients()


def test_a_run_in_half_precision_goes_on_after_a_gradient_that_overflows(make, monkeypatch):
    settings = make(run={"precision": "fp16"})
    break_gradient(monkeypatch, 2, torch.inf)
    assert train(settings).training["steps"] == 6
    assert all(torch.isfinite(tensor).all() for tensor in final_weights(settings).values())


def test_a_second_run_in_the_same_folder_is_refused(make, tmp_path, monkeypatch):
    first, second = make(), make(run={"seed": 1})
    take_step = TrainingLoop.take_step
    refused = []

    def start_another(self, batch):
        if not refused:
            refused.append(True)
            with pytest.raises(RuntimeError, match=rf"{os.getpid()}.*{tmp_path / 'run'}"):
                train(second)
        return take_step(self, batch)

    monkeypatch.setattr(TrainingLoop, "take_step", start_another)
    assert train(first).settings["run"]["seed"] == 0
    assert refused and len(losses(first)) == 6
    # The lock ends with the run.
    assert not (tmp_path / "run" / LOCK_FILE).exists()
    train(first)


@pytest.mark.parametrize("damage", ["cut", "changed", "no state", "no manifest"])
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(make, damage):
    settings = make()
    train(settings)
    expected = losses(settings), final_weights(settings)
    checkpoints = Path(settings.paths.output) / "checkpoints"
    state = checkpoints / "step-00000006" / STATE_FILE
    if damage == "cut":
        state.write_bytes(state.read_bytes()[:-100])
    elif damage == "changed":
        content = bytearray(state.read_bytes())
        content[-1] ^= 1
        state.write_bytes(content)
    else:
        (state if damage == "no state" else state.with_name("checkpoint.json")).unlink()
    with pytest.warns(UserWarning, match="step-00000006.*step-00000004"):
        train(settings)
    assert list_steps(settings) == ["step-00000004", "step-00000006"]
    assert losses(settings) == expected[0]
    assert_same(final_weights(settings), expected[1])
    # Damage to all is an error, and not a new run.
    for path in list_checkpoints(checkpoints):
        (path / STATE_FILE).write_bytes(b"")
    with pytest.raises(OSError, match="step-00000006"):
        train(settings)
    assert len(losses(settings)) == 6


def test_processes_that_are_not_connected_are_refused(make, monkeypatch):
    settings = make()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="2 processes.*ACCELERATE_USE_CPU"):
        train(settings)
    assert not Path(settings.paths.output).exists()


# Ends each process after the third step, as a kill would: the checkpoint of the second is the last.
KILLED = """
import os, runpy, sys
sys.path.insert(0, os.getcwd())
from training.engine.loop import TrainingLoop
after_step = TrainingLoop._after_step

def stop(self):
    after_step(self)
    if self.step == 3:
        self.accelerator.wait_for_everyone()
        os._exit(9)

TrainingLoop._after_step = stop
runpy.run_module("training", run_name="__main__")
"""


def test_two_processes_with_dropout_resume_bit_for_bit(make, tmp_path):
    batch = {"pairs": 7, "dropout": 0.3, "max_steps": 6}
    whole, killed = make("whole", batch=batch), make("killed", batch=batch)
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2")
    (tmp_path / "b").mkdir()
    undisturbed = start(whole, tmp_path / "b", *launcher, "-m", "training")
    process = start(killed, tmp_path, *launcher, str(script))
    for one, is_good in ((undisturbed, True), (process, False)):
        output, _ = one.communicate(timeout=240)
        assert (one.returncode == 0) == is_good, output.decode()
    assert list_steps(killed) == ["step-00000002"]
    states = final_weights(killed)
    assert not torch.equal(states["random.cpu"], states["random.cpu.1"])
    process = start(killed, tmp_path, *launcher, "-m", "training")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output.decode()
    assert losses(killed) == losses(whole)
    first, second = final_weights(killed), final_weights(whole)
    assert set(first) == set(second) and all(torch.equal(first[name], second[name]) for name in first)


def test_a_warm_up_is_no_longer_than_the_run(make):
    with pytest.raises(ValueError, match="optimizer.warmup_steps is 7.*at most 6"):
        train(make(optimizer={"warmup_steps": 7}))
