"""The loss against naive loops, and gradients against differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinc.api import fix_random_seed

from spacy_sapbert.reranker.network import (
    ListInput,
    Lists,
    build_decision_network_v1,
    get_start,
    listwise_loss,
    start_network,
)

LENGTHS = [3, 0, 1, 4]


@pytest.fixture
def lists():
    return Lists(LENGTHS)


def make_right(lists, *rows):
    is_right = np.zeros(lists.n_candidates, dtype=bool)
    is_right[list(rows)] = True
    return lists.with_nil(is_right, ~lists.best(is_right, empty=False))


@given(st.lists(st.lists(st.sampled_from([-np.inf, 0.25, 0.5, 1.0]), max_size=5), max_size=6))
def test_candidates_are_sorted_in_each_list_and_ties_stay_in_their_order(scores):
    expected, start = [], 0
    for of_mention in scores:
        expected += [start + row for row in sorted(range(len(of_mention)), key=lambda row: -of_mention[row])]
        start += len(of_mention)
    flat = np.array([score for of_mention in scores for score in of_mention])
    assert Lists([*map(len, scores)]).sort(flat).tolist() == expected


def test_the_loss_is_that_of_naive_loops(lists):
    random = np.random.default_rng(0)
    logits, start = random.normal(size=12), random.normal(size=8)
    # Two right candidates, none, one, none.
    is_right = make_right(lists, 0, 2, 3)
    expected = 0.0
    for mention, (first, end) in enumerate([(0, 4), (4, 5), (5, 7), (7, 12)]):
        rows = np.exp(logits[first:end])
        expected -= np.log(rows[is_right[first:end]].sum() / rows.sum())
        candidates = logits[first : end - 1]
        if len(candidates):
            of = slice(sum(LENGTHS[:mention]), sum(LENGTHS[: mention + 1]))
            expected += 0.5 * np.mean((candidates - start[of]) ** 2)
    assert Lists([]).softmax(np.zeros(0)).shape == (0,)
    loss, gradient = listwise_loss(logits, is_right, lists, start=start, pull=0.5)
    assert loss == pytest.approx(expected / 4)
    for row in range(12):
        step = np.zeros(12)
        step[row] = 1e-5
        higher = listwise_loss(logits + step, is_right, lists, start=start, pull=0.5)[0]
        lower = listwise_loss(logits - step, is_right, lists, start=start, pull=0.5)[0]
        assert gradient[row] == pytest.approx((higher - lower) / 2e-5, abs=1e-4)


def test_the_network_starts_as_the_linker_and_its_gradients_are_right(lists):
    fix_random_seed(0)
    random = np.random.default_rng(0)
    scores = np.sort(random.random(8))[::-1].astype(np.float32)
    given = ListInput(random.normal(size=(8, 5)).astype(np.float32), scores, lists, np.arange(16).reshape(8, 2))
    is_right = make_right(lists, 0, 3)
    model = build_decision_network_v1(width=7)
    start_network(model, given, is_right)
    rows = np.arange(8) + lists.mention
    assert model.predict(given)[rows] == pytest.approx(get_start(model, given))
    # Away from the zeros of the last layers, where hidden layers have no gradient.
    for layer in model.layers:
        last = layer.layers[-1]
        last.set_param("W", random.normal(size=last.get_param("W").shape).astype(np.float32))

    def get_loss():
        return listwise_loss(model.predict(given).astype(float), is_right, lists, start=scores, pull=0.1)[0]

    logits, backprop = model.begin_update(given)
    backprop(listwise_loss(logits, is_right, lists, start=scores, pull=0.1)[1])
    checked = 0
    for node in model.walk():
        for name in node.param_names:
            if not node.has_grad(name):
                continue
            value, gradient = node.get_param(name), node.get_grad(name).copy()
            place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
            old = value[place]
            losses = []
            for step in (1e-2, -1e-2):
                value[place] = old + step
                losses.append(get_loss())
            value[place] = old
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-2, rel=0.05, abs=1e-3), name
            checked += 1
    # Weight and NIL, and four arrays of each of the two hidden layers.
    assert checked == 10
    # What is the same for all training candidates says nothing of others.
    given.features[:, 2] = 1
    start_network(model, given, is_right)
    changed = given.features.copy()
    changed[:, 2] = 100
    model.layers[0].layers[-1].set_param("W", np.ones((1, 7), dtype=np.float32))
    assert np.array_equal(model.predict(given), model.predict(given._replace(features=changed)))


def test_a_feature_that_is_the_same_for_many_candidates_is_taken_for_constant():
    # float32 numbers that are added up one by one miss their sum by more, the more there are.
    lists = Lists([30] * 5000)
    features = np.full((lists.n_candidates, 2), 0.1, dtype=np.float32)
    features[:, 1] = np.linspace(0, 1, lists.n_candidates)
    scores = features[:, 1].copy()
    given = ListInput(features, scores, lists, np.zeros((lists.n_candidates, 2), dtype=np.int64))
    model = build_decision_network_v1(width=2)
    start_network(model, given, make_right(lists, 0))
    assert model.get_param("deviation") == pytest.approx([np.inf, np.sqrt(1 / 12)], rel=1e-4)
