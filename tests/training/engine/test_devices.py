"""Runs whose process has another device than the CPU: nothing that they compute with is left on the CPU."""

import pytest
import torch
from accelerate import Accelerator
from fake_device import FakeDevice
from small_runs import assert_same, final_weights, losses, make_any, terminology, world

from training.engine.run import train

# Fixtures.
__all__ = ["make_any", "terminology", "world"]


class Elsewhere(Accelerator):
    """A process with a device of its own."""

    device = property(lambda self: torch.device("mps"))


@pytest.mark.parametrize("method", ["sapbert", "coder_plusplus", "biosyn"])
def test_runs_learn_the_same_on_another_device(monkeypatch, make_any, method):
    batch = {"gradient_cache": method == "sapbert", "max_steps": 2}
    here, there = (make_any(method, output, batch=batch) for output in ("here", "there"))
    train(here)
    monkeypatch.setattr("training.engine.run.Accelerator", Elsewhere)
    with FakeDevice("mps") as fake:
        train(there)
    # CODER++ and BioSyn also search there, among all names.
    assert {"linear", "backward"} | ({"topk"} if method != "sapbert" else set()) <= fake.computed
    assert losses(there) == pytest.approx(losses(here), abs=1e-6)
    assert_same(final_weights(there), final_weights(here), atol=1e-6)
