"""Systems with a model for each fold: who is asked for what, and models that have seen test mentions."""

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from conftest import make_encoder_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from training.evaluation.evaluate import evaluate
from training.evaluation.linking.accuracy import find, judge
from training.evaluation.systems.folds import check_folds
from training.evaluation.systems.specification import read_systems
from typer.testing import CliRunner

from training.cli import app
from training.data.further_pairs import write_finetuning_pairs
from training.data.run_folder import RunDescription, RunFolder
from training.encoders.bases import EncoderChoice, load_base
from training.evaluation.corpora.listing import read_corpora
from training.evaluation.systems.encoder import EncoderSystem
from training.evaluation.tasks import make_tasks

CONFIGS = Path(__file__).parents[4] / "training" / "configs"
NAMES = ["Heart attack", "Cold", "Liver failure", "Pain"]
# Test parts. A mention of each is in the training part of its own fold as well, and other folds train on all of it.
TESTS = [["cold", "acute heart"], ["cold", "acute liver", "chronic pain"], ["pain", "acute pain", "b12"]]
CORPORA = """
[corpora]

[corpora.toy]
mentions = "toy/fold{fold}.test.jsonl*"
folds = [0, 1, 2]
seen_by_fold = ["toy/fold{fold}.train.jsonl*", "toy/fold{fold}.validation.jsonl*"]
dictionary = "toy/names.tsv"

[corpora.plain]
mentions = "toy/fold0.test.jsonl"
dictionary = "toy/names.tsv"
"""
SYSTEMS = """
[systems]

[systems.by_fold]
kind = "encoder"
encoder = {path}
tasks = ["toy.*"]
"""


def write_mentions(path, texts):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"mention": text, "ids": [str(len(text) % 4)]}) + "\n" for text in texts))
    return path


def write_corpus(folder, tests=TESTS):
    for fold, own in enumerate(tests):
        others = [text for place, texts in enumerate(tests) if place != fold for text in texts]
        write_mentions(folder / "toy" / f"fold{fold}.test.jsonl", own)
        write_mentions(folder / "toy" / f"fold{fold}.train.jsonl", [*others, own[0].upper()])
        write_mentions(folder / "toy" / f"fold{fold}.validation.jsonl", ["fever"])
    (folder / "toy" / "names.tsv").write_text("".join(f"{row}\t{name}\n" for row, name in enumerate(NAMES)))
    (folder / "corpora.cfg").write_text(CORPORA)


def write_run(run, files, *, seed=0, base="", encoder=True):
    """Write what a run of `train finetune` leaves, but for an encoder that was not trained."""
    data = write_finetuning_pairs(files, files[0].parent / "names.tsv", run / "pairs")
    assert data["counts"]["pairs"]
    sha256 = json.loads((run / "pairs" / "pairs.json").read_text())["sha256"]
    paths = {"encoder": str(base), "pairs": str(run / "pairs"), "output": str(run)}
    description = RunDescription({"paths": paths}, {"sha256": sha256}, {}, {})
    RunFolder(run).description.write_text(json.dumps(asdict(description)))
    if encoder:
        make_encoder_folder(run / "encoder", seed=seed)


def list_parts(folder, fold):
    return [folder / "toy" / f"fold{fold}.{part}.jsonl" for part in ("train", "validation")]


@pytest.fixture
def suite(tmp_path):
    write_corpus(tmp_path)
    for fold in range(3):
        write_run(tmp_path / "runs" / f"toy-{fold}", list_parts(tmp_path, fold), seed=fold)
    (tmp_path / "systems.cfg").write_text(
        SYSTEMS.format(path=json.dumps(f"{tmp_path}/runs/{{corpus}}-{{fold}}/encoder"))
    )
    return tmp_path


def run(folder, **changed):
    tasks = make_tasks(read_corpora(folder / "corpora.cfg", folder)[0], {})
    return evaluate(read_systems(folder / "systems.cfg"), tasks, folder / "out", **changed)


def change_systems(folder, before, after):
    path = folder / "systems.cfg"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def test_each_fold_is_measured_with_its_own_model(suite, monkeypatch):
    asked = []
    search = EncoderSystem.search

    def spy(system, names, queries, k):
        asked.append((system.encoder.fingerprint, list(queries)))
        return search(system, names, queries, k)

    monkeypatch.setattr(EncoderSystem, "search", spy)
    (row,) = run(suite).rows
    systems = [EncoderSystem(load_base(str(suite / f"runs/toy-{n}/encoder"), EncoderChoice())) for n in range(3)]
    assert len({system.encoder.fingerprint for system in systems}) == 3
    # No model sees a mention of another fold, not even to look for it.
    assert asked == [(system.encoder.fingerprint, texts) for system, texts in zip(systems, TESTS, strict=True)]
    assert row.identity["kind"] == "folds" and len(row.identity["folds"]) == 3 and row.search["similarity"] == "cosine"
    means = []
    for system, texts in zip(systems, TESTS, strict=True):
        vectors, names = system.encoder.encode(texts), system.encoder.encode(NAMES)
        best = (vectors @ names.T).argmax(axis=1)
        means.append(np.mean([nearest == len(text) % 4 for nearest, text in zip(best, texts, strict=True)]))
    assert row.figures["acc_at_1"] == pytest.approx(np.mean(means)) and row.figures["mentions"] == 8
    assert run(suite).rows[0].key == row.key and len(asked) == 3
    # Another model of one fold is another system.
    shutil.rmtree(suite / "runs" / "toy-1" / "encoder")
    make_encoder_folder(suite / "runs" / "toy-1" / "encoder", seed=7)
    assert run(suite).rows[0].key != row.key


def test_models_of_folds_find_what_one_model_finds(suite):
    """With the same encoder for each fold, the folds together are what one search finds."""
    for fold in range(1, 3):
        shutil.rmtree(suite / "runs" / f"toy-{fold}" / "encoder")
        shutil.copytree(suite / "runs" / "toy-0" / "encoder", suite / "runs" / f"toy-{fold}" / "encoder")
    (row,) = run(suite).rows
    task = make_tasks(read_corpora(suite / "corpora.cfg", suite)[0], {})["toy.strict"].linking
    one = EncoderSystem(load_base(str(suite / "runs/toy-0/encoder"), EncoderChoice(max_length=None)))
    means = judge(task, find(one, task)).means()
    assert {name: row.figures[name] for name in means} == pytest.approx(means)


def leak_files(folder):
    """Fold 1's model was trained on fold 0's parts."""
    shutil.rmtree(folder / "runs" / "toy-1")
    write_run(folder / "runs" / "toy-1", list_parts(folder, 0))
    return "fold 1 of toy.*toy-1.*on fold0.train.jsonl"


def leak_test_part(folder):
    shutil.rmtree(folder / "runs" / "toy-1")
    write_run(folder / "runs" / "toy-1", [*list_parts(folder, 1), folder / "toy" / "fold1.test.jsonl"])
    return "fold 1.*on fold1.test.jsonl"


def leak_other_file(folder):
    """Mentions of the test part, in a file of another name and other bytes."""
    shutil.rmtree(folder / "runs" / "toy-1")
    mine = write_mentions(folder / "toy" / "mine.jsonl", ["Cold", "ACUTE LIVER"])
    write_run(folder / "runs" / "toy-1", [mine])
    return "fold 1.*on 1 of the 2 mentions that only the test part has, such as 'acute liver'"


def leak_by_base(folder):
    """Training went on from an encoder that was trained on another fold."""
    write_run(folder / "runs" / "first", list_parts(folder, 0))
    shutil.rmtree(folder / "runs" / "toy-1")
    write_run(folder / "runs" / "toy-1", list_parts(folder, 1), base=folder / "runs" / "first" / "encoder")
    return "fold 1.*first.*on fold0.train.jsonl"


def leak_without_pairs(folder):
    """The files that a BioSyn run was trained on, which are gone, by their hashes."""
    path = RunFolder(folder / "runs" / "toy-1").description
    data = json.loads(path.read_text())
    manifest = json.loads((folder / "runs" / "toy-0" / "pairs" / "pairs.json").read_text())
    data["data"]["sources"] = {"mentions": manifest["sources"]["mentions"]}
    data["settings"]["paths"] = {"mentions": "gone.jsonl", "encoder": "gone"}
    path.write_text(json.dumps(data))
    return "fold 1.*on fold0.train.jsonl"


def leak_of_one_model(folder):
    """One model for all folds."""
    change_systems(folder, "{corpus}-{fold}", "toy-1")
    return "fold 0 of toy.*on fold1.train.jsonl"


def leak_under_backoff(folder):
    leak_of_one_model(folder)
    with (folder / "systems.cfg").open("a") as file:
        file.write('\n[systems.backoff]\nkind = "backoff"\nover = "by_fold"\ntasks = ["toy.*"]\n')
    return "fold 0 of toy.*on fold1.train.jsonl"


LEAKS = [
    leak_files,
    leak_test_part,
    leak_other_file,
    leak_by_base,
    leak_without_pairs,
    leak_of_one_model,
    leak_under_backoff,
]


def test_encoders_side_by_side_are_refused_as_well(suite):
    encoder = str(suite / "runs" / "toy-1" / "encoder")
    arguments = ["measure", encoder, str(suite / "out"), "--benchmarks", str(suite)]
    result = CliRunner().invoke(app, [*arguments, "--corpora", str(suite / "corpora.cfg")])
    assert "E759" in str(result.exception) and "fold 0 of toy" in str(result.exception)


@pytest.mark.parametrize("by_base", [False, True])
def test_sweeps_refuse_runs_before_they_train(suite, by_base):
    """A sweep's runs would learn from fold 0, or start from an encoder that has, and be asked for all folds."""
    trained, started = (suite / "runs" / "toy-0" / name for name in ("pairs", "encoder"))
    make_encoder_folder(suite / "plain")
    write_finetuning_pairs(
        [write_mentions(suite / "toy" / "mine.jsonl", ["fever"])], suite / "toy" / "names.tsv", suite / "mine"
    )
    pairs, encoder = (suite / "mine", started) if by_base else (trained, suite / "plain")
    config = f'[sweep]\nconfig = "{CONFIGS}/finetune.cfg"\nseeds = [0]\n\n[variants]\na = {{}}\n'
    (suite / "sweep.cfg").write_text(config)
    files = ["--benchmarks", str(suite), "--corpora", str(suite / "corpora.cfg")]
    paths = ["--paths.pairs", str(pairs), "--paths.encoder", str(encoder)]
    result = CliRunner().invoke(app, ["sweep", str(suite / "sweep.cfg"), str(suite / "out"), *files, *paths])
    message = str(result.exception)
    assert "E759" in message and "fold 1 of toy" in message and "on fold0.train.jsonl" in message
    assert ("toy-0" if by_base else "out/a") in message and not (suite / "out").exists()


@pytest.mark.parametrize("leak", LEAKS)
def test_models_that_have_seen_test_mentions_are_refused(suite, leak, monkeypatch):
    message = leak(suite)
    monkeypatch.setattr(EncoderSystem, "search", None)
    with pytest.raises(ValueError, match=f"(?s)E759.*{message}"):
        run(suite, only=["backoff"] if leak is leak_under_backoff else None)
    assert not (suite / "out").exists()


def test_what_is_missing_is_named(suite):
    def explain():
        results = run(suite)
        assert not results.rows and len(results.missing) == 1
        return results.missing[0].reason

    kept = suite / "kept"
    for path, message in [
        ("runs/toy-2/encoder", "E752.*runs/toy-2/encoder"),
        ("toy/fold2.train.jsonl", r"E754.*no .*toy/fold2.train.jsonl\*"),
        # Without its record, nothing says what a model was trained on.
        ("runs/toy-1/settings.json", "E754.*nothing says.*runs/toy-1/encoder"),
        ("runs/toy-1/pairs", "E754.*nothing says.*runs/toy-1/encoder"),
    ]:
        shutil.move(suite / path, kept)
        assert re.search(message, explain()), (path, explain())
        shutil.move(kept, suite / path)
    assert run(suite).rows
    # Pairs that were made again, of other mentions.
    write_finetuning_pairs(list_parts(suite, 2), suite / "toy" / "names.tsv", suite / "runs" / "toy-1" / "pairs")
    assert "E754" in explain()


def test_all_folds_have_to_be_there(suite):
    (suite / "toy" / "fold1.test.jsonl").unlink()
    found, missing = read_corpora(suite / "corpora.cfg", suite)
    assert list(found) == ["plain"] and missing["toy"][1] == "no toy/fold1.test.jsonl*"
    for fold in (0, 2):
        (suite / "toy" / f"fold{fold}.test.jsonl").unlink()
    assert read_corpora(suite / "corpora.cfg", suite)[1]["toy"][1] == "no toy/fold{fold}.test.jsonl*"


def test_models_of_folds_need_folds(suite):
    change_systems(suite, '"toy.*"', '"*"')
    results = run(suite)
    assert [row.task for row in results.rows] == ["toy.strict"]
    assert "E754" in results.missing[0].reason and "`folds`" in results.missing[0].reason
    with (suite / "systems.cfg").open("a") as file:
        file.write('\n[systems.backoff]\nkind = "backoff"\nover = "by_fold"\n')
    with pytest.raises(ValueError, match=r"(?s)E751.*systems\.backoff.*model for each fold"):
        read_systems(suite / "systems.cfg")


@pytest.mark.parametrize(
    "before, after, reason",
    [
        ('"toy/fold{fold}.test.jsonl*"', '"toy/fold*.test.jsonl"', "no {fold} in"),
        ("folds = [0, 1, 2]\n", "", "give `folds`"),
        ("fold{fold}.test", "f*{fold}.t*", "the fold 0 has several files: fold0.test.jsonl, fold0.train.jsonl"),
    ],
)
def test_malformed_folds_are_refused(suite, before, after, reason):
    config = suite / "corpora.cfg"
    config.write_text(config.read_text().replace(before, after))
    with pytest.raises(ValueError, match=rf"(?s)E751.*corpora\.toy.*{reason}"):
        read_corpora(config, suite)


texts = st.lists(st.sampled_from(["cold", "Cold", "pain", "acute pain", "b12", "heart"]), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=2, max_size=3), texts)
def test_leaks_are_those_of_a_plain_loop(tmp_path_factory, tests, trained):
    folder = tmp_path_factory.mktemp("drawn")
    write_corpus(folder, [*tests, ["x"]][:3])
    run_folder, mine = folder / "run", write_mentions(folder / "toy" / "mine.jsonl", trained)
    # A file with the bytes of another fold's is that file.
    mine.write_text("\n" + mine.read_text())
    write_run(run_folder, [mine], encoder=False)
    (run_folder / "encoder").mkdir()
    corpus = read_corpora(folder / "corpora.cfg", folder)[0]["toy"]
    leaking = []
    for fold in range(3):

        def read(*parts, fold=fold):
            lines = [
                line for part in parts for line in (folder / f"toy/fold{fold}.{part}.jsonl").read_text().splitlines()
            ]
            return [json.loads(line)["mention"].lower() for line in lines]

        own = read("train", "validation")
        for text in read("test"):
            # A mention that is written like the only name of its concept gives no pair.
            if text not in own and text in [t.lower() for t in trained if t.lower() != NAMES[len(t) % 4].lower()]:
                leaking.append(fold)
    if not leaking:
        check_folds(str(run_folder / "encoder"), "toy", corpus, needs_record=True)
        return
    with pytest.raises(ValueError, match=f"E759.*fold {leaking[0]} "):
        check_folds(str(run_folder / "encoder"), "toy", corpus)
