"""How long approximate indexes search, how their recall is measured, and the memory that building them takes."""

import warnings

import numpy as np
import pytest
from index_vectors import unit_vectors

from spacy_sapbert.index import Index, find_available, read_index, warn_of_memory
from spacy_sapbert.index.approximate import ApproximateIndex, RecallTest, tune
from spacy_sapbert.index.base import choose_dtype


class PartialIndex(Index):
    """Find the first rows only: as many as the configuration says."""

    def _search(self, queries, k, ignored=0, allowed=None):
        rows, scores = super()._search(queries, len(self))
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


def test_recall_on_altered_names_is_what_plain_numpy_counts(monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.approximate.ENOUGH", 60)
    index, altered = make_index(140), unit_vectors(60, seed=1)
    measured = RecallTest(index.vectors, altered).measure(index)
    expected = share_found(index, altered)
    assert 0.4 < expected < 0.95 and measured["at_1"] == pytest.approx(expected, abs=1e-4)
    assert measured["standard_error"] == pytest.approx((expected * (1 - expected) / 60) ** 0.5, abs=1e-4)
    assert (measured["test"], measured["queries"]) == ("altered", 60)
    assert RecallTest(index.vectors, altered, sample=7).measure(index)["queries"] == 7


def test_with_few_altered_names_rows_are_left_out():
    index = make_index(140)
    measured = RecallTest(index.vectors, unit_vectors(499, seed=1)).measure(index)
    products = index.vectors @ index.vectors.T
    np.fill_diagonal(products, -1)
    # A query's own row does not count, and is not missed where it is hidden.
    expected = (products[:, :140].max(axis=1) >= products.max(axis=1) - 1e-5).mean()
    assert measured["at_1"] == pytest.approx(expected, abs=1e-4) and measured["queries"] == 200
    assert measured["test"] == "left_out"


def test_tuning_holds_the_target(monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.approximate.ENOUGH", 1)
    index = make_index(200)
    configurations = [{"scoring": "exact", "rows": rows} for rows in (150, 199, 200)]
    altered = index.vectors[199:]
    # The last row alone is the nearest of all altered names; among left-out rows it hardly counts.
    tune(index, configurations[:2], 0.9)
    assert index.configuration == {"scoring": "exact", "rows": 199} and index.recall["test"] == "left_out"
    tune(index, configurations, 0.9, altered)
    assert index.configuration == {"scoring": "exact", "rows": 200} and index.recall["at_1"] == 1.0
    with pytest.warns(UserWarning, match=r"finds 0.0000 .*recall_target = 0.9"):
        tune(index, configurations[:2], 0.9, altered)
    assert index.configuration == {"scoring": "exact", "rows": 199} and index.recall["test"] == "altered"


def test_altered_names_are_saved_with_the_index(monkeypatch, tmp_path):
    monkeypatch.setattr(Index, "_is_approximate", lambda self: True)
    altered = unit_vectors(2, seed=1)
    index = Index()
    index.build(unit_vectors(9), make_altered=lambda: altered)
    index.to_disk(tmp_path)
    loaded = read_index(tmp_path)
    assert (loaded.rearranged(np.arange(5))._altered == altered).all()
    index.build(unit_vectors(9))
    index.to_disk(tmp_path / "without")
    assert read_index(tmp_path / "without")._altered is None


STEP_WIDTH = 4
# The first row is found with effort 1, the second with effort 8, the third exactly.
ROWS = np.eye(STEP_WIDTH, dtype=np.float32)[:3]


class StepIndex(ApproximateIndex):
    """Find the first row with effort 1, two rows with effort 8; note the efforts of all searches."""

    kind = "steps"

    def __init__(self):
        super().__init__()
        self.searches = []

    def _get_steps(self):
        return (0.8, 8), (0.65, None)

    def _find_candidates(self, queries, k, effort):
        self.searches.append((len(queries), effort))
        found = range(max(k, 2 if effort >= 8 else 1))
        return np.tile(found, (len(queries), 1))


def point_to(*parts):
    vector = np.array(parts, dtype=np.float32)
    return vector / np.linalg.norm(vector)


# Nearest to the first row, found at once; to the second, found with effort 8; to the third, compared with all rows
# without another step between, because what was found first is far.
QUERIES = np.stack([point_to(1, 0.3, 0.3, 0.2), point_to(0.9, 1, 0.1, 0), point_to(0.5, 0.5, 1, 0)])


@pytest.fixture
def step_index():
    index = StepIndex()
    index.build(ROWS)
    index._structure = "any"
    return index


def test_effort_follows_the_best_found_cosine(step_index):
    rows, scores = step_index.search(QUERIES, 1)
    assert rows[:, 0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(scores[:, 0], QUERIES.max(axis=1), atol=1e-6)
    assert step_index.searches == [(3, 1), (1, 8)]


def test_rows_that_a_filter_excludes_do_not_count(step_index):
    near = QUERIES[:1]
    for allowed, effort in (([1, 0, 0], []), ([0, 1, 1], [(1, 8)])):
        step_index.searches.clear()
        rows, _ = step_index.search(near, 2, allowed=np.array(allowed, dtype=bool))
        assert rows[0].tolist() == [0, 1] and step_index.searches == [(1, 1), *effort]


def test_the_own_row_of_a_left_out_query_does_not_count(step_index):
    # The query lies on a row, and its nearest other row is farther than the first limit.
    lonely = np.eye(STEP_WIDTH, dtype=np.float32)
    lonely[1] = point_to(0.7, 0.7, *[0] * (STEP_WIDTH - 2))
    step_index.build(lonely)
    step_index._structure = "any"
    step_index.search(lonely[:1], 2)
    assert step_index.searches == [(1, 1)]
    step_index._search(lonely[:1], 2, ignored=1)
    assert step_index.searches[1:] == [(1, 1), (1, 8)]


def without_memory(rows, width):
    """Make vectors that take none."""
    return np.broadcast_to(np.zeros(1, choose_dtype(rows)), (rows, width))


def test_too_little_memory_is_warned_of(tmp_path, monkeypatch):
    path = tmp_path / "meminfo"
    monkeypatch.setattr("spacy_sapbert.index.MEMINFO", path)
    path.write_text("MemTotal:       24000000 kB\nMemAvailable:    6000000 kB\n")
    assert find_available() == 6_000_000 * 1024
    # The vectors in float16 or float32, and those of a block twice in float32.
    for rows, width, needed in ((12_000_000, 256, "7.2"), (8_000_000, 768, "15.4"), (1_900_000, 768, "8.9")):
        with pytest.warns(UserWarning, match=rf"{rows:,} rows needs about {needed} GB.* 6\.1 GB are available"):
            warn_of_memory(without_memory(rows, width))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_memory(without_memory(1_000_000, 256))
