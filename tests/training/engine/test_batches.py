"""Which pairs a step sees."""

from collections import Counter

import numpy as np
import polars as pl
import pytest

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.terminology import TerminologyBuilder
from training.data.pairs import PairData, load_pairs, read_pairs_text
from training.data.synonym_pairs import write_pairs
from training.engine.batches import Batches, balance_sources, find_neighbours


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


def test_neighbours_are_the_nearest_other_concepts_and_are_kept(encoder_folder, tmp_path):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    rng = np.random.default_rng(1)
    words = "acute chronic heart liver kidney failure pain fever".split()
    names = list(dict.fromkeys(" ".join(rng.choice(words, size=3)) for _ in range(80)))[:60]
    data = PairData(
        pl.Series(names), np.arange(30), np.arange(30, 60), np.arange(30), pl.Series(map(str, range(30))), "ab" * 32
    )
    found = find_neighbours(data, encoder, 4, tmp_path / "neighbours.npy")
    similarity = encoder.encode(names[:30]) @ encoder.encode(names[:30]).T
    np.fill_diagonal(similarity, -1)
    for row, neighbours in enumerate(found.tolist()):
        assert row not in neighbours
        assert sorted(similarity[row, neighbours]) == pytest.approx(sorted(similarity[row])[-4:], abs=1e-6)
    # What is kept needs no encoder.
    assert find_neighbours(data, None, 3, tmp_path / "neighbours.npy").tolist() == found[:, :3].tolist()
    assert find_neighbours(data, encoder, 99, tmp_path / "other.npy").shape == (30, 29)
    # What is damaged is found again.
    for damage in (
        b"",
        (tmp_path / "neighbours.npy").read_bytes()[:-8],
        (tmp_path / "other.npy").read_bytes()[:128] + b"\xff" * 6960,
    ):
        (tmp_path / "neighbours.npy").write_bytes(damage)
        assert find_neighbours(data, encoder, 4, tmp_path / "neighbours.npy").tolist() == found.tolist()
