"""Recall is measured on left-out rows and on altered names, and the lower figure is recorded."""

import numpy as np
import pytest

from spacy_sapbert.index import ExactIndex, read_index
from spacy_sapbert.index.recall import RecallTest, tune

WIDTH = 8


def unit_vectors(rows, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, WIDTH))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class PartialIndex(ExactIndex):
    """Find the first rows only: as many as the configuration says."""

    def _search(self, queries, k, effort):
        rows, scores = super()._search(queries, len(self), effort)
        hidden = rows >= self.configuration.get("rows", len(self))
        rows, scores = np.where(hidden, -1, rows), np.where(hidden, -np.inf, scores)
        order = np.argsort(hidden, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def make_index(rows, cls=PartialIndex):
    index = cls()
    index.build(unit_vectors(200))
    index.configuration = {"scoring": "exact", "rows": rows}
    return index


def share_found(index, queries):
    """How many queries have their nearest row among those that the index finds, in plain numpy."""
    return float(((queries @ index.vectors.T).argmax(axis=1) < index.configuration["rows"]).mean())


def test_the_lower_of_the_two_figures_is_recorded():
    index = make_index(100)
    near, far = index.vectors[:50], index.vectors[150:]
    for altered, test in ((near, "left_out"), (far, "altered")):
        measured = RecallTest(index.vectors, altered).measure(index)
        assert measured["altered"]["at_1"] == share_found(index, altered) == float(altered is near)
        assert measured["at_1"] == min(measured[name]["at_1"] for name in ("left_out", "altered"))
        assert measured["test"] == test
        assert {key: measured[key] for key in measured[test]} == measured[test]
    assert measured["left_out"]["queries"] == 200 and measured["altered"]["queries"] == 50


def test_recall_on_altered_names_is_what_plain_numpy_counts():
    index, altered = make_index(140), unit_vectors(60, seed=1)
    measured = RecallTest(index.vectors, altered).measure(index)["altered"]
    expected = share_found(index, altered)
    assert 0.4 < expected < 0.95 and measured["at_1"] == pytest.approx(expected, abs=1e-4)
    assert measured["standard_error"] == pytest.approx((expected * (1 - expected) / 60) ** 0.5, abs=1e-4)


@pytest.mark.parametrize("altered", [None, np.empty((0, WIDTH), dtype=np.float32)])
def test_without_altered_names_the_left_out_rows_decide(altered):
    index = make_index(100)
    measured = RecallTest(index.vectors, altered).measure(index)
    assert measured["test"] == "left_out" and "altered" not in measured
    assert measured["at_1"] == measured["left_out"]["at_1"]


def test_tuning_holds_the_target_against_the_lower_figure():
    index = make_index(200)
    configurations = [{"scoring": "exact", "rows": rows} for rows in (150, 199, 200)]
    altered = index.vectors[199:]
    # The last row alone is the nearest of all altered names; among left-out rows it hardly counts.
    tune(index, configurations[:2], 0.9)
    assert index.configuration == {"scoring": "exact", "rows": 199} and index.recall["test"] == "left_out"
    tune(index, configurations, 0.9, altered)
    assert index.configuration == {"scoring": "exact", "rows": 200} and index.recall["at_1"] == 1.0
    with pytest.warns(UserWarning, match=r"\[W302\].*0.0000.*recall_target = 0.9"):
        tune(index, configurations[:2], 0.9, altered)
    assert index.configuration == {"scoring": "exact", "rows": 199} and index.recall["test"] == "altered"


@pytest.mark.parametrize("is_approximate", [True, False])
def test_altered_names_are_encoded_for_approximate_indexes_only(monkeypatch, is_approximate):
    monkeypatch.setattr(ExactIndex, "_is_approximate", lambda self: is_approximate)
    calls = []
    index = ExactIndex()
    index.build(unit_vectors(9), make_altered=lambda: calls.append(1) or unit_vectors(2, seed=1))
    # An index built of the rows is tuned with the same altered names.
    index.rearranged(np.arange(5), lambda: calls.append(2) or unit_vectors(2, seed=1))
    assert calls == [1] * is_approximate
    without = ExactIndex()
    without.build(unit_vectors(9))
    without.rearranged(np.arange(5), lambda: calls.append(2) or unit_vectors(2, seed=1))
    assert calls == [1, 2] * is_approximate


def test_altered_names_are_saved_with_the_index(monkeypatch, tmp_path):
    monkeypatch.setattr(ExactIndex, "_is_approximate", lambda self: True)
    altered = unit_vectors(2, seed=1)
    index = ExactIndex()
    index.build(unit_vectors(9), make_altered=lambda: altered)
    index.to_disk(tmp_path)
    loaded = read_index(tmp_path)
    assert (loaded.rearranged(np.arange(5))._altered == altered).all()
    index.build(unit_vectors(9))
    index.to_disk(tmp_path / "without")
    assert read_index(tmp_path / "without")._altered is None
