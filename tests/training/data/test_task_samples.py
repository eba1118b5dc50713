"""Samples of tasks: fewer mentions that can be answered, fewer names with all of the gold concepts'."""

import pytest

from training.data.task import LinkingTask
from training.data.task_samples import limit_names, sample_mentions


@pytest.fixture
def task():
    ids = [f"C{number}" for number in range(40) for _ in range(3)]
    queries = [f"query {number}" for number in range(20)]
    gold = [[f"C{number}" if number % 2 else f"X{number}", "X"] for number in range(20)]
    names = [f"name {row}" for row in range(120)]
    return LinkingTask(
        queries, gold, names, ids, folds=[n % 3 for n in range(20)], texts=queries, report={"names": 120}
    )


def test_mentions_are_drawn_among_those_with_a_concept_in_the_dictionary(task):
    everything = sample_mentions(task, 100)
    assert everything.queries == [f"query {number}" for number in range(1, 20, 2)]
    assert everything.gold == task.gold[1::2] and everything.folds == task.folds[1::2]
    assert everything.texts == everything.queries and everything.report["answerable"] == 10
    few = sample_mentions(task, 4, seed=1)
    assert len(few.queries) == len(few.folds) == 4 and few.report["mentions"] == 4
    assert few.queries == sorted(few.queries, key=everything.queries.index)
    assert few == sample_mentions(task, 4, seed=1) != sample_mentions(task, 4, seed=2)
    assert (few.names, few.ids) == (task.names, task.ids)


def test_names_of_gold_concepts_stay_and_others_are_drawn_whole(task):
    few = limit_names(task, 45, seed=1)
    kept = set(few.ids)
    assert len(few.names) == 45 == 3 * len(kept) and {f"C{number}" for number in range(1, 20, 2)} <= kept
    assert few.names == [name for name, id_ in zip(task.names, task.ids, strict=True) if id_ in kept]
    assert few.report == {"names": 45, "limited_to": 45}
    assert few == limit_names(task, 45, seed=1) != limit_names(task, 45, seed=2)
    assert limit_names(task, 120) is task


def test_equal_ids_are_one_concept():
    task = LinkingTask(["a", "b"], [["C2"], ["C5"]], ["one", "two", "other"], ["C1|C2", "C3", "C4"])
    assert sample_mentions(task, 9).queries == ["a"]
    assert limit_names(sample_mentions(task, 9), 1).ids == ["C1|C2"]
