"""Accuracy of linking and of the names of a run, against naive loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.accuracy import evaluate_names, find, find_hits, judge, list_named, summarise, take_headlines
from training.data.task import LinkingTask


class Rehearsed:
    """A system that finds the rows that a test has written down for each query."""

    def __init__(self, rows):
        self.rows = rows

    def search(self, names, queries, k):
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for line, query in enumerate(queries):
            found[line, : len(self.rows[query])] = self.rows[query]
        return found, np.where(found < 0, -np.inf, -np.arange(k, dtype=np.float32)).astype(np.float32)


def measure(system, task):
    return list_named(task, summarise(task, judge(task, find(system.search, task))))


def test_accuracy_equals_a_naive_loop(encoder):
    rng = np.random.default_rng(0)
    words = "acute chronic heart liver kidney failure pain fever".split()

    def draw(n):
        return [" ".join(rng.choice(words, size=int(rng.integers(1, 4)))) for _ in range(n)]

    names, queries = list(dict.fromkeys(draw(60))), draw(40)
    ids = [f"C{number % 9}" for number in range(len(names))]
    gold = [[f"C{number}"] for number in rng.integers(0, 12, size=40)]
    folds = [number % 3 for number in range(40)]
    scores = evaluate_names(encoder.encode_unscaled, LinkingTask(queries, gold, names, ids, folds))
    similarities = encoder.encode(queries) @ encoder.encode(names).T
    hits = np.zeros((40, 3))
    for row, similarity in enumerate(similarities):
        order = sorted(range(len(names)), key=lambda place: -similarity[place])
        best = {
            concept: max(similarity[place] for place in range(len(names)) if ids[place] == concept) for concept in ids
        }
        concepts = sorted(best, key=lambda concept: -best[concept])
        right = gold[row][0]
        hits[row] = concepts[0] == right, right in concepts[:5], right in [ids[place] for place in order[:5]]
    by_fold = np.mean([hits[fold::3].mean(axis=0) for fold in range(3)], axis=0)
    assert [scores[key] for key in ("acc_at_1", "acc_at_5", "row_acc_at_5")] == pytest.approx(by_fold.tolist())


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcx"), st.booleans()), min_size=1, max_size=12))
def test_a_mention_is_right_only_if_all_its_parts_are(drawn):
    drawn.sort(key=lambda part: part[0])
    mention_of = [mention for mention, _, _ in drawn]
    gold = [["C1", "C2"] if mention % 2 else ["C3"] for mention in mention_of]
    folds = [mention // 2 for mention in mention_of]
    names, ids = ["a", "b", "c"], ["C1", "C2|C9", "C3"]
    task = LinkingTask([query for _, query, _ in drawn], gold, names, ids, folds, mention_of=mention_of)
    scores = measure(Rehearsed({"a": [0], "b": [1], "c": [2], "x": []}), task)
    right: dict[int, bool] = {}
    for mention, query, _ in drawn:
        is_hit = query in "ab" if mention % 2 else query == "c"
        right[mention] = right.get(mention, True) and is_hit
    by_fold = [np.mean([hit for mention, hit in right.items() if mention // 2 == fold]) for fold in sorted(set(folds))]
    assert scores["acc_at_1"] == scores["row_acc_at_5"] == pytest.approx(np.mean(by_fold))
    assert (scores["mentions"], scores["queries"]) == (len(right), len(drawn))


def test_ties_are_in_the_order_of_the_dictionary_and_counted_at_their_best(encoder):
    names, ids = ["cold", "liver", "cold", "Cold"], ["C1", "C2", "C3", "C4"]
    gold = [["C1"], ["C3"], ["C4"], ["C2"]]
    scores = evaluate_names(encoder.encode_unscaled, LinkingTask(["cold"] * 4, gold, names, ids))
    assert scores["acc_at_1"] == 0.25 and scores["acc_at_1_any_tied"] == 0.75


@given(st.lists(st.sampled_from(["A", "B", "C|D", "E"]), max_size=12), st.lists(st.sampled_from("ABCDEF")))
def test_more_ranks_never_lose_a_hit(ids, gold):
    at_1, at_5, row_1, row_5 = find_hits(ids, gold, [1, 5])
    assert at_1 == row_1 and at_1 <= row_5 <= at_5
    assert at_5 == any(set(joined.split("|")) & set(gold) for joined in list(dict.fromkeys(ids))[:5])


@given(
    st.lists(st.tuples(st.permutations(range(4)), st.integers(0, 4), st.sampled_from("ABC")), min_size=1, max_size=8)
)
def test_answers_equal_a_naive_count(drawn):
    names, ids = ["a1", "a2", "b", "c"], ["A", "A", "B", "C|D"]
    queries = [f"query {number}" for number in range(len(drawn))]
    rows = {query: order[:n] for query, (order, n, _) in zip(queries, drawn, strict=True)}
    task = LinkingTask(queries, [[gold] for *_, gold in drawn], names, ids, level="answer")
    figures = measure(Rehearsed(rows), task)
    n_answers = n_right = 0
    for query, (*_, gold) in zip(queries, drawn, strict=True):
        if rows[query]:
            n_answers += 1
            n_right += gold in ids[rows[query][0]].split("|")
    assert figures["precision"] == pytest.approx(n_right / n_answers if n_answers else 0)
    assert figures["recall"] == pytest.approx(n_right / len(queries))
    # F1 of counts: twice the right answers over answers and mentions.
    assert figures["f1"] == pytest.approx(2 * n_right / (n_answers + len(queries)))
    assert list(take_headlines(figures)) == ["precision", "recall", "F1"]
    as_names = measure(Rehearsed(rows), LinkingTask(task.queries, task.gold, names, ids, level="row", ranks=[1, 3]))
    at_3 = 0
    for order, n, gold in drawn:
        at_3 += gold in {single for row in order[:n][:3] for single in ids[row].split("|")}
    assert as_names["row_acc_at_3"] == pytest.approx(at_3 / len(queries))
    assert list(take_headlines(as_names)) == ["row acc@1", "row acc@3"] and "f1" not in as_names


def test_queries_without_text_are_wrong_and_strings_are_encoded_once(encoder):
    task = LinkingTask(["", "cold", "cold"], [["C1"], ["C1"], ["C1"]], ["cold", "heart"], ["C1", "C2"])
    asked = []
    figures = evaluate_names(lambda strings: asked.extend(strings) or encoder.encode_unscaled(strings), task)
    assert figures["acc_at_5"] == pytest.approx(2 / 3) and sorted(asked) == ["cold", "heart"]
    assert list(figures)[-3:] == ["mentions", "queries", "names"] and figures["names"] == 2
    # Nothing to search for.
    assert evaluate_names(None, LinkingTask([" "], [["C1"]], ["cold"], ["C1"]))["acc_at_1"] == 0.0
