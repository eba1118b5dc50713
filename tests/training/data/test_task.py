"""Tasks, saved and read with dictionaries of their own and shared ones; and samples of them."""

import json

import pytest

from training.data.task import LinkingTask, limit_names, sample_mentions

NAMES, IDS = ["fever", "pain", "cold"], ["C1", "C2", "C3"]


def make_task(*queries, names=NAMES):
    return LinkingTask(list(queries), [["C1"] for _ in queries], names, IDS, report={"concepts": 3})


def list_files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_tasks_with_the_same_names_share_one_file_on_request(tmp_path):
    make_task("Fieber").to_disk(tmp_path / "own" / "task.json")
    assert list_files(tmp_path / "own") == ["task.json"]
    assert LinkingTask.from_disk(tmp_path / "own" / "task.json") == make_task("Fieber")
    tasks = {"GER": make_task("Fieber"), "FRE": make_task("fièvre", "fievre")}
    tasks["other"] = make_task("x", names=["a", "b", "c"])
    folder = tmp_path / "shared"
    for name, task in tasks.items():
        task.to_disk(folder / f"{name}.json", share_dictionary=True)
    assert len(list(folder.glob("dictionary_*.json"))) == 2 and len(list_files(folder)) == 5
    for name, task in tasks.items():
        again = LinkingTask.from_disk(folder / f"{name}.json")
        assert again == task and again.hash() == task.hash()


TASK = {"queries": ["a"], "gold": [["C1"]], "names": ["a"], "ids": ["C1"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", ""),
        ("{", ""),
        (json.dumps({**TASK, "gold": ["C1"]}), r"gold\.0"),
        (json.dumps({**TASK, "gold": [[None]]}), r"gold\.0\.0"),
        (json.dumps({**TASK, "gold": [["\ud83d"]]}), "hex escape"),
        (json.dumps({**TASK, "names": [None]}), r"names\.0"),
        (json.dumps({**TASK, "ids": [7]}), r"ids\.0"),
        (json.dumps({**TASK, "ids": []}), "do not fit together"),
        (json.dumps({**TASK, "mention_of": [0, 0]}), "do not fit together"),
        (json.dumps({**TASK, "more": 1}), "more"),
        (json.dumps({**TASK, "dictionary": "../dictionary_0123456789abcdef.json"}), "not a name of a dictionary"),
        (json.dumps({**TASK, "dictionary": "other.json"}), "not a name of a dictionary"),
        (json.dumps({**TASK, "dictionary": 3}), ""),
    ],
)
def test_other_files_are_no_tasks(tmp_path, content, reason):
    (tmp_path / "task.json").write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=rf"(?s)task.json is not a file of queries.*{reason}"):
        LinkingTask.from_disk(tmp_path / "task.json")


def test_a_missing_or_wrong_dictionary_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        LinkingTask.from_disk(tmp_path / "task.json")
    make_task("Fieber").to_disk(tmp_path / "task.json", share_dictionary=True)
    (shared,) = tmp_path.glob("dictionary_*.json")
    content = shared.read_text()
    for wrong in ('["fever"]', '{"names": ["fever"]}', "{", content.replace('"C3"', "3")):
        shared.write_text(wrong)
        with pytest.raises(ValueError, match="task.json is not a file of queries"):
            LinkingTask.from_disk(tmp_path / "task.json")
    shared.unlink()
    with pytest.raises(FileNotFoundError, match=shared.name):
        LinkingTask.from_disk(tmp_path / "task.json")


def test_queries_are_grouped_by_mention_and_hashed_with_it():
    task = LinkingTask(list("abcd"), [["1"]] * 4, ["a"], ["1"], mention_of=[3, 1, 3, 2])
    assert task.group_queries() == [[1], [3], [0, 2]] and task.n_mentions == 3
    whole = LinkingTask(["a", "b"], [["C1"], ["C1"]], ["a"], ["C1"])
    assert whole.group_queries() == [[0], [1]]
    # Scores that have been kept are found by it.
    assert whole.hash() == "b3f7e4ec612e0fe3b3aebc646889e7b6a8dfb048f5ddc72ef75ca19d1fcdded9"
    assert LinkingTask(["a", "b"], [["C1"], ["C1"]], ["a"], ["C1"], mention_of=[0, 0]).hash() != whole.hash()


@pytest.fixture
def task():
    ids = [f"C{number}" for number in range(40) for _ in range(3)]
    queries = [f"query {number}" for number in range(20)]
    gold = [[f"C{number}" if number % 2 else f"X{number}", "X"] for number in range(20)]
    folds = [number % 3 for number in range(20)]
    names = [f"name {row}" for row in range(120)]
    return LinkingTask(queries, gold, names, ids, folds=folds, texts=queries, report={"names": 120})


def test_mentions_are_drawn_among_those_with_a_concept_in_the_dictionary(task):
    everything = sample_mentions(task, 100)
    assert everything.queries == everything.texts == [f"query {number}" for number in range(1, 20, 2)]
    assert everything.gold == task.gold[1::2] and everything.folds == task.folds[1::2]
    assert everything.report["answerable"] == 10
    few = sample_mentions(task, 4, seed=1)
    assert len(few.queries) == len(few.folds) == 4 and few.report["mentions"] == 4
    assert few.queries == sorted(few.queries, key=everything.queries.index)
    assert few == sample_mentions(task, 4, seed=1) != sample_mentions(task, 4, seed=2)
    assert (few.names, few.ids) == (task.names, task.ids)
    # The parts of a mention stay together.
    parts = LinkingTask(list("abcd"), [["C1"], ["X"], ["C1"], ["X"]], ["n"], ["C1"], mention_of=[0, 1, 0, 1])
    assert sample_mentions(parts, 1).queries == ["a", "c"] and sample_mentions(parts, 1).mention_of == [0, 0]


def test_names_of_gold_concepts_stay_and_others_are_drawn_whole(task):
    few = limit_names(task, 45, seed=1)
    kept = set(few.ids)
    assert len(few.names) == 45 == 3 * len(kept) and {f"C{number}" for number in range(1, 20, 2)} <= kept
    assert few.names == [name for name, id_ in zip(task.names, task.ids, strict=True) if id_ in kept]
    assert few.report == {"names": 45, "limited_to": 45}
    assert few == limit_names(task, 45, seed=1) != limit_names(task, 45, seed=2)
    assert limit_names(task, 120) is task
    equal = LinkingTask(["a", "b"], [["C2"], ["C5"]], ["one", "two", "other"], ["C1|C2", "C3", "C4"])
    assert sample_mentions(equal, 9).queries == ["a"]
    assert limit_names(sample_mentions(equal, 9), 1).ids == ["C1|C2"]
