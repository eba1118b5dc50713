"""Systems with a model for each fold: who is asked for what, and models that have seen test mentions."""

import json
import re
import shutil
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import srsly
from conftest import make_encoder_folder
from thinc.api import Config

from training.data.further_pairs import write_finetuning_pairs
from training.data.pairs import read_pairs
from training.data.run_folder import RunDescription, RunFolder
from training.engine.method import TrainingData
from training.evaluation.config import read_measurement
from training.evaluation.folds import ModelsOfFolds
from training.evaluation.systems.encoder import EncoderSystem
from training.sweep import check_data

NAMES = ["Heart attack", "Cold", "Liver failure", "Pain"]
# Test parts. A mention of each is in the training part of its own fold as well, and other folds train on all of it.
TESTS = [["cold", "acute heart"], ["cold", "acute liver", "chronic pain"], ["pain", "acute pain", "b12"]]
CORPORA = {
    "toy": {
        "mentions": "toy/fold{fold}.test.jsonl*",
        "folds": [0, 1, 2],
        "seen_by_fold": ["toy/fold{fold}.train.jsonl*", "toy/fold{fold}.validation.jsonl*"],
        "dictionary": "toy/names.tsv",
    },
    "plain": {"mentions": "toy/fold0.test.jsonl", "dictionary": "toy/names.tsv"},
}
BACKOFF = {"systems.backoff.kind": "backoff", "systems.backoff.over": "by_fold"}


def write_mentions(path, texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_jsonl(path, [{"mention": text, "ids": [str(len(text) % 4)]} for text in texts])
    return path


def write_corpus(folder, tests=TESTS):
    for fold, own in enumerate(tests):
        others = [text for place, texts in enumerate(tests) if place != fold for text in texts]
        write_mentions(folder / "toy" / f"fold{fold}.test.jsonl", own)
        write_mentions(folder / "toy" / f"fold{fold}.train.jsonl", [*others, own[0].upper()])
        write_mentions(folder / "toy" / f"fold{fold}.validation.jsonl", ["fever"])
    (folder / "toy" / "names.tsv").write_text("".join(f"{row}\t{name}\n" for row, name in enumerate(NAMES)))
    Config({"corpora": CORPORA}).to_disk(folder / "corpora.cfg")


def write_run(run, files, *, seed=0):
    """Write what a run of `train finetune` leaves, but for an encoder that was not trained."""
    data = write_finetuning_pairs(files, files[0].parent / "names.tsv", run / "pairs")
    assert data["counts"]["pairs"]
    paths = {"encoder": "", "pairs": str(run / "pairs"), "output": str(run)}
    description = RunDescription({"paths": paths}, {"sources": read_pairs(run / "pairs").files}, {}, {})
    RunFolder(run).description.write_text(json.dumps(asdict(description)))
    make_encoder_folder(run / "encoder", seed=seed)


def list_parts(folder, fold):
    return [folder / "toy" / f"fold{fold}.{part}.jsonl" for part in ("train", "validation")]


def list_tests(folder):
    return [folder / "toy" / f"fold{fold}.test.jsonl" for fold in range(3)]


@pytest.fixture
def suite(tmp_path):
    write_corpus(tmp_path)
    for fold in range(3):
        write_run(tmp_path / "runs" / f"toy-{fold}", list_parts(tmp_path, fold), seed=fold)
    path = f"{tmp_path}/runs/{{corpus}}-{{fold}}/encoder"
    systems = {"by_fold": {"kind": "encoder", "encoder": path, "tasks": ["toy.*"]}}
    corpora = {"kind": "corpora", "folder": str(tmp_path), "list": str(tmp_path / "corpora.cfg")}
    Config({"systems": systems, "tasks": {"corpora": corpora}}).to_disk(tmp_path / "systems.cfg")
    return tmp_path


def run(folder, **overrides):
    """Measure, and give the frame and `measured.json`."""
    frame = read_measurement(folder / "systems.cfg", overrides).run(folder / "out")
    return frame, json.loads((folder / "out" / "measured.json").read_text())


def test_each_fold_is_measured_with_its_own_model(suite, monkeypatch):
    asked = []
    search = EncoderSystem.search

    def spy(system, names, queries, k):
        asked.append((system.shim.fingerprint, list(queries)))
        return search(system, names, queries, k)

    monkeypatch.setattr(EncoderSystem, "search", spy)
    frame, measured = run(suite)
    (entry,) = measured["results"]
    systems = [EncoderSystem(encoder=str(suite / f"runs/toy-{n}/encoder")) for n in range(3)]
    assert len({system.shim.fingerprint for system in systems}) == 3
    # No model sees a mention of another fold, not even to look for it.
    assert asked == [(system.shim.fingerprint, texts) for system, texts in zip(systems, TESTS, strict=True)]
    identity = measured["systems"]["by_fold"]["identity"]
    assert identity["kind"] == "folds" and len(identity["folds"]) == 3
    means = []
    for system, texts in zip(systems, TESTS, strict=True):
        vectors, names = system.shim.encode(texts), system.shim.encode(NAMES)
        best = (vectors @ names.T).argmax(axis=1)
        means.append(np.mean([nearest == len(text) % 4 for nearest, text in zip(best, texts, strict=True)]))
    (figure,) = frame.filter(pl.col("metric") == "acc", pl.col("rank") == 1).rows(named=True)
    assert figure["value"] == pytest.approx(np.mean(means)) and figure["n"] == 8
    assert run(suite)[1]["results"][0]["key"] == entry["key"] and len(asked) == 3
    # Another model of one fold is another system.
    shutil.rmtree(suite / "runs" / "toy-1" / "encoder")
    make_encoder_folder(suite / "runs" / "toy-1" / "encoder", seed=7)
    assert run(suite)[1]["results"][0]["key"] != entry["key"]


def retrain(folder, files):
    """Train the model of fold 1 on other files."""
    shutil.rmtree(folder / "runs" / "toy-1")
    write_run(folder / "runs" / "toy-1", files)


def forget_pairs(folder):
    """Say that fold 1's model was trained on files of fold 0 which are gone, by their hashes, as for BioSyn."""
    path = RunFolder(folder / "runs" / "toy-1").description
    data = json.loads(path.read_text())
    manifest = json.loads((folder / "runs" / "toy-0" / "pairs" / "pairs.json").read_text())
    data["data"]["sources"] = {"mentions": manifest["sources"]["mentions"]}
    data["settings"]["paths"] = {"mentions": "gone.jsonl", "encoder": "gone"}
    path.write_text(json.dumps(data))


def share_model(folder):
    return {"systems.by_fold.encoder": str(folder / "runs" / "toy-1" / "encoder")}


LEAKS = [
    (lambda folder: retrain(folder, list_parts(folder, 0)), "fold 1 of toy.*on fold0.train.jsonl"),
    (lambda folder: retrain(folder, [*list_parts(folder, 1), list_tests(folder)[1]]), "fold 1.*on fold1.test.jsonl"),
    (forget_pairs, "fold 1.*on fold0.train.jsonl"),
    (share_model, "fold 0 of toy.*on fold1.train.jsonl"),
    (lambda folder: share_model(folder) | BACKOFF | {"measure.only": "backoff"}, "fold 0 of toy.*on fold1.train"),
]


@pytest.mark.parametrize("leak, message", LEAKS)
def test_models_that_have_seen_test_mentions_are_refused(suite, leak, message, monkeypatch):
    overrides = leak(suite) or {}
    monkeypatch.setattr(EncoderSystem, "search", None)
    with pytest.raises(ValueError, match=f"can't be measured.*{message}"):
        run(suite, **overrides)
    assert not (suite / "out").exists()


def test_what_is_missing_is_named(suite):
    def explain():
        frame, measured = run(suite)
        assert not len(frame) and len(measured["missing"]) == 1
        return measured["missing"][0]["reason"]

    kept = suite / "kept"
    for path, message in [
        ("runs/toy-2/encoder", "no model.*runs/toy-2/encoder"),
        ("toy/fold2.train.jsonl", r"fold by fold.*no .*toy/fold2.train.jsonl\*"),
        # Without its record, nothing says what a model was trained on.
        ("runs/toy-1/settings.json", "nothing says.*runs/toy-1/encoder"),
    ]:
        shutil.move(suite / path, kept)
        assert re.search(message, explain()), (path, explain())
        shutil.move(kept, suite / path)
    assert len(run(suite)[0])
    # Mentions of a file of other bytes, about which the folds say nothing.
    shutil.rmtree(suite / "runs" / "toy-1")
    write_run(suite / "runs" / "toy-1", [write_mentions(suite / "toy" / "mine.jsonl", ["ACUTE LIVER"])])
    assert "nothing says" in explain()


def test_the_lowest_recall_of_all_folds_is_told():
    models = ModelsOfFolds([], None)
    models._searches = [{"search": "scann", "recall": recall} for recall in (0.99, 0.9, 0.95)]
    assert models.describe_search() == {"search": "scann", "recall": 0.9}


def test_models_of_folds_need_folds(suite):
    everything = {"systems.by_fold.tasks": ["*"]}
    frame, measured = run(suite, **everything)
    assert set(frame["task"]) == {"toy.strict"} and "`folds`" in measured["missing"][0]["reason"]
    with pytest.raises(ValueError, match=r"systems\.backoff.*model for each fold"):
        run(suite, **everything, **BACKOFF)


def test_runs_of_a_sweep_are_refused_before_they_learn_from_another_fold(suite):
    task = read_measurement(suite / "systems.cfg").tasks["toy.strict"]
    data = TrainingData("", {"sources": read_pairs(suite / "runs" / "toy-0" / "pairs").files}, "", ())
    settings = SimpleNamespace(paths=SimpleNamespace(output="out/a"))
    with pytest.raises(ValueError, match=r"out/a can't be measured on fold 1 of toy.*fold0.train.jsonl"):
        check_data(settings, data, {"toy.strict": task})
