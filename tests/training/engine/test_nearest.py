"""Search on a device."""

import numpy as np
import pytest
import torch
from fake_device import SECOND, FakeDevice

from spacy_sapbert.index import exact_search
from training.engine.nearest import search_on_device


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
