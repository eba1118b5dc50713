"""Runs on pairs of names: which pairs a step sees, groups of similar concepts, and names in other writing."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from accelerate import Accelerator
from pair_rows import build
from small_runs import make, make_any, terminology, world

from spacy_sapbert.encoder.shim import EncoderShim
from training.data.pairs import PairData
from training.data.relatedness import Relatedness
from training.data.run_folder import RunFolder
from training.data.tokens import alter_writing, tokenise
from training.encoders.bases import load_base
from training.engine.run import train
from training.methods.pairs import Batches, balance_sources
from training.methods.sapbert import Sapbert

# Fixtures.
__all__ = ["make", "make_any", "terminology", "world"]


def make_data(names, labels, sources=None):
    rows = np.arange(len(labels))
    concepts = pl.Series([str(number) for number in range(max(labels) + 1)])
    listed = None if sources is None else pl.Series(sources)
    return PairData(pl.Series(names), rows, rows + len(labels), np.array(labels), concepts, "ab" * 32, listed)


def find_neighbours(data, encoder, n, folder, terminology=None):
    """Find the groups of a run, without the run."""
    method = Sapbert.__new__(Sapbert)
    method.data, method.base, method.terminology = data, encoder, terminology
    method.settings = SimpleNamespace(batch=SimpleNamespace(neighbours=n, neighbour_pool=0))
    method.folder = RunFolder(folder)
    return method.find_neighbours()


def test_every_epoch_has_all_pairs_in_another_order():
    batches = list(Batches(np.arange(10), 4, 0, 2).iterate())
    assert [len(batch) for batch in batches] == [4, 4, 2] * 2
    first, second = np.concatenate(batches[:3]), np.concatenate(batches[3:])
    assert sorted(first) == sorted(second) == list(range(10)) and list(first) != list(second)


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 11.0)])
@pytest.mark.parametrize("neighbours", [None, np.array([[(i + 1) % 5, (i + 2) % 5] for i in range(5)])])
def test_a_run_that_goes_on_sees_the_same_batches(weights, neighbours):
    batches = Batches(np.arange(10) // 2, 4, 3, 2, weights, neighbours)
    whole = list(batches.iterate())
    assert len(whole) == 2 * batches.per_epoch == 6
    for start in range(7):
        rest = list(batches.iterate(start))
        assert [batch.tolist() for batch in rest] == [batch.tolist() for batch in whole[start:]]


def test_batches_are_made_of_groups_of_neighbours():
    rng = np.random.default_rng(0)
    labels = np.sort(np.concatenate([np.arange(50), rng.integers(0, 50, 150)]))
    neighbours = np.stack([np.arange(50) ^ 1, (np.arange(50) + 10) % 50, (np.arange(50) + 20) % 50], axis=1)
    seen = Counter()
    for rows in Batches(labels, 40, 0, 20, neighbours=neighbours).iterate():
        assert 20 <= len(rows) == len(set(rows.tolist())) <= 40
        concepts = set(labels[rows].tolist())
        # Ten pairs are drawn, and each brings its three neighbours.
        whole = [concept for concept in concepts if set(neighbours[concept].tolist()) <= concepts]
        assert len(whole) >= len(set(whole)) > 5
        seen.update(rows.tolist())
    assert len(seen) > 190


def test_sources_are_balanced():
    # 900 pairs of source A, 90 of B, 10 of both.
    data = make_data([f"name {row}" for row in range(2000)], [0] * 900 + [1] * 90 + [2] * 10, ["A", "B", "A|B"])
    for balance, share in ((1.0, 0.5), (0.5, 910**0.5 / (910**0.5 + 100**0.5)), (1e-9, 910 / 1010)):
        weights = balance_sources(data, balance)
        weights = weights / weights.sum()
        # A pair of both is drawn through A as often as any of A's, and through B as any of B's.
        assert 910 * weights[0] == pytest.approx(share)
        assert weights[990] == pytest.approx(weights[0] + weights[900])
    drawn = np.concatenate(list(Batches(data.labels, 100, 0, 5, balance_sources(data, 1.0)).iterate()))
    assert np.mean(drawn < 900) == pytest.approx(0.5, abs=0.03)
    with pytest.raises(ValueError, match="source_balance is set.*does not say which sources"):
        balance_sources(make_data(["a", "b"], [0]), 0.5)


def test_neighbours_are_drawn_from_a_pool():
    # Concept c may be grouped with c + 1 to c + 5; the last ten have fewer neighbours or none.
    pool = (np.arange(50)[:, None] + np.arange(1, 6)) % 50
    pool[45:, 2:], pool[40:45] = -1, -1
    seen = {concept: set() for concept in range(50)}
    for rows in Batches(np.arange(100) // 2, 40, 0, 40, neighbours=pool, group=2).iterate():
        concepts = set((rows // 2).tolist())
        assert len(rows) <= 40
        for concept in concepts:
            seen[concept] |= concepts & {other for other in pool[concept].tolist() if other >= 0}
    assert all(seen[concept] == set(pool[concept].tolist()) for concept in range(40))
    # Of two places one is a pair's own, and its neighbour follows where there is one.
    few = np.array([[1, -1], [-1, -1], [-1, -1]])
    batches = (Batches(np.arange(3), 2, seed, 1, neighbours=few, group=1).iterate() for seed in range(9))
    assert {tuple(rows.tolist()) for each in batches for rows in each} == {(0, 1), (1,), (2,)}


@pytest.mark.parametrize("is_told", [False, True])
def test_neighbours_are_the_nearest_concepts_without_related_ones_and_are_kept(encoder, tmp_path, monkeypatch, is_told):
    rng = np.random.default_rng(2)
    words = "brain spleen heart liver kidney failure pain fever".split()
    names = list(dict.fromkeys(" ".join(rng.choice(words, size=3)) for _ in range(80)))[:60]
    # Each concept below its half, so that it has many relatives.
    parents = {str(number): {"parents": [str(number // 2)]} for number in range(1, 30)}
    terminology = build({str(number): [names[number], names[number + 30]] for number in range(30)}, **parents)
    related = Relatedness(terminology)
    data = make_data(names, range(30))
    told = terminology if is_told else None
    found = find_neighbours(data, encoder, 5, tmp_path, told)
    similarity = encoder.encode(names[:30]) @ encoder.encode(names[:30]).T
    n_left_out = 0
    for row, neighbours in enumerate(found.tolist()):
        order = [other for other in np.argsort(-similarity[row], kind="stable").tolist() if other != row][:15]
        allowed = [other for other in order if not (is_told and related.is_related(str(row), str(other)))]
        n_left_out += len(order) - len(allowed)
        kept = [other for other in neighbours if other >= 0]
        assert sorted(similarity[row, kept]) == pytest.approx(sorted(similarity[row, allowed[:5]]), abs=1e-6)
        assert neighbours == kept + [-1] * (5 - len(kept))
    assert (n_left_out > 30) == is_told
    # What is kept needs no encoder.
    monkeypatch.setattr(EncoderShim, "encode_tokens", None)
    assert find_neighbours(data, encoder, 5, tmp_path, told).tolist() == found.tolist()
    monkeypatch.undo()
    assert find_neighbours(data, encoder, 99, tmp_path, told).shape == (30, 29)


def test_opposites_take_half_of_the_places(encoder, tmp_path):
    words = "heart liver kidney lung skin bone".split()
    names = [f"{side} {word} pain" for word in words for side in ("left", "right")]
    synonyms = [f"ache of the {name.removesuffix(' pain')}" for name in names]
    data = make_data([*names, *synonyms], range(12))
    terminology = build({str(number): pair for number, pair in enumerate(zip(names, synonyms, strict=True))})
    for n, n_opposites in ((1, 0), (4, 2), (5, 2)):
        found = find_neighbours(data, encoder, n, tmp_path / str(n), terminology)
        opposites = np.arange(12) ^ 1
        assert (found[:, :n_opposites] == opposites[:, None]).all()
        assert (found >= 0).all() and (found != np.arange(12)[:, None]).all()


def test_a_grouped_run_does_not_go_on_with_another_terminology(make, world, tmp_path):
    build({"C000": ["heart"]}).to_disk(tmp_path / "other")
    first, second = (
        make(batch={"neighbours": 1, "max_steps": steps}, paths={"terminology": str(folder)})
        for steps, folder in ((1, world / "terminology"), (2, tmp_path / "other"))
    )
    train(first)
    with pytest.raises(ValueError, match="terminology"):
        train(second)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_names_is_in_other_writing(make, share):
    settings = make(batch={"altered": share})
    base = load_base(settings.paths.encoder, settings.encoder)
    method = Sapbert(settings, base, Accelerator(cpu=True))
    method.learned = method.load()
    method.tokenise(method.base)
    names = np.repeat(np.arange(len(method.data.names)), 20)
    found = method.take_tokens(names)
    same = tokenise(method.data.names, method.base)
    other = tokenise(alter_writing(method.data.names, seed=0), method.base)
    is_altered = []
    for name, tokens in zip(names.tolist(), found, strict=True):
        forms = [same[name].tolist(), other[name].tolist()]
        assert tokens.tolist() in forms
        if forms[0] != forms[1]:
            is_altered.append(tokens.tolist() == forms[1])
    assert len(is_altered) > 300 and np.mean(is_altered) == pytest.approx(share, abs=0.1)
