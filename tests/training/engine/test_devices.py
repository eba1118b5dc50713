"""Runs and searches on another device than the CPU: nothing that they compute with is left on the CPU."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from fake_device import SECOND, FakeDevice
from small_runs import assert_same, final_weights, losses, make_any, terminology, world

from spacy_sapbert.index import exact_search
from training.engine.nearest import search_on_device
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


def unit_vectors(rows, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [1, 700])
def test_search_on_a_device_finds_what_exact_search_finds(monkeypatch, k):
    monkeypatch.setattr("training.engine.nearest.ROW_BLOCK", 100)
    vectors, queries = unit_vectors(700), unit_vectors(600, seed=1)
    expected = exact_search(vectors, queries, k)
    with FakeDevice() as fake:
        rows, scores = search_on_device(vectors, queries, k, torch.device(SECOND))
    assert {"topk", "cat", "gather"} <= fake.computed
    np.testing.assert_allclose(scores, expected[1], atol=1e-6)
    assert (rows == expected[0]).mean() > 0.999


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_finds_the_same_rows():
    vectors, queries = unit_vectors(2000), unit_vectors(600, seed=1)
    expected, found = exact_search(vectors, queries, 5), search_on_device(vectors, queries, 5, torch.device("cuda"))
    assert (found[0] == expected[0]).all() and np.allclose(found[1], expected[1], atol=1e-5)
