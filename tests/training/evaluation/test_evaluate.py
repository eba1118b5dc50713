"""A run of systems on tasks: figures, predictions, and what is not done twice."""

import dataclasses
import gzip
import json

import numpy as np
import pytest

from spacy_sapbert.encoder.shim import EncoderShim
from training.corpora.listing import read_corpora
from training.data.task import LinkingTask
from training.evaluation import measure as measure_module
from training.evaluation.evaluate import evaluate
from training.evaluation.folder import Missing
from training.evaluation.report.report import make_report
from training.evaluation.systems.backoff import DictionaryBackoff
from training.evaluation.systems.exact import ExactMatch
from training.evaluation.systems.linker import LinkerSystem
from training.evaluation.systems.specification import read_systems
from training.evaluation.tasks import make_tasks

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


def read_predictions(row, folder):
    with gzip.open(folder / "predictions" / f"{row.key}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def test_figures_are_those_of_the_predictions(suite):
    systems, tasks, folder = suite
    evaluation = evaluate(systems, tasks, folder / "out", cache=folder / "cache")
    rows = {(row.system, row.task): row for row in evaluation.rows}
    assert len(rows) == 5 + 2 + 5 + 3 + 1 + 4
    for (_, name), row in rows.items():
        task, lines = tasks[name].linking, read_predictions(row, folder / "out")
        assert len(lines) == row.figures["mentions"] == evaluation.tasks[name].mentions
        folds = {line["fold"] for line in lines}
        for label in ("acc_at_1", "acc_at_3", "row_acc_at_5", "acc_at_1_any_tied"):
            means = [np.mean([line["hits"][label] for line in lines if line["fold"] == fold]) for fold in folds]
            assert row.figures[label] == pytest.approx(np.mean(means))
        for line in lines:
            first = [candidates[0]["ids"].split("|") if candidates else [] for candidates in line["candidates"]]
            assert line["hits"]["acc_at_1"] == all(set(ids) & set(line["gold"]) for ids in first)
            assert [query for line in lines for query in line["queries"]] == task.queries
    assert rows["exact", "small.strict"].figures["acc_at_1"] == 0.25
    # The training part has "feverish", as C3 twice and as C2 once.
    assert rows["backoff", "small.strict"].figures["acc_at_1"] >= 0.5
    assert rows["backoff", "small.strict"].search["decided"] == {"training": 1, "dictionary": 1, "system": 2}
    assert rows["linker", "small.strict"].search["search"] == "exact"
    assert rows["mean", "small.strict"].search["similarity"] == "dot"


def test_tasks_are_described(suite):
    systems, tasks, folder = suite
    missing = [Missing(corpus="absent", reason="gone")]
    evaluation = evaluate(systems, tasks, folder / "out", only=["exact"], missing=missing)
    assert {row.system for row in evaluation.rows} == set(evaluation.systems) == {"exact"}
    assert evaluation.missing == missing
    published, strict = evaluation.tasks["small.published"], evaluation.tasks["small.strict"]
    assert (published.level, published.is_published, published.augmented) == ("row", True, True)
    assert (strict.level, strict.is_published, strict.augmented) == ("concept", False, False)
    assert strict.unanswerable == 1 and strict.names == 6
    assert evaluation.tasks["folds.strict"].aggregation == "macro over 2 folds"
    assert evaluation.tasks["held_out.held_out"].title == "Held-out names"


def test_what_the_report_needs_is_written(suite):
    systems, tasks, folder = suite
    rows = evaluate(systems, tasks, folder / "out", only=["exact"]).rows
    lines = read_predictions(next(row for row in rows if row.task == "small.published"), folder / "out")
    assert [line["mention"] for line in lines] == [record["mention"] for record in TEST]
    assert lines[1]["queries"] == ["lip fever", "knee fever"]
    assert json.loads((folder / "out" / "tasks" / "small.strict.seen_ids.json").read_text()) == ["C2", "C3"]
    assert not (folder / "out" / "tasks" / "folds.strict.seen_ids.json").exists()
    assert LinkingTask.from_disk(folder / "out" / "tasks" / "small.published.json") == tasks["small.published"].linking


def test_nothing_is_measured_twice(suite, monkeypatch):
    systems, tasks, folder = suite
    first = evaluate(systems, tasks, folder / "out")
    monkeypatch.setattr(measure_module, "find", None)
    again = evaluate(systems, tasks, folder / "out")
    assert again.rows == first.rows
    (folder / "out" / "predictions" / f"{first.rows[0].key}.jsonl.gz").unlink()
    with pytest.raises(TypeError):
        evaluate(systems, tasks, folder / "out")


def test_what_changes_is_measured_again(suite, monkeypatch):
    systems, tasks, folder = suite
    evaluate(systems, tasks, folder / "out", only=["exact", "backoff"])
    write_lines(folder / "small" / "train.jsonl", TRAIN[2:])
    asked = []
    find = measure_module.find
    monkeypatch.setattr(measure_module, "find", lambda system, task: asked.append(type(system)) or find(system, task))
    tasks = make_tasks(read_corpora(folder / "corpora.cfg", folder)[0], {})
    evaluate(systems, tasks, folder / "out", only=["exact", "backoff"])
    # Exact match knows nothing of the training part, but under two protocols the dictionary does.
    assert asked.count(DictionaryBackoff) == 3 and asked.count(ExactMatch) <= 2
    monkeypatch.setattr(measure_module, "MEASUREMENT", 0)
    asked.clear()
    evaluate(systems, tasks, folder / "out", only=["exact"])
    assert len(asked) == 4


def test_a_run_that_is_killed_goes_on(suite, monkeypatch):
    systems, tasks, folder = suite
    expected = evaluate(systems, tasks, folder / "whole").rows
    find, n = measure_module.find, iter(range(7))

    def stop(system, task):
        if next(n) == 6:
            raise KeyboardInterrupt
        return find(system, task)

    monkeypatch.setattr(measure_module, "find", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate(systems, tasks, folder / "out")
    monkeypatch.setattr(measure_module, "find", find)
    rows = evaluate(systems, tasks, folder / "out").rows
    assert [row.model_copy(update={"seconds": 0}) for row in rows] == [
        row.model_copy(update={"seconds": 0}) for row in expected
    ]


def test_systems_without_files_are_listed(suite):
    systems, tasks, folder = suite
    missing = evaluate(systems, tasks, folder / "out", only=["biosyn"]).missing
    assert [(entry.system, entry.task) for entry in missing] == [("biosyn", "small.strict")]
    assert "E752" in missing[0].reason and "small/model" in missing[0].reason
    untrained = dataclasses.replace(systems["encoder"], options={**systems["encoder"].options, "encoder": "a/b/c"})
    results = evaluate({**systems, "encoder": untrained}, tasks, folder / "out", only=["exact", "encoder"])
    assert "E755" in results.missing[0].reason and {row.system for row in results.rows} == {"exact"}


def test_a_run_that_fails_leaves_no_metrics_of_another(suite, monkeypatch):
    systems, tasks, folder = suite
    evaluate(systems, tasks, folder / "out", only=["exact"])
    monkeypatch.setattr(measure_module, "MEASUREMENT", 0)
    monkeypatch.setattr(measure_module, "find", None)
    with pytest.raises(TypeError):
        evaluate(systems, tasks, folder / "out", only=["exact"])
    assert not (folder / "out" / "metrics.json").exists()


def test_a_limited_dictionary_is_compared_with_nothing_published(suite):
    systems, _, folder = suite
    corpora = read_corpora(folder / "corpora.cfg", folder)[0]
    described = {name: task.describe() for name, task in make_tasks(corpora, {}, max_names=4).items()}
    assert not any(entry.is_published or entry.is_comparable for entry in described.values())
    assert "limited to about 4 names" in described["small.strict"].dictionary


def test_predictions_of_other_tasks_do_not_stand_beside_figures(suite):
    systems, tasks, folder = suite
    before = evaluate(systems, tasks, folder / "out", only=["exact"]).rows
    write_lines(folder / "small" / "test.jsonl", TEST[:2])
    changed = make_tasks(read_corpora(folder / "corpora.cfg", folder)[0], {})
    after = evaluate(systems, changed, folder / "out", only=["exact"]).rows
    assert {row.key for row in before if row.task == "small.strict"}.isdisjoint(row.key for row in after)
    for row in after:
        assert len(read_predictions(row, folder / "out")) == row.figures["mentions"]
    # Those of before are still there, and are taken again.
    assert [row.key for row in evaluate(systems, tasks, folder / "out", only=["exact"]).rows] == [r.key for r in before]


def test_probes_that_lack_figures_are_refused(suite):
    systems, tasks, folder = suite
    evaluate(systems, tasks, folder / "out", only=["exact"])
    coder = folder / "out" / "coder_tasks"
    coder.mkdir()
    (coder / "mcsm.json").write_text('{"results": [{"name": "x", "figures": {"mean": 1}}]}')
    with pytest.raises(ValueError, match="E747.*mean_chance|E747.*types"):
        make_report(folder / "out")
    (coder / "mcsm.json").write_text('{"1": {"name": "x"}}')
    with pytest.raises(ValueError, match="E747.*mcsm"):
        make_report(folder / "out")


@pytest.mark.parametrize("text", ["{}", "", "[]", '{"figures": 3}'])
def test_damaged_results_are_refused(suite, text):
    systems, tasks, folder = suite
    row = evaluate(systems, tasks, folder / "out", only=["exact"]).rows[0]
    (folder / "out" / "results" / f"{row.key}.json").write_text(text)
    with pytest.raises(ValueError, match=rf"E747.*{row.key}"):
        evaluate(systems, tasks, folder / "out", only=["exact"])


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
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_systems(tmp_path / "no.cfg")


def test_encoders_are_loaded_once(suite, monkeypatch):
    systems, tasks, folder = suite
    loaded = []
    load = EncoderShim.load
    monkeypatch.setattr(EncoderShim, "load", lambda shim, name: loaded.append(name) or load(shim, name))
    evaluate(systems, tasks, folder / "out", only=["encoder"])
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
    assert task.group_queries() == [[1], [3], [0, 2]]
    assert LinkingTask(["a", "b"], [["1"]] * 2, ["a"], ["1"]).group_queries() == [[0], [1]]
