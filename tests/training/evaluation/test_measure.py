"""Systems on tasks of a config: figures, predictions, what is not done twice, and what is refused."""

import gzip
import json
import shutil
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
import srsly
from command_line import run_command
from conftest import make_encoder_folder
from pair_rows import build
from thinc.api import Config

from spacy_sapbert.encoder.shim import EncoderShim
from training.data.accuracy import Figure
from training.data.frame import SCHEMA, read_results, write_results
from training.data.task import LinkingTask
from training.evaluation import measure as measure_module
from training.evaluation.config import TASK_KINDS, read_measurement
from training.evaluation.measure import measure
from training.evaluation.predictions import read_predictions
from training.evaluation.settings import Limits, Measured, System, TaskSettings
from training.evaluation.systems.lexical import ExactMatch
from training.evaluation.tasks import NamesTask, SourcesSettings, make_names_task

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
CORPORA = {
    "small": {
        "title": "Small",
        "mentions": "small/test.jsonl",
        "seen": ["small/train.jsonl"],
        "dictionary": "small/names.tsv",
        "protocols": ["published", "strict", "refined"],
        "published": "published",
        "note": "Made up.",
    },
    "folds": {"mentions": "folds/*.jsonl", "dictionary": "small/names.tsv"},
    "absent": {"title": "Absent", "mentions": "absent/*.jsonl", "dictionary": "small/names.tsv", "obtain": "nowhere"},
}
SYSTEMS = {
    "exact": {"kind": "exact"},
    "tfidf": {"kind": "tfidf", "tasks": ["*.strict"]},
    "encoder": {"kind": "encoder", "published": "SapBERT"},
    "mean": {"kind": "encoder", "pooling": "mean", "similarity": "dot", "tasks": ["small.*"]},
    "linker": {"kind": "linker", "tasks": ["small.strict"]},
    "backoff": {"kind": "backoff", "over": "encoder", "tasks": ["small.*", "held_out.*"]},
    "biosyn": {"kind": "biosyn", "tasks": ["small.strict"]},
}


def write_config(folder, systems, **tasks):
    Config({"systems": systems, "tasks": tasks}).to_disk(folder / "all.cfg")


def list_corpora(folder):
    return {"kind": "corpora", "folder": str(folder), "list": str(folder / "corpora.cfg")}


def write_world(folder, encoder):
    for name in ("small", "folds"):
        (folder / name).mkdir()
    srsly.write_jsonl(folder / "small" / "test.jsonl", TEST)
    srsly.write_jsonl(folder / "small" / "train.jsonl", TRAIN)
    (folder / "small" / "names.tsv").write_text(NAMES)
    for fold in range(2):
        srsly.write_jsonl(folder / "folds" / f"{fold}.jsonl", TEST[: fold + 1])
    Config({"corpora": CORPORA}).to_disk(folder / "corpora.cfg")
    paths = dict.fromkeys(("encoder", "mean", "linker"), {"encoder": str(encoder)})
    paths["biosyn"] = {"model": f"{folder}/{{corpus}}/model"}
    systems = {name: {**system, **paths.get(name, {})} for name, system in SYSTEMS.items()}
    held_out = {"kind": "held_out", "files": str(folder / "held_out.json")}
    write_config(folder, systems, names=held_out, corpora=list_corpora(folder))
    LinkingTask(["cold"], [["C2"]], ["fever", "colds"], ["C3", "C2"]).to_disk(folder / "held_out.json")
    return folder


@pytest.fixture
def folder(tmp_path, encoder_folder):
    return write_world(tmp_path, encoder_folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory, encoder_folder):
    """A folder where all is measured, and what `run` returns."""
    folder = write_world(tmp_path_factory.mktemp("measured"), encoder_folder)
    return folder, *run(folder, **{"measure.cache": str(folder / "cache")})


def run(folder, *only, output="out", **overrides):
    """Measure, and give the frame, `measured.json` and the results."""
    measurement = read_measurement(folder / "all.cfg", {"measure.only": list(only), **overrides})
    frame = measurement.run(folder / output)
    measured = json.loads((folder / output / "measured.json").read_text())
    return frame, measured, {(entry["system"], entry["task"]): entry for entry in measured["results"]}


def value(frame, system, task, metric="acc", rank=1):
    where = {"system": system, "task": task, "metric": metric}
    rows = frame.filter(*(pl.col(name) == text for name, text in where.items()), pl.col("rank").eq_missing(rank))
    return rows["value"].item()


def test_figures_are_those_of_the_predictions(done):
    folder, frame, measured, results = done
    assert len(results) == 5 + 2 + 5 + 3 + 1 + 4 and dict(frame.schema) == SCHEMA
    assert frame.equals(read_results(folder / "out")) and (folder / "out" / "results.tsv").is_file()
    for (system, task), entry in results.items():
        lines = read_predictions(folder / "out" / "predictions" / f"{entry['key']}.jsonl.gz")
        queries = LinkingTask.from_disk(folder / "out" / "tasks" / f"{task}.json").queries
        assert [query for line in lines for query in line.queries] == queries
        assert len(lines) == measured["tasks"][task]["counts"]["mentions"]
        folds = {line.fold for line in lines}
        for metric, rank, name in [("acc", 1, "acc_at_1"), ("acc", 3, "acc_at_3"), ("row_acc", 5, "row_acc_at_5")]:
            means = [np.mean([line.hits[name] for line in lines if line.fold == fold]) for fold in folds]
            assert value(frame, system, task, metric, rank) == pytest.approx(np.mean(means))
        for line in lines:
            first = [found[0].ids.split("|") if found else [] for found in line.candidates]
            assert line.hits["acc_at_1"] == all(set(ids) & set(line.gold) for ids in first)
    assert value(frame, "exact", "small.strict") == 0.25
    # The training part has "feverish", as C3 twice and as C2 once.
    assert value(frame, "backoff", "small.strict") >= 0.5
    assert results["backoff", "small.strict"]["details"]["decided"] == {"training": 1, "dictionary": 1, "system": 2}
    assert results["linker", "small.strict"]["details"]["search"] == "exact"
    assert results["mean", "small.strict"]["details"]["similarity"] == "dot"
    assert measured["systems"]["encoder"]["published"] == "SapBERT"
    fingerprints = frame.filter(pl.col("system").is_in(["encoder", "linker"]))["fingerprint"].unique()
    assert fingerprints.to_list() == [measured["systems"]["encoder"]["fingerprint"]]


def test_tasks_and_what_is_missing_are_described(done):
    folder, _, measured, _ = done
    assert list(measured["systems"]) == ["exact", "tfidf", "encoder", "mean", "linker", "backoff"]
    absent, biosyn = measured["missing"]
    assert (absent["corpus"], absent["obtain"], biosyn["system"]) == ("absent", "nowhere", "biosyn")
    assert biosyn["task"] == "small.strict" and "small/model" in biosyn["reason"]
    published, strict = measured["tasks"]["small.published"], measured["tasks"]["small.strict"]
    assert (published["level"], published["is_published"], published["augmented"]) == ("row", True, True)
    assert (strict["level"], strict["is_published"], strict["augmented"]) == ("concept", False, False)
    assert strict["counts"] == {"mentions": 4, "queries": 4, "names": 6, "unanswerable": 1}
    assert measured["tasks"]["folds.strict"]["aggregation"] == "macro over 2 folds"
    assert measured["tasks"]["held_out.held_out"]["title"] == "Held-out names"
    limited = read_measurement(folder / "all.cfg", {"measure.max_names": 4}).tasks
    described = {name: task.describe() for name, task in limited.items()}
    assert not any(entry["is_published"] or entry["is_comparable"] for entry in described.values())
    assert "limited to about 4 names" in described["small.strict"]["dictionary"]
    few = read_measurement(folder / "all.cfg", {"measure.max_queries": 1, "tasks.corpora.protocols": "strict"}).tasks
    assert [len(task.linking.queries) for task in few.values()] == [1, 1, 1]


def test_what_is_measured_is_reported(done, tmp_path):
    output = shutil.copytree(done[0] / "out", tmp_path / "out")
    shown = run_command("report", output)
    assert f"{output}/report.md and {output}/report.html are written" in shown
    report = (output / "report.md").read_text()
    for part in ("### Small", "Made up.", "| exact |", "| tfidf |", "McNemar", "| knee pain | C9 |"):
        assert part in report, part
    missing = report.split("What was not measured")[-1]
    assert "| Absent |" in missing and "| nowhere |" in missing
    assert "<html" in (output / "report.html").read_text()


def test_nothing_is_measured_twice(done, tmp_path, monkeypatch):
    folder, frame, _, results = done
    output = shutil.copytree(folder / "out", tmp_path / "out")
    monkeypatch.setattr(NamesTask, "measure", None)
    assert run(folder, output=output)[0].equals(frame)
    key = results["exact", "held_out.held_out"]["key"]
    (output / "predictions" / f"{key}.jsonl.gz").unlink()
    measurement = read_measurement(folder / "all.cfg", {"measure.only": "exact", "tasks.corpora.folder": ""})
    with pytest.raises(TypeError):
        measurement.run(output)
    # After an error, the list of the run before would not match the predictions.
    assert not (output / "measured.json").exists()
    for text in ("{}", "", "[]", '{"key": "", "identity": {}, "figures": [["acc", 1, "x", 3]]}'):
        (output / "cache" / f"{key}.json").write_text(text)
        with pytest.raises(ValueError, match=f"{key}.json holds no result"):
            measurement.run(output)


def test_what_changes_is_measured_again(folder, monkeypatch):
    asked, measure_names = [], NamesTask.measure
    monkeypatch.setattr(
        NamesTask, "measure", lambda task, system: asked.append(type(system).__name__) or measure_names(task, system)
    )
    given = {"systems.backoff.over": "tfidf", "tasks.corpora.protocols": "strict"}
    before = run(folder, "exact", "backoff", **given)[2]
    assert asked.count("ExactMatch") == 3 and asked.count("DictionaryBackoff") == 2
    asked.clear()
    srsly.write_jsonl(folder / "small" / "train.jsonl", TRAIN[2:])
    run(folder, "exact", "backoff", **given)
    # Exact match knows nothing of the training part.
    assert asked == ["DictionaryBackoff"]
    srsly.write_jsonl(folder / "small" / "train.jsonl", TRAIN)
    after = run(folder, "exact", "backoff", **given)[2]
    assert [entry["key"] for entry in after.values()] == [entry["key"] for entry in before.values()]
    monkeypatch.setattr(measure_module, "MEASUREMENT", 0)
    asked.clear()
    run(folder, "exact", **given)
    assert len(asked) == 3


def test_a_run_that_is_killed_goes_on(done, tmp_path, monkeypatch):
    folder, frame, _, _ = done
    measure_names, n = NamesTask.measure, iter(range(7))

    def stop(task, system):
        if next(n) == 6:
            raise KeyboardInterrupt
        return measure_names(task, system)

    monkeypatch.setattr(NamesTask, "measure", stop)
    measurement = read_measurement(folder / "all.cfg", {"measure.only": "exact,tfidf,encoder"})
    with pytest.raises(KeyboardInterrupt):
        measurement.run(tmp_path)
    monkeypatch.setattr(NamesTask, "measure", measure_names)
    again = measurement.run(tmp_path)
    assert again.equals(frame.filter(pl.col("system").is_in(["exact", "tfidf", "encoder"])))


def test_a_result_counted_by_concepts_is_not_taken_for_one_of_names(tmp_path):
    task = LinkingTask(["cold"], [["C1"]], ["cold"], ["C1"])
    for level in ("concept", "answer"):
        made = make_names_task(
            "a", "strict", LinkingTask(task.queries, task.gold, task.names, task.ids, level=level), Limits()
        )
        frame = measure({"exact": ExactMatch()}, {made.name: made}, tmp_path)
        assert ("f1" in frame["metric"]) == (level == "answer")
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_systems_without_files_are_listed_and_encoders_are_loaded_once(folder, monkeypatch):
    few = {"tasks.corpora.protocols": "strict"}
    frame, measured, _ = run(folder, "exact", "encoder", **{"systems.encoder.encoder": "a/b/c"}, **few)
    assert "a/b/c" in measured["missing"][1]["reason"] and frame["system"].unique().to_list() == ["exact"]
    loaded = []
    load = EncoderShim.load
    monkeypatch.setattr(EncoderShim, "load", lambda shim, name: loaded.append(name) or load(shim, name))
    run(folder, "encoder", output="other", **few)
    assert len(loaded) == 1


def test_frames_are_read_and_others_are_refused(tmp_path):
    rows = [("a", "t", "strict", "acc", rank, 0.5, 9, seed, "f") for rank in (1, None) for seed in (0, None)]
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    write_results(frame, tmp_path)
    assert read_results(tmp_path).equals(frame) and read_results(tmp_path / "results.parquet").equals(frame)
    with pytest.raises(FileNotFoundError, match="no results"):
        read_results(tmp_path / "no")
    frame.drop("n").write_parquet(tmp_path / "results.parquet")
    with pytest.raises(ValueError, match="other columns"):
        read_results(tmp_path)
    (tmp_path / "results.parquet").write_text("damaged")
    with pytest.raises(ValueError, match="not a table of results"):
        read_results(tmp_path)


def read(tmp_path, systems, **overrides):
    names = tmp_path / "names.json"
    LinkingTask(["a"], [["C1"]], ["a"], ["C1"]).to_disk(names)
    write_config(tmp_path, systems, names={"kind": "held_out", "files": str(names)})
    return read_measurement(tmp_path / "all.cfg", overrides)


EXACT = {"exact": {"kind": "exact"}}


def encoder(**settings):
    return {"a": {"kind": "encoder", **settings}}


@pytest.mark.parametrize(
    "systems, reason",
    [
        ({}, "has no system"),
        ({"a": {"kind": "exactly"}}, r"\[systems.a\].*'exactly'.*exact, tfidf"),
        ({"a": {"title": "A"}}, "kind = None"),
        ({"a": {"kind": "exact", "encoder": "x"}}, r"\[systems.a\].*encoder"),
        ({"a": {"kind": "backoff", "over": "a"}}, "'a' is not another system"),
        ({**EXACT, "b": {"kind": "tfidf", "title": "exact"}}, "called 'exact' as well"),
        ({"a_0": {"kind": "exact"}, **encoder(encoder="a-{seed}", seeds=[0])}, "a_0"),
        (encoder(similarity="l2"), "similarity"),
        (encoder(encoders="x=b,x=c"), "called 'x'"),
        (encoder(encoder="a-{seed}", seed=3), "needs `seeds`"),
        (encoder(encoder="a-{seed}", seeds=["0"]), "seeds"),
        (encoder(encoder="a-{seed}", seeds=[0, 0]), "distinct"),
        (encoder(encoder="a", seeds=[0, 1]), "{seed} in the path"),
        (encoder(encoder="a-{seed}", seeds=[0], group="a"), "replace `group` and `seed`"),
    ],
)
def test_malformed_systems_are_refused(tmp_path, systems, reason):
    with pytest.raises(ValueError, match=f"(?s)all.cfg.*{reason}"):
        read(tmp_path, systems)


def test_a_section_may_stand_for_several_systems(tmp_path):
    systems = {"a": {"kind": "biosyn", "model": "runs/{corpus}/seed-{seed}", "seeds": [3, 0]}, **EXACT}
    found = read(tmp_path, systems)
    assert list(found.systems) == ["a_3", "a_0", "exact"] and found.systems["a_3"].path == "runs/{corpus}/seed-3"
    system = found.systems["a_0"]
    assert (system.title, system.group, system.seed, system.kind) == ("a", "a", 0, "biosyn")
    assert list(read(tmp_path, systems, **{"measure.only": "a"}).systems) == ["a_3", "a_0"]
    found = read(tmp_path, encoder(encoders=",x=b/c,d/e"))
    assert list(found.systems) == ["minilm", "x", "d/e"] and found.systems["x"].path == "b/c"


@pytest.mark.parametrize(
    "overrides, reason",
    [
        ({"measure.only": "exact,b"}, "Unknown system b.*exact"),
        ({"tasks.other.x": 1}, r"\[tasks.other\].*kind = None"),
        ({"measure.max_nams": 1}, "max_nams"),
        ({"tasks.names.files": ""}, "nothing to measure on.*no section has its files"),
        ({"tasks.names.files": "gone.json"}, "nothing to measure on.*names: no gone.json"),
        ({"tasks.names.files": "a/names.json,b/names.json"}, "'names.held_out'.*rename"),
        ({"tasks.names": {"kind": "corpora", "folder": "x", "releases": "a"}}, "NAME=VALUE"),
    ],
)
def test_malformed_configs_are_refused(tmp_path, monkeypatch, overrides, reason):
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        LinkingTask(["a"], [["C1"]], ["a"], ["C1"]).to_disk(tmp_path / folder / "names.json")
    with pytest.raises(ValueError, match=reason):
        read(tmp_path, EXACT, **overrides)


def test_each_source_and_corpus_may_have_its_own_model(folder):
    sources = {n: "NEAR" if n < 8 else "FAR" for n in range(12)}
    names = {f"C{n:02d}": {source: [f"heart {n}", f"infarct {n}"]} for n, source in sources.items()}
    build(names).to_disk(folder / "names")
    with pytest.raises(ValueError, match="MISSING"):
        list(SourcesSettings(terminology=str(folder / "names"), sources=("MISSING",)).make("sources", Limits()))
    for seed, name in enumerate(("NEAR-none", "FAR-none", "none-folds")):
        make_encoder_folder(folder / name, seed=seed)
    paths = {"each": f"{folder}/{{source}}-{{corpus}}", "near": f"{folder}/NEAR-none"}
    systems = {name: {"kind": "encoder", "encoder": path} for name, path in paths.items()}
    sources = {"kind": "sources", "terminology": str(folder / "names")}
    write_config(folder, systems, sources=sources, corpora=list_corpora(folder))
    frame, measured, results = run(folder, **{"measure.max_queries": 3, "tasks.corpora.protocols": "strict"})
    assert {task for system, task in results if system == "each"} == {"NEAR.sources", "FAR.sources", "folds.strict"}
    lacking = [entry for entry in measured["missing"] if entry["system"] == "each"]
    assert [entry["task"] for entry in lacking] == ["small.strict"]
    assert "no model" in lacking[0]["reason"] and "none-small" in lacking[0]["reason"]
    assert results["each", "NEAR.sources"]["key"] == results["near", "NEAR.sources"]["key"]
    assert results["each", "FAR.sources"]["key"] != results["near", "FAR.sources"]["key"]
    assert set(frame.filter(pl.col("protocol") == "sources")["n"]) == {3}
    far = LinkingTask.from_disk(folder / "out" / "tasks" / "FAR.sources.json")
    assert set(far.ids) == {"C08", "C09", "C10", "C11"}


class LengthTask:
    """A new benchmark, whole: whether a system knows words of this length."""

    name, protocol, needs = "words.length", "length", frozenset({"encode"})

    def __init__(self, words):
        self.words = words

    def hash(self):
        return f"length {self.words}"

    def describe(self):
        return {"title": "Length of words", "counts": {"words": len(self.words)}}

    def measure(self, system):
        return Measured([Figure("known", None, float(system.encode(self.words)[1].mean()), len(self.words))])


class LengthSettings(TaskSettings):
    words: tuple[str, ...] = ("heart", "fever")

    def make(self, name, limits):
        return [LengthTask(self.words)]


class Reader(System):
    gives: ClassVar = frozenset({"encode"})
    identity: ClassVar = {"kind": "reader"}

    def encode(self, strings):
        return np.ones((len(strings), 2), np.float32), np.array([len(string) == 5 for string in strings])


def test_a_new_benchmark_is_a_class_with_settings(tmp_path, monkeypatch):
    monkeypatch.setitem(TASK_KINDS, "length", "lengths.LengthSettings")
    monkeypatch.setattr("training.evaluation.config.import_module", lambda name: __import__(__name__, fromlist=["x"]))
    write_config(tmp_path, {}, words={"kind": "length"})
    measurement = read_measurement(tmp_path / "all.cfg", needs_systems=False)
    measurement.systems = {"reader": Reader(), "exact": ExactMatch()}
    frame = measurement.run(tmp_path / "out")
    # A system that gives nothing of what the task needs is not measured on it.
    assert frame.select("system", "task", "metric", "value", "n").rows() == [
        ("reader", "words.length", "known", 1.0, 2)
    ]
    with pytest.raises(ValueError, match="None of the systems.*exact.*words.length"):
        measure({"exact": ExactMatch()}, measurement.tasks, tmp_path)


PREDICTION = {"mention": "a", "queries": ["a"], "gold": ["D1"], "fold": 0, "hits": {"acc_at_1": True}}
PREDICTION["candidates"] = [[{"ids": "D1", "name": "a", "score": 0.5}]]


BAD_LINES = {
    "no JSON": "{",
    "no object": "[]",
    "no gold": {key: value for key, value in PREDICTION.items() if key != "gold"},
    "no ids": {**PREDICTION, "candidates": [[{"ids": None, "name": "a", "score": 0.5}]]},
    "one query": {**PREDICTION, "queries": "a"},
    "no queries": {**PREDICTION, "queries": []},
    "more candidates": {**PREDICTION, "candidates": [*PREDICTION["candidates"], []]},
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_bad_predictions_are_refused_with_their_line(tmp_path, line):
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps(PREDICTION), line if isinstance(line, str) else json.dumps(line)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(ValueError, match="line 2, is not a prediction"):
        read_predictions(path)


def test_cut_predictions_are_refused(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps({**PREDICTION, "mention": np.random.default_rng(n).bytes(20).hex()}) for n in range(200)]
    path.write_bytes(gzip.compress("\n".join(lines).encode())[:-100])
    with pytest.raises(ValueError, match="is not a prediction"):
        read_predictions(path)
