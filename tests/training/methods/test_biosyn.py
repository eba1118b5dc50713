"""BioSyn: candidates, loss and search against naive loops; training that goes on where it was stopped; bad input."""

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from hypothesis import given
from hypothesis import strategies as st
from small_runs import assert_same_course, make_any, terminology, world

from training.encoders.embeddings import Embeddings
from training.engine.run import train
from training.evaluation.systems.encoder import TrainedBioSyn
from training.methods.biosyn import method as biosyn_method
from training.methods.biosyn import sparse
from training.methods.biosyn.method import (
    BioSyn,
    find_positives,
    find_sparse,
    join_candidates,
    marginal_loss,
    read_biosyn_data,
)
from training.methods.biosyn.sparse import SparseEncoder

# Fixtures.
__all__ = ["make_any", "terminology", "world"]


@pytest.fixture
def make(make_any):
    """Make settings of a small run; values by section."""
    return partial(make_any, "biosyn")


@pytest.fixture(scope="module")
def data(world):
    return read_biosyn_data([world / "mentions.jsonl"], world / "dictionary.tsv")


def test_mentions_are_chosen_and_names_joined(data):
    assert data.mentions[:4] == ["feverish", "heart attacks", "a cold", "sleepless nights"]
    assert data.gold[1] == {"C2", "OM:2"} and data.ids[data.names.index("mi")] == {"C2", "OM:2", "C3"}
    assert len(data.names) == len(set(data.names)) == 11 and data.names[0] == "fever"
    counts = {name: data.report[name] for name in ("read", "composites", "without_ids", "repeated", "mentions")}
    assert counts == {"read": 11, "composites": 2, "without_ids": 1, "repeated": 1, "mentions": 7}
    assert data.report["not_in_dictionary"] == 1


@pytest.mark.parametrize("above", [-np.inf, 0.0])
@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=7, max_size=7), max_size=5),
    st.integers(1, 7),
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_blocks_find_what_a_sort_finds(above, products, k, query_block, name_block):
    scores = np.array(products, dtype=np.float32).reshape(-1, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "QUERY_BLOCK", query_block)
        patch.setattr(sparse, "NAME_BLOCK", name_block)
        rows, found = sparse.search_blocks(lambda q: lambda n: scores[q, n], len(scores), 7, k, above=above)
    for query, row in enumerate(scores.tolist()):
        wanted = sorted((i for i in range(7) if row[i] > above), key=lambda i: (-row[i], i))[:k]
        assert rows[query].tolist() == wanted + [-1] * (k - len(wanted))
        assert found[query].tolist() == [row[i] for i in wanted] + [-math.inf] * (k - len(wanted))


def test_what_is_saved_of_the_sparse_encoder_gives_the_same_vectors(data):
    fitted = SparseEncoder.fit(data.names)
    loaded = SparseEncoder(**json.loads(json.dumps(fitted.to_dict())))
    assert (loaded.encode(data.names) != fitted.encode(data.names)).nnz == 0


def test_candidates_are_those_of_a_naive_loop(data, encoder):
    sparse = SparseEncoder.fit(data.names)
    left, right = encoder.encode_unscaled(data.mentions), encoder.encode_unscaled(data.names)
    for n_sparse, total in itertools.product([0, 3, 5], [5, 8, 11]):
        encoded = sparse.encode(data.mentions), sparse.encode(data.names)
        found = join_candidates(find_sparse(*encoded, n_sparse), left, right, total)
        shared = (encoded[0] @ encoded[1].T).toarray()
        for mention, rows in enumerate(found.tolist()):
            expected = sorted(range(11), key=lambda row: (-shared[mention, row], row))[:n_sparse]
            for row in np.argsort(-(right @ left[mention]), kind="stable").tolist():
                if row not in expected and len(expected) < total:
                    expected.append(row)
            assert rows == expected


def test_a_candidate_is_right_if_it_covers_all_ids():
    gold = [frozenset({"C1"}), frozenset({"C1", "C2"})]
    ids = [frozenset({"C1", "C2"}), frozenset({"C12"}), frozenset({"C1"})]
    found = find_positives(gold, ids, np.array([[0, 1, 2], [0, 1, 2]]))
    assert found.tolist() == [[True, False, True], [True, False, False]]


def test_loss_and_gradient_are_those_of_a_naive_loop():
    torch.manual_seed(0)
    scores = torch.randn(4, 5, dtype=torch.float32).mul(3).requires_grad_()
    positives = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    losses = []
    for row, right in zip(scores, positives, strict=True):
        exponents = [torch.exp(score) for score in row]
        chosen = [exponent for exponent, is_right in zip(exponents, right, strict=True) if is_right]
        if chosen:
            losses.append(-torch.log(sum(chosen) / sum(exponents)))
    expected = sum(losses) / len(losses)
    loss = marginal_loss(scores, positives)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(value, scores)[0] for value in (loss, expected)))
    assert not torch.autograd.grad(marginal_loss(scores, positives), scores)[0][1].any()
    assert marginal_loss(scores, torch.zeros_like(positives)).item() == 0
    # Far below what single precision holds as a probability.
    assert marginal_loss(torch.tensor([[0.0, 500.0]]), torch.tensor([[True, False]])).item() == 500


def test_scores_in_training_are_those_of_search(make, encoder, monkeypatch):
    method = BioSyn(make(batch={"dropout": 0.0}), encoder, Accelerator(cpu=True))
    method.learned = method.load()
    method.model = method.build()
    method.model.sparse_weight.data.fill_(3.0)
    seen = []
    monkeypatch.setattr(biosyn_method, "marginal_loss", lambda scores, _: seen.append(scores) or scores.sum())
    method.loss(0, 1.0)
    mentions = method._list_mentions(0)
    scores, candidates = seen[0].detach().numpy(), method.candidates[mentions]
    data, characters = method.data, method.sparse
    shared = (characters.encode(data.mentions) @ characters.encode(data.names).T).toarray()
    dense = encoder.encode_unscaled(data.mentions) @ encoder.encode_unscaled(data.names).T
    expected = 3.0 * shared + dense
    np.testing.assert_allclose(scores, np.take_along_axis(expected[mentions], candidates, axis=1), rtol=1e-4)
    rows, found = TrainedBioSyn.of((Embeddings(encoder), characters, 3.0)).search(data.names, data.mentions, 3)
    assert rows.tolist() == np.argsort(-expected, axis=1, kind="stable")[:, :3].tolist()
    np.testing.assert_allclose(found, -np.sort(-expected, axis=1)[:, :3], rtol=1e-4)


def test_what_was_trained_is_loaded_and_learns(make, data, tmp_path):
    report = train(make(batch={"epochs": 8}, optimizer={"learning_rate": 3e-3}))
    epochs = report.training["of_epochs"]
    assert report.training["ended"] == "finished" and report.training["epochs"] == 8 == len(epochs)
    assert epochs[-1]["loss"] < epochs[0]["loss"] / 2
    assert report.training["sparse_weight"] == epochs[-1]["sparse_weight"] != 0
    assert report.to_dict() == json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf8"))
    system = TrainedBioSyn(model=str(tmp_path / "run"))
    embeddings, _, weight = system.loaded
    assert weight == report.training["sparse_weight"]
    assert embeddings.encoder.fingerprint == report.encoder["trained"]
    rows, _ = system.search(data.names, data.mentions, 1)
    is_right = [gold <= data.ids[row] for gold, (row,) in zip(data.gold, rows.tolist(), strict=True)]
    assert sum(is_right) >= 5
    # Folders of something else are refused.
    with pytest.raises(FileNotFoundError, match="biosyn.json"):
        TrainedBioSyn(model=str(tmp_path)).load()
    path = tmp_path / "run" / "biosyn.json"
    saved = json.loads(path.read_text(encoding="utf8"))
    path.write_text(json.dumps({**saved, "encoder": "0"}), encoding="utf8")
    with pytest.raises(ValueError, match="is not the one that its weight"):
        system.load()
    for bad in ("{", "[]", json.dumps({**saved, "sparse": {"vocabulary": ["a"], "idf": []}})):
        path.write_text(bad, encoding="utf8")
        with pytest.raises(ValueError, match="was not written by a training of BioSyn"):
            system.load()


def test_a_run_goes_on_as_if_it_had_not_been_stopped(make):
    whole, parts = (make(output, batch={"epochs": 2}) for output in ("whole", "parts"))
    expected = train(whole)
    stopped = train(make("parts", batch={"epochs": 2, "max_minutes": 1e-9}))
    assert stopped.training["epochs"] == 1 / 4 and stopped.training["of_epochs"][0]["steps"] == 1
    assert train(parts).training["of_epochs"] == expected.training["of_epochs"]
    assert_same_course(whole, parts)
