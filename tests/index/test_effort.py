"""Queries that are far from all found rows are searched again with more effort, then exactly."""

import numpy as np
import pytest

from spacy_sapbert.index import ExactIndex, exact_search
from spacy_sapbert.index.recall import RecallTest

WIDTH = 4
# The first row is found with effort 1, the second with effort 8, the third exactly.
ROWS = np.eye(WIDTH, dtype=np.float32)[:3]


class StepIndex(ExactIndex):
    """Search the first row with effort 1, two rows with effort 8; note the efforts of all searches."""

    steps = ((0.8, 8), (0.65, None))

    def __init__(self):
        super().__init__()
        self.searches = []

    def _search(self, queries, k, effort):
        self.searches.append((len(queries), effort))
        rows, scores = exact_search(self._arranged, queries, len(self))
        hidden = rows >= (2 if effort >= 8 else 1)
        rows, scores = np.where(hidden, -1, rows), np.where(hidden, -np.inf, scores)
        order = np.argsort(hidden, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def point_to(*parts):
    vector = np.array(parts, dtype=np.float32)
    return vector / np.linalg.norm(vector)


# Nearest to the first row, found at once; to the second, found with effort 8; to the third, found exactly.
QUERIES = np.stack([point_to(1, 0.3, 0.3, 0.2), point_to(0.5, 1, 0.3, 0), point_to(0.5, 0.5, 1, 0)])


@pytest.fixture
def index():
    index = StepIndex()
    index.build(ROWS)
    index.configuration = {"scoring": "steps"}
    return index


def test_effort_follows_the_best_found_cosine(index):
    # The old code searched once, and missed the nearest rows of the second and the third query.
    rows, scores = index.search(QUERIES, 1)
    assert rows[:, 0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(scores[:, 0], QUERIES.max(axis=1), atol=1e-6)
    assert index.searches == [(3, 1), (2, 8)]


def test_a_query_finds_the_same_alone(index):
    rows, scores = index.search(QUERIES, 2)
    for place, query in enumerate(QUERIES):
        alone = index.search(query[None], 2)
        assert (alone[0] == rows[place]).all()
        np.testing.assert_allclose(alone[1][0], scores[place], atol=1e-6)


def test_effort_that_was_asked_for_is_never_lowered(index):
    assert index.search(QUERIES, 1, effort=9)[0][:, 0].tolist() == [0, 1, 2]
    assert index.searches == [(3, 9)]


def test_an_exact_index_searches_once(index):
    index.configuration = {"scoring": "exact"}
    index.search(QUERIES, 1)
    assert index.searches == [(3, 1)]


def test_the_own_row_of_a_left_out_query_does_not_count(index):
    # Each query lies on a row, and its nearest other row is farther than the limits.
    lonely = np.eye(WIDTH, dtype=np.float32)
    index.build(lonely)
    index.configuration = {"scoring": "steps"}
    index.search(lonely[:1], 2)
    assert index.searches == [(1, 1)]
    index.search(lonely[:1], 2, own=np.array([0]))
    assert index.searches[1:] == [(1, 1), (1, 8)]


def test_measured_recall_includes_the_repeated_searches(index):
    measured = RecallTest(index.vectors, QUERIES).measure(index)
    assert measured["at_1"] == measured["altered"]["at_1"] == measured["left_out"]["at_1"] == 1.0
