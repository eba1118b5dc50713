"""Tasks with dictionaries of their own and shared ones, saved and read."""

import json

import pytest

from training.data.task import LinkingTask

NAMES, IDS = ["fever", "pain", "cold"], ["C1", "C2", "C3"]


def make_task(*queries, names=NAMES):
    return LinkingTask(list(queries), [["C1"] for _ in queries], names, IDS, report={"concepts": 3})


def list_files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_tasks_with_the_same_names_share_one_file(tmp_path):
    tasks = {
        "GER": make_task("Fieber"),
        "FRE": make_task("fièvre", "fievre"),
        "other": make_task("x", names=["a", "b", "c"]),
    }
    for name, task in tasks.items():
        task.to_disk(tmp_path / f"{name}.json", share_dictionary=True)
    assert len(list(tmp_path.glob("dictionary_*.json"))) == 2 and len(list_files(tmp_path)) == 5
    assert "fever" not in (tmp_path / "GER.json").read_text()
    dictionaries = {}
    again = {name: LinkingTask.from_disk(tmp_path / f"{name}.json", dictionaries=dictionaries) for name in tasks}
    assert again == tasks and {name: task.hash() for name, task in again.items()} == {
        name: task.hash() for name, task in tasks.items()
    }
    assert again["GER"].names is again["FRE"].names is not again["other"].names
    assert LinkingTask.from_disk(tmp_path / "GER.json") == tasks["GER"]


def test_a_task_keeps_its_own_dictionary_unless_told_otherwise(tmp_path):
    make_task("Fieber").to_disk(tmp_path / "task.json")
    assert list_files(tmp_path) == ["task.json"] and LinkingTask.from_disk(tmp_path / "task.json") == make_task(
        "Fieber"
    )


def test_a_missing_or_wrong_dictionary_is_named(tmp_path):
    make_task("Fieber").to_disk(tmp_path / "task.json", share_dictionary=True)
    (shared,) = tmp_path.glob("dictionary_*.json")
    content = shared.read_text()
    for wrong in ('["fever"]', '{"names": ["fever"]}', "{"):
        shared.write_text(wrong)
        with pytest.raises(ValueError, match="E670.*task.json"):
            LinkingTask.from_disk(tmp_path / "task.json")
    shared.write_text(content.replace('"C3"', "3"))
    with pytest.raises(ValueError, match="E670"):
        LinkingTask.from_disk(tmp_path / "task.json")
    shared.unlink()
    with pytest.raises(FileNotFoundError, match=f"Can't find the file.*{shared.name}"):
        LinkingTask.from_disk(tmp_path / "task.json")


@pytest.mark.parametrize("name", ["../dictionary_0123456789abcdef.json", "other.json", "", 3])
def test_a_dictionary_lies_beside_its_task(tmp_path, name):
    make_task("Fieber").to_disk(tmp_path / "task.json", share_dictionary=True)
    data = json.loads((tmp_path / "task.json").read_text())
    (tmp_path / "task.json").write_text(json.dumps({**data, "dictionary": name}))
    with pytest.raises(ValueError, match="E670"):
        LinkingTask.from_disk(tmp_path / "task.json")
