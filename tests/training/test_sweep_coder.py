"""Sweeps of CODER and relations in sweeps: what is trained, refused and measured, and that it is measured once."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import srsly
from training.evaluation.probes.relation_classification import FEATURES, classify_features
from training.evaluation.probes.relation_data import RelationChoice, read_relations
from training.evaluation.probes.relation_task import RelationTask
from training.evaluation.side_by_side import format_scores
from typer.testing import CliRunner

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.cli import app
from training.data.run_folder import RunReport
from training.data.task import LinkingTask
from training.data.triples import index_triples, save_triples
from training.evaluation.measure import ResultStore, measure_encoder
from training.evaluation.systems.encoder import EncoderSystem
from training.sweep import run_sweep
from training.sweep_settings import read_sweep

ROOT = Path(__file__).parents[2]
# Of 40 concepts 30 are trained on.
N, N_SEEN = 40, 30
ROWS = [(f"C{h:02}", f"R{h % 2}{t % 2}", f"C{t:02}") for h in range(N) for t in range(h + 1, N)]
QUICK = replace(FEATURES, epochs=2)
SWEEP = """
[sweep]
config = "run.cfg"
seeds = [0, 1]
settings = {"batch.max_steps": 3, "optimizer.warmup_steps": 1}

[variants]
diagonal = {"loss.relations": "diagonal"}
without = {"loss.relations": "none"}
"""
RUN = """
[paths]
encoder = "{encoder}"
terminology = "{folder}/seen"
triples = "{folder}/triples"
output = "unused"

[optimizer]
learning_rate = 1e-3

[batch]
triplets = 8
repetitions = 2
accumulation = 1

[run]
method = "coder"
precision = "fp32"
checkpoint_steps = 2
"""


def make_names(numbers):
    builder = TerminologyBuilder()
    for number in numbers:
        for form in ("{} {}", "acute {1} {0}"):
            builder.add_name(f"C{number:02}", form.format("heart liver lung".split()[number % 3], number))
    return builder.build()


def write_triples(folder, rows):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    save_triples(index_triples(rows), folder, {})
    return folder


@pytest.fixture
def config(tmp_path, encoder_folder):
    make_names(range(N)).to_disk(tmp_path / "names")
    make_names(range(N_SEEN)).to_disk(tmp_path / "seen")
    write_triples(tmp_path / "triples", ROWS)
    (tmp_path / "run.cfg").write_text(RUN.format(encoder=encoder_folder, folder=tmp_path))
    (tmp_path / "sweep.cfg").write_text(SWEEP)
    return tmp_path / "sweep.cfg"


@pytest.fixture
def corpora():
    return {"parts": LinkingTask(["heart one", "lung 2"], [["P1"], ["P2"]], ["heart", "lung 5"], ["P1", "P2"])}


def make_relation_tasks(folder, seen="seen"):
    names = Terminology.from_disk(folder / "names")
    unseen = read_relations(folder / "triples", names, seen=Terminology.from_disk(folder / seen))
    everything = RelationTask(read_relations(folder / "triples", names), names, settings=QUICK)
    return {"relations": everything, "unseen relations": RelationTask(unseen, names, is_unseen=True, settings=QUICK)}


def test_a_sweep_of_coder_trains_measures_and_goes_on(config, corpora, tmp_path, monkeypatch):
    sweep, tasks = read_sweep(config, tmp_path / "out"), make_relation_tasks(tmp_path)
    table = run_sweep(sweep, tmp_path / "out", held_out={}, corpora=corpora, relations=tasks)
    assert table.splitlines()[0] == "|  | parts acc@1/@5 | relations | unseen relations |"
    scores = table.split("\n\n")[0].splitlines()
    assert [line.split("|")[1].strip() for line in scores[2:]] == [
        "before training",
        "diagonal",
        "without",
    ]
    records = srsly.read_json(tmp_path / "out" / "sweep.json")["runs"]
    assert [(record["variant"], record["seed"]) for record in records] == [
        ("diagonal", 0),
        ("without", 0),
        ("diagonal", 1),
        ("without", 1),
    ]
    accuracies = {}
    for record in records:
        kind = record["report"]["settings"]["loss"]["relations"]
        assert kind == {"diagonal": "diagonal", "without": "none"}[record["variant"]]
        assert record["report"]["training"]["steps"] == 3
        encoder = EncoderShim({}, "auto")
        encoder.load(str(tmp_path / "out" / record["variant"] / f"seed-{record['seed']}" / "encoder"))
        for name, task in tasks.items():
            direct = classify_features(EncoderSystem(encoder), task.terminology, task.data, QUICK)
            assert record["scores"][name]["accuracy"] == pytest.approx(direct["accuracy"], abs=1e-12)
            accuracies.setdefault((record["variant"], name), []).append(100 * direct["accuracy"])
    for line in scores[3:]:
        label, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for cell, name in zip(cells, tasks, strict=True):
            assert cell.startswith(f"{sum(accuracies[label, name]) / 2:.1f}±") and "/" not in cell
    # All is done: nothing is trained or measured again, and the table is the same.
    for name in (
        "sweep.train",
        "evaluation.measure.find",
        "evaluation.probes.relation_task.classify_features",
    ):
        monkeypatch.setattr(f"training.{name}", None)
    assert run_sweep(sweep, tmp_path / "out", held_out={}, corpora=corpora, relations=tasks) == table
    assert (tmp_path / "out" / "sweep.md").read_text() == table


def test_runs_of_other_data_or_settings_are_taken_again(config, corpora, tmp_path, monkeypatch):
    run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    taken = []

    def train(settings):
        taken.append((Path(settings.paths.output).parent.name, settings.run.seed))
        return RunReport({}, {}, {}, {}, training={"ended": "interrupted"})

    monkeypatch.setattr("training.sweep.train", train)

    def go_on(text=SWEEP):
        config.write_text(text)
        taken.clear()
        run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
        return taken

    assert go_on() == []
    assert go_on(SWEEP.replace("[0, 1]", "[1, 2]")) == [("diagonal", 2)]
    assert go_on(SWEEP.replace('"batch.max_steps": 3', '"batch.max_steps": 4')) == [("diagonal", 0)]
    assert go_on(SWEEP.replace('"none"', '"none", "terms.alpha": 3.0')) == [("without", 0)]
    write_triples(tmp_path / "triples", ROWS[:-1])
    assert go_on() == [("diagonal", 0)]
    write_triples(tmp_path / "triples", ROWS)
    assert go_on() == []
    shutil.rmtree(tmp_path / "seen")
    make_names(range(N_SEEN + 1)).to_disk(tmp_path / "seen")
    assert go_on() == [("diagonal", 0)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('config = "run.cfg"', 'config = "run.cfg"\nmethod = "coder"', "E830.*sweep.cfg.*'coder'.*run.cfg"),
        ('"loss.relations": "none"', '"run.method": "sapbert"', "E740.*run.method"),
        ('"loss.relations": "none"', '"objective.miner": "off"', "objective.*no such setting"),
        ('"loss.relations": "none"', '"paths.pairs": "pairs"', "pairs.*no such setting"),
        ('"loss.relations": "none"', '"loss.relations": "diagonal"', "E677.*diagonal.*without"),
        ('"loss.relations": "none"', '"batch.max_minutes": 0.0', "E677.*diagonal.*without"),
        ('"loss.relations": "none"', '"run.seed": 3', "E740.*run.seed"),
    ],
)
def test_sweeps_without_meaning_are_refused(old, new, message, config, tmp_path):
    config.write_text(SWEEP.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_sweep(config, tmp_path / "out")


@pytest.mark.parametrize("change", ['"paths.triples": "other"', '"paths.terminology": "other"', '"batch.max_steps": 9'])
def test_data_and_lengths_can_be_compared(change, config, tmp_path):
    config.write_text(SWEEP.replace('"loss.relations": "none"', change))
    assert len(read_sweep(config, tmp_path / "out").variants) == 2


def test_the_ablation_that_comes_with_it_differs_in_relations_only():
    variants = read_sweep(ROOT / "training" / "sweeps" / "coder.cfg", "out").variants
    kinds = {name: runs[0].loss.relations for name, runs in variants.items()}
    assert kinds == {
        "full": "full",
        "without_relations": "none",
        "without_relations_as_long": "none",
        "diagonal": "diagonal",
        "translations": "transe",
    }
    assert all(list(runs) == [0, 1, 2] for runs in variants.values())
    steps = {name: runs[0].batch.max_steps for name, runs in variants.items()}
    assert steps.pop("without_relations_as_long") == 400 and set(steps.values()) == {250}
    for runs in variants.values():
        assert runs[1].batch.repetitions == 2 and runs[1].batch.label_balance == 1.0
        assert runs[1].optimizer.learning_rate == variants["full"][1].optimizer.learning_rate


def test_what_is_measured_as_unknown_must_not_be_learned(config, corpora, tmp_path):
    def run(**tasks):
        run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", **{"held_out": {}, "corpora": {}, **tasks})

    with pytest.raises(ValueError, match="E640.*1 concepts.*seen.*C03"):
        run(held_out={"held_out": LinkingTask(["heart 3"], [["C03"], ["C35"]], ["heart"], ["C03"])})
    # C07 has names, but no triple: it is not learned from.
    write_triples(tmp_path / "triples", [row for row in ROWS if "C07" not in row])
    config.write_text(SWEEP.replace('"batch.max_steps": 3', '"batch.max_steps": 1').replace("[0, 1]", "[0]"))
    run(held_out={"held_out": LinkingTask(["heart 7"], [["C07"]], ["heart"], ["C07"])})
    # Of half of the concepts only it is known that they were trained on.
    make_names(range(N_SEEN // 2)).to_disk(tmp_path / "half")
    tasks = make_relation_tasks(tmp_path, seen="half")
    wrong = [row for row in ROWS if "C07" not in row and int(row[0][1:]) < N_SEEN and 15 <= int(row[2][1:]) < N_SEEN]
    n = len(tasks["unseen relations"].data.labels)
    with pytest.raises(ValueError, match=f"E832.* {len(wrong)} of {n} triples"):
        run(relations=tasks)
    with pytest.raises(ValueError, match="E745.*'relations'"):
        run(corpora={"relations": corpora["parts"]}, relations={"relations": tasks["relations"]})


def test_unseen_triples_have_a_concept_without_names_in_training(config, tmp_path):
    names, seen = (Terminology.from_disk(tmp_path / name) for name in ("names", "seen"))
    # Inverse labels are found among all triples, whatever was seen of them.
    rows = [*ROWS, *((tail, "back", head) for head, label, tail in ROWS if label == "R00"), ("C00", "rare", "C99")]
    folder = write_triples(tmp_path / "more", rows)
    data = read_relations(folder, names, RelationChoice(min_triples=2), seen=seen)
    known = {f"C{number:02}" for number in range(N_SEEN)}
    expected = {(h, label, t) for h, label, t in ROWS if not (h in known and t in known)}
    triples = zip(data.heads, data.labels, data.tails, strict=True)
    assert {(data.concepts[h], data.names[label], data.concepts[t]) for h, label, t in triples} == expected
    assert len(data.labels) == len(expected)
    assert data.report["left_out"]["seen"] == len(ROWS) - len(expected) == N_SEEN * (N_SEEN - 1) // 2
    assert data.report["seen"] == seen.fingerprint and data.report["inverse_of"] == {"back": "R00"}
    everything = read_relations(folder, names, RelationChoice(min_triples=2))
    assert "seen" not in everything.report["left_out"] and everything.hash() != data.hash()
    with pytest.raises(ValueError, match="E773.*'seen': 780"):
        read_relations(folder, names, RelationChoice(min_triples=2), seen=names)


def test_the_table_has_one_figure_for_relations():
    def scores(at_1, accuracy):
        return {"corpus": {"acc_at_1": at_1, "acc_at_5": 0.75}, "relations": {"accuracy": accuracy, "macro_f1": 0.1}}

    table = format_scores({"raw": [scores(0.5, 0.5)], "new": [scores(0.5, 0.7), scores(0.5, 0.8)]}, reference="raw")
    assert table.splitlines()[2:] == [
        "| raw | 50.0/75.0 | 50.0 |",
        "| new | 50.0±0.0/75.0±0.0 (+0.0/+0.0) | 75.0±7.1 (+25.0) |",
    ]


def test_a_task_is_measured_again_if_anything_that_decides_has_changed(config, encoder_folder, tmp_path, monkeypatch):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    task = make_relation_tasks(tmp_path)["relations"]
    shutil.copytree(tmp_path / "names", tmp_path / "same")
    renamed = make_names(range(N + 1))
    tasks = [task, replace(task, terminology=Terminology.from_disk(tmp_path / "same"))]
    tasks += [replace(task, settings=FEATURES), replace(task, terminology=renamed)]
    measured = []
    monkeypatch.setattr(RelationTask, "measure", lambda self, _: measured.append(self) or {"accuracy": 0.5})
    for changed in tasks:
        measure_encoder(encoder, {"relations": changed}, ResultStore(tmp_path / "kept"))
    assert [tasks.index(found) for found in measured] == [0, 2, 3]


def test_the_command_measures_relations_and_needs_their_names(config, tmp_path):
    names, seen, triples = (str(tmp_path / name) for name in ("names", "seen", "triples"))
    common = ["sweep", str(config), str(tmp_path / "out")]
    config.write_text(SWEEP.replace("[0, 1]", "[0]"))
    arguments = ["--relations", triples, "--relation-terminology", names, "--unseen", seen, "--batch.max_steps", "2"]
    result = CliRunner().invoke(app, [*common, *arguments])
    assert not result.exit_code, result.exception
    assert "relations: 780 triples with 4 labels" in result.output and "435 seen" in result.output
    assert "unseen relations: 345 triples with 4 labels" in result.output
    table = (tmp_path / "out" / "sweep.md").read_text()
    assert table.startswith("|  | relations | unseen relations |") and "| without |" in table
    relations = ["relations", str(tmp_path / "out" / "without" / "seed-0" / "encoder"), names, triples]
    result = CliRunner().invoke(app, [*relations, str(tmp_path / "measured"), "--unseen", seen])
    assert not result.exit_code, result.exception
    (result,) = srsly.read_json(tmp_path / "measured" / "relations.json")["results"]
    direct = result["figures"]
    record = srsly.read_json(tmp_path / "out" / "sweep.json")["runs"][1]
    assert record["scores"]["unseen relations"]["accuracy"] == pytest.approx(direct["accuracy"], abs=1e-12)
    for given, message in (
        (["--relations", triples], "E831.*--relations is given without --relation-terminology"),
        (["--relation-terminology", names], "E831.*--relation-terminology is given without --relations"),
        (["--unseen", seen], "E831.*--unseen is given without --relations and --relation-terminology"),
    ):
        with pytest.raises(ValueError, match=message):
            CliRunner().invoke(app, [*common, *given], catch_exceptions=False)
