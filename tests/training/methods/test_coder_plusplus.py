"""CODER++: groups, neighbours against naive search, the loss against naive loops, runs that stop and go on."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import load_encoder
from small_runs import assert_same_course, kill_at, make_any, naive_loss, terminology, world

from training.data.run_folder import RunFolder
from training.engine.nearest import search_others
from training.engine.run import train
from training.methods.coder.data import GroupSampler, load_synonyms
from training.methods.coder.method import CoderPlusPlus
from training.methods.coder.settings import NameData

# Fixtures.
__all__ = ["make_any", "terminology", "world"]


@pytest.fixture
def make(make_any):
    """Make settings of a small run; values by section."""
    return partial(make_any, "coder_plusplus")


@pytest.fixture(scope="module")
def table(world):
    """Names of 40 concepts, some of them homonyms, and some without synonyms."""
    return load_synonyms(str(world / "terminology"), NameData())


def concepts_by_name(table):
    found = {name: set() for name in range(len(table.names))}
    for concept in range(len(table.concepts)):
        for name in table.name_rows[table.offsets[concept] : table.offsets[concept + 1]].tolist():
            found[name].add(concept)
    return found


def test_names_keep_all_their_concepts(table):
    found = concepts_by_name(table)
    assert any(len(concepts) > 1 for concepts in found.values())
    for name, concepts in found.items():
        assert set(table.concepts_of(name).tolist()) == concepts
        synonyms = {other for other, theirs in found.items() if other != name and theirs & concepts}
        assert set(table.synonyms_of(name).tolist()) == synonyms
        assert (name in table.anchors.tolist()) == bool(synonyms)
    assert len(table.names) > len(table.anchors)


@pytest.mark.parametrize("seed", range(2))
def test_each_anchor_comes_once_before_any_comes_again(table, seed):
    sampler = GroupSampler(table, 3, 2, seed=seed)
    n = len(table.anchors)
    epochs = sampler.list_anchors(0, n)[: 3 * n].reshape(3, n)
    assert all(sorted(epoch) == table.anchors.tolist() for epoch in epochs.tolist())
    assert not np.array_equal(epochs[0], epochs[1])
    # The same, whether asked for at once or batch by batch, in any order.
    again = GroupSampler(table, 3, 2, seed=seed)
    for number in (n - 1, 0, n // 2):
        np.testing.assert_array_equal(
            again.list_anchors(number, number + 1), sampler.list_anchors(0, n)[3 * number :][:3]
        )


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_has_anchors_neighbours_and_synonyms(table, seed):
    concepts = concepts_by_name(table)
    lists = np.random.default_rng(seed).integers(0, len(table.names), size=(len(table.names), 4))
    sampler = GroupSampler(table, 3, 2, seed=seed)
    for number in range(20):
        batch = sampler.draw(number, lists.__getitem__)
        anchors = sampler.list_anchors(number, number + 1)
        names = set(batch.names.tolist())
        assert len(names) == len(batch.names)
        certain = {*anchors.tolist(), *lists[anchors].ravel().tolist()}
        assert certain <= names
        allowed = {name for anchor in anchors for name in table.synonyms_of(anchor).tolist()}
        assert names - certain <= allowed and len(names - certain) <= 3 * 2
        for anchor in anchors.tolist():
            assert len(names & set(table.synonyms_of(anchor).tolist())) >= min(2, len(table.synonyms_of(anchor)))
        naive = [[bool(concepts[a] & concepts[b]) for b in batch.names.tolist()] for a in batch.names.tolist()]
        assert batch.same.tolist() == naive
        again = GroupSampler(table, 3, 2, seed=seed).draw(number, lists.__getitem__)
        np.testing.assert_array_equal(again.names, batch.names)


def test_a_name_is_no_neighbour_of_itself_where_many_are_alike():
    found, report = search_others(np.full((50, 2), 0.5**0.5, dtype=np.float32), np.arange(50), 3, "x")
    assert found.shape == (50, 3) and report["index"] == {"scoring": "exact"}
    assert all(anchor not in rows for anchor, rows in enumerate(found.tolist()))


def test_the_loss_is_that_of_naive_loops(make, encoder_folder, table):
    settings = make(batch={"accumulation": 1, "max_steps": 1, "dropout": 0.0}, optimizer={"warmup_steps": 0})
    encoder = load_encoder(encoder_folder, max_length=settings.encoder.max_length)
    train(settings)
    logged = list(RunFolder(settings.paths.output).read_metrics())
    # Neighbours of the untrained encoder, of all names.
    names = encoder.encode(table.names.to_list())
    lists, _ = search_others(names, np.arange(len(names)), 3, encoder.fingerprint)
    batch = GroupSampler(table, 2, 2, seed=0).draw(0, lists.__getitem__)
    vectors = torch.from_numpy(encoder.encode(table.names.gather(batch.names).to_list())).double()
    alike = [np.flatnonzero(row & (np.arange(len(row)) != i)).tolist() for i, row in enumerate(batch.same)]
    unlike = [np.flatnonzero(~row).tolist() for row in batch.same]
    assert logged[0]["loss"] == pytest.approx(naive_loss(vectors @ vectors.T, alike, unlike).item(), rel=1e-4)
    assert logged[0]["names"] == len(batch.names)


def list_steps(settings):
    return sorted(int(path.stem[5:]) for path in (Path(settings.paths.output) / "neighbours").iterdir())


def test_a_run_goes_on_as_if_it_had_not_been_stopped(make, monkeypatch):
    """Stopped at the start of a period of neighbours, and within one: the last checkpoint is within the one before."""
    sections = {"batch": {"max_steps": 7, "refresh_steps": 2}, "run": {"checkpoint_steps": 3}}
    whole, parts = make("whole", **sections), make("parts", **sections)
    train(whole)
    for stop in (4, 5):
        kill_at(monkeypatch, parts, stop)
    report = train(parts)
    assert_same_course(whole, parts)
    assert list_steps(whole) == list_steps(parts)
    # Also those of before the run was stopped.
    assert [refresh["step"] for refresh in report.training["refreshes"]] == [0, 2, 4, 6]


def test_neighbours_are_looked_for_anew_with_the_weights_of_the_time(make, monkeypatch):
    calls = []
    search = CoderPlusPlus._search

    def watch(self, path, start):
        calls.append((start, self.take_snapshot().fingerprint))
        search(self, path, start)

    monkeypatch.setattr(CoderPlusPlus, "_search", watch)
    settings = make(batch={"max_steps": 9})
    report = train(settings)
    assert [start for start, _ in calls] == [0, 3, 6]
    assert len({fingerprint for _, fingerprint in calls}) == 3 and calls[0][1] == report.encoder["base"]
    refreshes = report.training["refreshes"]
    assert [refresh["step"] for refresh in refreshes] == [0, 3, 6]
    # Those of before the last checkpoints are not needed.
    assert list_steps(settings) == [3, 6]
    with np.load(Path(settings.paths.output) / "neighbours" / "step-00000006.npz") as arrays:
        assert len(np.unique(arrays["anchors"])) == len(arrays["neighbours"]) == refreshes[2]["anchors"]


def test_lists_that_a_killed_run_has_left_are_of_no_use_to_another(make, monkeypatch):
    kill_at(monkeypatch, make("parts"), 1)
    change = {"batch": {"neighbours": 5, "max_steps": 2}}
    for output in ("whole", "parts"):
        train(make(output, **change))
    assert_same_course(make("whole", **change), make("parts", **change))


def test_neighbours_that_are_gone_are_not_replaced_by_others(make):
    settings = make(batch={"max_minutes": 1e-9})
    assert train(settings).training["steps"] == 1
    with pytest.raises(ValueError, match=r"batch\.neighbours: 3, not 4"):
        train(make(batch={"neighbours": 4}))
    shutil.rmtree(Path(settings.paths.output) / "neighbours")
    with pytest.raises(FileNotFoundError, match=r"step 1 .*step 0"):
        train(make())
