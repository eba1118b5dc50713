"""Which pairs a step sees."""

from collections import Counter

import numpy as np
import polars as pl
import pytest

from spacy_sapbert.terminology import TerminologyBuilder
from training.data.pairs import PairData, load_pairs, read_pairs_text, write_pairs
from training.methods.pairs import Batches, balance_sources


def make_data(labels, sources):
    names = pl.Series([f"name {number}" for number in range(2 * len(labels))])
    rows = np.arange(len(labels))
    concepts = pl.Series([f"C{number}" for number in range(len(sources))])
    return PairData(names, rows, rows + len(labels), np.array(labels), concepts, "0" * 64, sources)


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
    data = make_data([0] * 900 + [1] * 90 + [2] * 10, ["A", "B", "A|B"])
    for balance, share in ((1.0, 0.5), (0.5, 910**0.5 / (910**0.5 + 100**0.5)), (1e-9, 910 / 1010)):
        weights = balance_sources(data, balance)
        weights = weights / weights.sum()
        # A pair of both is drawn through A as often as any of A's, and through B as any of B's.
        assert 910 * weights[0] == pytest.approx(share)
        assert weights[990] == pytest.approx(weights[0] + weights[900])
    drawn = np.concatenate(list(Batches(data.labels, 100, 0, 5, balance_sources(data, 1.0)).iterate()))
    assert np.mean(drawn < 900) == pytest.approx(0.5, abs=0.03)


def test_sources_of_concepts_go_with_the_pairs(tmp_path):
    builder = TerminologyBuilder()
    for concept, name, source in [
        ("C2", "cold", "MSH"),
        ("C2", "common cold", "NCI"),
        ("C2", "coryza", "MSH"),
        ("C1", "heart", "CL"),
        ("C1", "hearts", "CL"),
        ("C3", "alone", "UBERON"),
    ]:
        builder.add_name(concept, name, source=source)
    write_pairs(builder.build(), tmp_path)
    data = load_pairs(tmp_path)
    assert dict(zip(data.concepts, data.sources, strict=True)) == {"C1": "CL", "C2": "MSH|NCI"}


def test_sources_of_former_pairs_are_not_those_of_new_ones(tmp_path):
    builder = TerminologyBuilder()
    for concept in ("C1", "C2"):
        for name in ("a", "b"):
            builder.add_name(concept, f"{concept} {name}", source="CL")
    write_pairs(builder.build(), tmp_path)
    (tmp_path / "pairs.txt").write_text("C1||a||b\nC2||c||d\n")
    read_pairs_text(tmp_path / "pairs.txt", tmp_path)
    assert load_pairs(tmp_path).sources is None


def test_pairs_without_sources_can_not_be_balanced(tmp_path):
    (tmp_path / "pairs.txt").write_text("C1||a||b\nC2||c||d\n")
    read_pairs_text(tmp_path / "pairs.txt", tmp_path / "pairs")
    with pytest.raises(ValueError, match="E675"):
        balance_sources(load_pairs(tmp_path / "pairs"), 0.5)


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
