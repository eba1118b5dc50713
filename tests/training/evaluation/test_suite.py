"""A run of systems on tasks: figures, predictions, and what is not done twice."""

import dataclasses
import gzip
import json

import numpy as np
import pytest

from training.evaluation import ExactMatch, LinkingTask, read_corpora
from training.evaluation.suite import gather_extras, make_tasks, making, read_systems, run_suite
from training.evaluation.suite import run as run_module
from training.evaluation.suite.predictions import group_queries
from training.evaluation.systems import DictionaryBackoff, LinkerSystem

NAMES = "C1\theart attack\nC1\tmyocardial infarction\nC2\tcold\nC3\tfever\nC4|OMIM:4\tlip fever\nC5\tLip Fever\n"
TEST = [
    {"mention": "Cold", "ids": ["C2"]},
    {"mention": "lip and knee fever", "ids": ["C4", "C6"], "parts": ["lip fever", "knee fever"]},
    {"mention": "feverish", "ids": ["C3"]},
    {"mention": "knee pain", "ids": ["C9"]},
]
TRAIN = [
    {"mention": "feverish", "ids": ["C3"]},
    {"mention": "FEVERISH", "ids": ["C3"]},
    {"mention": "feverish", "ids": ["C2"]},
]
CORPORA = """
[corpora]

[corpora.small]
title = "Small"
mentions = "small/test.jsonl"
seen = ["small/train.jsonl"]
dictionary = "small/names.tsv"
protocols = ["published", "strict", "refined"]
published = "published"

[corpora.folds]
mentions = "folds/*.jsonl"
dictionary = "small/names.tsv"

[corpora.absent]
title = "Absent"
mentions = "absent/*.jsonl"
dictionary = "small/names.tsv"
obtain = "nowhere"
"""
SYSTEMS = """
[systems]

[systems.exact]
kind = "exact"

[systems.tfidf]
kind = "tfidf"
tasks = ["*.strict"]

[systems.encoder]
kind = "encoder"
encoder = {encoder}
published = "SapBERT"

[systems.mean]
kind = "encoder"
encoder = {encoder}
pooling = "mean"
similarity = "dot"
tasks = ["small.*"]

[systems.linker]
kind = "linker"
encoder = {encoder}
tasks = ["small.strict"]

[systems.backoff]
kind = "backoff"
over = "encoder"
tasks = ["small.*", "held_out.*"]

[systems.biosyn]
kind = "biosyn"
model = "{folder}/{{corpus}}/model"
tasks = ["small.strict"]
"""


def write_lines(path, records):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def suite(tmp_path, encoder_folder):
    """Write corpora and systems; give what a run needs."""
    write_lines(tmp_path / "small" / "test.jsonl", TEST)
    write_lines(tmp_path / "small" / "train.jsonl", TRAIN)
    (tmp_path / "small" / "names.tsv").write_text(NAMES)
    for fold in range(2):
        write_lines(tmp_path / "folds" / f"{fold}.jsonl", TEST[: fold + 1])
    (tmp_path / "corpora.cfg").write_text(CORPORA)
    encoder = json.dumps(str(encoder_folder))
    (tmp_path / "systems.cfg").write_text(SYSTEMS.format(encoder=encoder, folder=tmp_path))
    found, _ = read_corpora(tmp_path / "corpora.cfg", tmp_path)
    held_out = LinkingTask(["cold"], [["C2"]], ["fever", "colds"], ["C3", "C2"])
    return read_systems(tmp_path / "systems.cfg"), make_tasks(found, {"held_out": held_out}), tmp_path


def read_predictions(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_figures_are_those_of_the_predictions(suite):
    systems, tasks, folder = suite
    metrics = run_suite(systems, tasks, folder / "out", cache=folder / "cache")
    rows = {(row["system"], row["task"]): row for row in metrics["rows"]}
    assert len(rows) == 5 + 2 + 5 + 3 + 1 + 4
    for (system, name), row in rows.items():
        task, lines = tasks[name].task, read_predictions(folder / "out" / "predictions" / system / f"{name}.jsonl.gz")
        assert len(lines) == row["mentions"] == metrics["tasks"][name]["mentions"]
        folds = {line["fold"] for line in lines}
        for label in ("acc_at_1", "acc_at_3", "row_acc_at_5", "acc_at_1_any_tied"):
            means = [np.mean([line["hits"][label] for line in lines if line["fold"] == fold]) for fold in folds]
            assert row[label] == pytest.approx(np.mean(means))
        for line in lines:
            first = [candidates[0]["ids"].split("|") if candidates else [] for candidates in line["candidates"]]
            assert line["hits"]["acc_at_1"] == all(set(ids) & set(line["gold"]) for ids in first)
            assert [query for line in lines for query in line["queries"]] == task.queries
    assert rows["exact", "small.strict"]["acc_at_1"] == 0.25
    # The training part has "feverish", as C3 twice and as C2 once.
    assert rows["backoff", "small.strict"]["acc_at_1"] >= 0.5
    assert rows["backoff", "small.strict"]["decided"] == {"training": 1, "dictionary": 1, "system": 2}
    assert rows["linker", "small.strict"]["search"] == "exact" and rows["mean", "small.strict"]["similarity"] == "dot"


def test_tasks_are_described(suite):
    systems, tasks, folder = suite
    metrics = run_suite(
        systems, tasks, folder / "out", only=["exact"], missing=[{"corpus": "absent", "reason": "gone"}]
    )
    assert {row["system"] for row in metrics["rows"]} == set(metrics["systems"]) == {"exact"}
    assert metrics["missing"] == [{"corpus": "absent", "reason": "gone"}]
    published, strict = metrics["tasks"]["small.published"], metrics["tasks"]["small.strict"]
    assert (published["level"], published["is_published"], published["augmented"]) == ("row", True, True)
    assert (strict["level"], strict["is_published"], strict["augmented"]) == ("concept", False, False)
    assert strict["unanswerable"] == 1 and strict["names"] == 6
    assert metrics["tasks"]["folds.strict"]["aggregation"] == "macro over 2 folds"
    assert metrics["tasks"]["held_out.held_out"]["title"] == "Held-out names"


def test_what_the_report_needs_is_written(suite):
    systems, tasks, folder = suite
    run_suite(systems, tasks, folder / "out", only=["exact"])
    lines = read_predictions(folder / "out" / "predictions" / "exact" / "small.published.jsonl.gz")
    assert [line["mention"] for line in lines] == [record["mention"] for record in TEST]
    assert lines[1]["queries"] == ["lip fever", "knee fever"]
    assert json.loads((folder / "out" / "tasks" / "small.strict.seen_ids.json").read_text()) == ["C2", "C3"]
    assert not (folder / "out" / "tasks" / "folds.strict.seen_ids.json").exists()
    assert LinkingTask.from_disk(folder / "out" / "tasks" / "small.published.json") == tasks["small.published"].task


def test_nothing_is_measured_twice(suite, monkeypatch):
    systems, tasks, folder = suite
    first = run_suite(systems, tasks, folder / "out")
    monkeypatch.setattr(run_module, "find", None)
    again = run_suite(systems, tasks, folder / "out")
    assert again["rows"] == first["rows"]
    (folder / "out" / "predictions" / "exact" / "small.strict.jsonl.gz").unlink()
    with pytest.raises(TypeError):
        run_suite(systems, tasks, folder / "out")


def test_what_changes_is_measured_again(suite, monkeypatch):
    systems, tasks, folder = suite
    run_suite(systems, tasks, folder / "out", only=["exact", "backoff"])
    write_lines(folder / "small" / "train.jsonl", TRAIN[:1])
    asked = []
    find = run_module.find
    monkeypatch.setattr(run_module, "find", lambda system, task: asked.append(type(system)) or find(system, task))
    tasks = make_tasks(read_corpora(folder / "corpora.cfg", folder)[0], {})
    run_suite(systems, tasks, folder / "out", only=["exact", "backoff"])
    # Exact match knows nothing of the training part, but under two protocols the dictionary does.
    assert asked.count(DictionaryBackoff) == 3 and asked.count(ExactMatch) <= 2
    monkeypatch.setattr(run_module, "MEASUREMENT", 0)
    asked.clear()
    run_suite(systems, tasks, folder / "out", only=["exact"])
    assert len(asked) == 4


def test_a_run_that_is_killed_goes_on(suite, monkeypatch):
    systems, tasks, folder = suite
    expected = run_suite(systems, tasks, folder / "whole")["rows"]
    find, n = run_module.find, iter(range(7))

    def stop(system, task):
        if next(n) == 6:
            raise KeyboardInterrupt
        return find(system, task)

    monkeypatch.setattr(run_module, "find", stop)
    with pytest.raises(KeyboardInterrupt):
        run_suite(systems, tasks, folder / "out")
    monkeypatch.setattr(run_module, "find", find)
    rows = run_suite(systems, tasks, folder / "out")["rows"]
    assert [{**row, "seconds": 0} for row in rows] == [{**row, "seconds": 0} for row in expected]


def test_systems_without_files_are_listed(suite):
    systems, tasks, folder = suite
    missing = run_suite(systems, tasks, folder / "out", only=["biosyn"])["missing"]
    assert [(entry["system"], entry["task"]) for entry in missing] == [("biosyn", "small.strict")]
    assert "E752" in missing[0]["reason"] and "small/model" in missing[0]["reason"]
    untrained = dataclasses.replace(systems["encoder"], options={**systems["encoder"].options, "encoder": "a/b/c"})
    results = run_suite({**systems, "encoder": untrained}, tasks, folder / "out", only=["exact", "encoder"])
    assert "E755" in results["missing"][0]["reason"] and {row["system"] for row in results["rows"]} == {"exact"}


def test_a_run_that_fails_leaves_no_metrics_of_another(suite, monkeypatch):
    systems, tasks, folder = suite
    run_suite(systems, tasks, folder / "out", only=["exact"])
    monkeypatch.setattr(run_module, "MEASUREMENT", 0)
    monkeypatch.setattr(run_module, "find", None)
    with pytest.raises(TypeError):
        run_suite(systems, tasks, folder / "out", only=["exact"])
    assert not (folder / "out" / "metrics.json").exists()


def test_a_limited_dictionary_is_compared_with_nothing_published(suite):
    systems, _, folder = suite
    corpora = read_corpora(folder / "corpora.cfg", folder)[0]
    described = {name: task.describe() for name, task in make_tasks(corpora, {}, max_names=4).items()}
    assert not any(entry["is_published"] or entry["is_comparable"] for entry in described.values())
    assert "limited to about 4 names" in described["small.strict"]["dictionary"]


def test_results_of_other_settings_do_not_stand_side_by_side(suite):
    systems, tasks, folder = suite
    run_suite(systems, tasks, folder / "out", only=["exact"])
    coder = folder / "out" / "coder_tasks"
    for number, name in enumerate("ab"):
        entry = {"name": "x", "types": {}, "mean": number, "mean_chance": 0, "concepts": 9}
        (coder / name).mkdir(parents=True)
        (coder / name / "mcsm.json").write_text(json.dumps({"1": {**entry, "mean": 7}, "2": entry}))
    (coder / "current.json").write_text('{"folder": "b"}')
    gather_extras(folder / "out")
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    assert [row["mean"] for row in metrics["coder_tasks"]["mcsm"]] == [1]
    (coder / "b" / "mcsm.json").write_text('{"1": {"name": "x"}}')
    with pytest.raises(ValueError, match="E747.*types"):
        gather_extras(folder / "out")


def test_damaged_results_are_refused(suite):
    systems, tasks, folder = suite
    run_suite(systems, tasks, folder / "out", only=["exact"])
    (folder / "out" / "results" / "exact" / "small.strict.json").write_text("{}")
    with pytest.raises(ValueError, match=r"E747.*small\.strict"):
        run_suite(systems, tasks, folder / "out", only=["exact"])


@pytest.mark.parametrize(
    "text, reason",
    [
        ('[other]\n\n[other.a]\nkind = "exact"', "missing or empty"),
        ('[systems]\n\n[systems.a]\nkind = "exactly"', "E620.*exactly"),
        ('[systems]\n\n[systems.a]\nkind = "exact"\nencoder = "x"', "encoder"),
        ('[systems]\n\n[systems.a]\nkind = "backoff"\nover = "b"', "'b' is no other system"),
        ('[systems]\n\n[systems.a]\nkind = "backoff"\nover = "a"', "'a' is no other system"),
        ('[systems]\n\n[systems.a]\ntitle = "A"', "kind"),
        ('[systems]\n\n[systems.a]\nkind = "exact"\n\n[systems.b]\nkind = "tfidf"\ntitle = "a"', "called 'a' as well"),
    ],
)
def test_malformed_systems_are_refused(text, reason, tmp_path):
    (tmp_path / "systems.cfg").write_text(text)
    with pytest.raises(ValueError, match=rf"(?s)E751.*{reason}"):
        read_systems(tmp_path / "systems.cfg")
    with pytest.raises(FileNotFoundError, match="E102"):
        read_systems(tmp_path / "no.cfg")


def test_encoders_are_loaded_once(suite, monkeypatch):
    systems, tasks, folder = suite
    loaded = []
    load = making.EncoderShim.load
    monkeypatch.setattr(making.EncoderShim, "load", lambda shim, name: loaded.append(name) or load(shim, name))
    run_suite(systems, tasks, folder / "out", only=["encoder"])
    assert len(loaded) == 1


class First:
    def search(self, names, queries, k):
        rows = np.zeros((len(queries), k), dtype=np.int64)
        return rows, np.ones_like(rows, dtype=np.float32)


def test_back_off_asks_training_part_then_dictionary_then_system():
    ids, names = ["A", "B|X", "C", "D"], ["first", "second", "third", "Third"]
    seen = [("Mention", ["X"]), ("mention", ["B", "X"]), ("mention", ["C"]), ("second", ["C"]), ("lost", ["Z"])]
    system = DictionaryBackoff(First(), ids, seen)
    rows, scores = system.search(names, ["MENTION", "second", "third", "lost", "new"], 2)
    assert rows.tolist() == [[1, -1], [2, -1], [3, -1], [0, 0], [0, 0]]
    assert scores[0].tolist() == [1.0, -np.inf]
    assert system.decided == {"training": 2, "dictionary": 1, "system": 2}


def test_a_vote_for_one_concept_is_not_one_for_those_of_the_same_name():
    system = DictionaryBackoff(First(), ["A|B", "A"], [("mention", ["A"])])
    assert system.search(["shared", "own"], ["mention"], 1)[0].tolist() == [[1]]


def test_the_linker_is_asked_as_a_pipeline(encoder_folder):
    names, ids = ["heart attack", "myocardial infarction", "Cold"], ["A", "A", "B|C"]
    system = LinkerSystem(str(encoder_folder), ids, k=2)
    rows, scores = system.search(names, ["Heart attack", "cold", ""], 3)
    assert rows[:, 0].tolist() == [0, 2, -1] and (rows[:, 2] == -1).all()
    # One name of each concept.
    assert set(rows[0, :2].tolist()) == {0, 2} and scores[0, 0] == pytest.approx(1.0, abs=1e-3)


def test_queries_are_grouped_by_mention():
    task = LinkingTask(list("abcd"), [["1"]] * 4, ["a"], ["1"], mention_of=[3, 1, 3, 2])
    assert group_queries(task) == [[1], [3], [0, 2]]
    assert group_queries(LinkingTask(["a", "b"], [["1"]] * 2, ["a"], ["1"])) == [[0], [1]]
