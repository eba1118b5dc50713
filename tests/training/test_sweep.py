"""Sweeps: what is compared, what is run again, and what the table says."""

from pathlib import Path

import polars as pl
import pytest
from case_tables import cases
from command_line import run_command
from pair_rows import build, make_names, save_triple_rows
from scipy.stats import ttest_rel
from thinc.api import Config

from training.cli.application import parse_numbers
from training.data.frame import SCHEMA, read_results
from training.data.pairs import write_pairs
from training.data.run_folder import RunFolder, RunReport
from training.data.task import LinkingTask
from training.engine.run import export_run
from training.engine.settings import read_config
from training.evaluation.config import Measurement, read_measurement
from training.evaluation.measure import measure
from training.evaluation.systems.encoder import EncoderSystem
from training.evaluation.tasks import NamesTask
from training.methods.registry import make_settings
from training.sweep import TableColumn, format_scores, format_tests, read_sweep, run_sweep

TRAINING = Path(__file__).parents[2] / "training"
SWEEP = """
[sweep]
config = "run.cfg"
seeds = [0, 1]
base_shares = [0.0, 0.5]
settings = {"batch.max_steps": 3, "batch.pairs": 8}

[variants]
slow = {"optimizer.learning_rate": 1e-4}
fast = {"optimizer.learning_rate": 1e-2}
"""


@pytest.fixture
def config(tmp_path, encoder_folder):
    forms = ("acute organ {}", "organ {} disease", "disorder of the organ {}")
    write_pairs(build(make_names(range(30), *forms)), tmp_path / "pairs")
    paths = {"encoder": str(encoder_folder), "pairs": str(tmp_path / "pairs"), "output": "unused"}
    run = {"method": "sapbert", "precision": "fp32", "checkpoint_steps": 2}
    Config({"paths": paths, "run": run}).to_disk(tmp_path / "run.cfg")
    (tmp_path / "sweep.cfg").write_text(SWEEP)
    return tmp_path / "sweep.cfg"


@pytest.fixture
def tasks():
    names = [f"part {number}" for number in range(9)]
    task = LinkingTask(["part one", "part 2"], [["P1"], ["P2"]], names, [f"P{n}" for n in range(9)])
    return make_measurement(task)


def make_measurement(task, protocol="strict"):
    named = NamesTask(f"parts.{protocol}", protocol, task)
    return Measurement(tasks={named.name: named})


def list_systems(table):
    return [line.split("|")[1].strip() for line in table.split("\n\n")[0].splitlines()[2:]]


def measure_folder(folder, tasks, output):
    return measure({"encoder": EncoderSystem(encoder=str(folder))}, tasks.tasks, output)["value"].to_list()


def test_a_sweep_runs_measures_and_goes_on(config, tasks, tmp_path, monkeypatch):
    sweep = read_sweep(config, tmp_path / "out", {"batch.chunk_names": 5})
    assert [list(runs) for runs in sweep.variants.values()] == [[0, 1], [0, 1]]
    table = run_sweep(sweep, tasks, tmp_path / "out")
    systems = ["before training", "slow", "slow, base share 0.5", "fast", "fast, base share 0.5"]
    assert list_systems(table) == systems
    assert "\n\nDifferences from slow" in table
    frame = read_results(tmp_path / "out")
    assert frame.select("system", "seed").unique().height == 9 and set(frame["system"]) == set(systems)
    for name in ("slow", "fast"):
        for seed in (0, 1):
            folder = RunFolder(tmp_path / "out" / name / f"seed-{seed}")
            settings = folder.read_report().settings
            assert settings["batch"]["chunk_names"] == 5 and settings["run"]["seed"] == seed
            kept = frame.filter(system=name, seed=seed)["value"].to_list()
            assert kept == pytest.approx(measure_folder(folder.encoder, tasks, tmp_path / "again"), abs=1e-6)
    # All is done: nothing is trained or measured again, and the table is the same.
    with monkeypatch.context() as patch:
        patch.setattr("training.sweep.train", None)
        patch.setattr(NamesTask, "measure", None)
        assert run_sweep(sweep, tasks, tmp_path / "out") == table
    assert (tmp_path / "out" / "sweep.md").read_text() == table
    assert "slow" in (tmp_path / "out" / "curves.svg").read_text()
    # Somebody exports other weights to the place of the run's own.
    folder = tmp_path / "out" / "slow" / "seed-0"
    export_run(folder, folder / "encoder", base_share=0.9)
    run_sweep(sweep, tasks, tmp_path / "out")
    assert read_results(tmp_path / "out").equals(frame)
    # `export` gives the same weights for each share.
    export_run(folder, tmp_path / "half", base_share=0.5)
    kept = frame.filter(system="slow, base share 0.5", seed=0)["value"].to_list()
    assert kept == pytest.approx(measure_folder(tmp_path / "half", tasks, tmp_path / "again"), abs=1e-6)
    shorter = read_sweep(config, tmp_path / "out", {"batch.chunk_names": 5, "batch.max_steps": 2})
    with pytest.raises(ValueError, match="taken 3 steps.*ask for 2"):
        run_sweep(shorter, tasks, tmp_path / "out")
    # Of other seeds, those that are there are not run again. An interrupted run ends the sweep.
    taken = []

    def interrupt(settings):
        taken.append((Path(settings.paths.output).parent.name, settings.run.seed))
        return RunReport({}, {}, {}, {}, training={"ended": "interrupted"})

    config.write_text(SWEEP.replace("seeds = [0, 1]", "seeds = [1, 2]"))
    with monkeypatch.context() as patch:
        patch.setattr("training.sweep.train", interrupt)
        sweep = read_sweep(config, tmp_path / "out", {"batch.chunk_names": 5})
        table = run_sweep(sweep, tasks, tmp_path / "out")
    assert taken == [("slow", 2)] and "| fast |" in table
    assert table.endswith("\n2 of 4 runs have been taken; the same command takes the others.\n")
    write_pairs(build(make_names(range(20), "bone {}", "disorder of the bone {}")), tmp_path / "pairs")
    with pytest.raises(ValueError, match="data.sha256"):
        run_sweep(sweep, tasks, tmp_path / "out")


COLUMNS = [TableColumn("parts.strict", "acc", 1), TableColumn("parts.strict", "acc", 5)]


def make_frame(figures):
    rows = [
        (system, "parts.strict", "strict", "acc", rank, value, 2, seed, "x")
        for system, seeds in figures.items()
        for seed, values in seeds.items()
        for rank, value in zip((1, 5), values, strict=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def test_variants_are_tested_over_the_seeds_that_both_have():
    figures = {"first": [70.0, 71.5, 69.0, 72.0, 70.5], "second": [72.0, 72.5, 71.5, 73.0, 71.0], "few": [60.0]}
    runs = {name: {seed: (x / 100, 0.9) for seed, x in enumerate(values)} for name, values in figures.items()}
    # A seed that the first variant lacks does not count.
    runs["second"][9] = (0.0, 0.9)
    p = ttest_rel(figures["second"], figures["first"]).pvalue
    gain = sum(figures["second"]) / 5 - sum(figures["first"]) / 5
    table = format_tests(make_frame({"base": {None: (0.5, 0.6)}, **runs}), COLUMNS)
    assert f"| second | {gain:+.1f}: p = {p:.3f} (paired t-test, 5 seeds) |" in table
    assert "few" not in table and "base" not in table and "acc@5" not in table
    for shown in (["first"], ["first", "few"]):
        assert format_tests(make_frame({name: runs[name] for name in shown}), COLUMNS) == ""


def test_the_table_has_means_deviations_and_gains():
    frame = make_frame({"raw": {None: (0.5, 0.6)}, "new": {0: (0.5, 0.7), 1: (0.54, 0.7)}})
    assert format_scores(frame, COLUMNS).splitlines() == [
        "|  | parts.strict acc@1 | parts.strict acc@5 |",
        "| --- | ---: | ---: |",
        "| raw | 50.0 | 60.0 |",
        "| new | 52.0±2.8 (+2.0) | 70.0±0.0 (+10.0) |",
    ]


def test_a_command_line_goes_before_the_config(config, tmp_path):
    sweep = read_sweep(config, tmp_path / "out", seeds=parse_numbers("3,4 5", "--seeds", int))
    assert [list(runs) for runs in sweep.variants.values()] == [[3, 4, 5]] * 2
    with pytest.raises(ValueError, match="seeds.*'1,x'"):
        parse_numbers("1,x", "--seeds", int)
    with pytest.raises(ValueError, match="a list of different numbers"):
        read_sweep(config, tmp_path, seeds=[1, 1])
    # A sweep makes all shares of the base itself.
    Config().from_disk(tmp_path / "run.cfg").merge({"run": {"base_share": 0.3}}).to_disk(tmp_path / "run.cfg")
    runs = read_sweep(config, tmp_path / "out").variants["slow"]
    assert {run.run.base_share for run in runs.values()} == {0.0}
    with pytest.raises(ValueError, match="paths.held_out can't be set in a sweep.*config of tasks"):
        read_sweep(config, tmp_path / "out", {"paths.held_out": "names.json"})


def test_sweeps_that_would_prove_nothing_are_not_run(config, tasks, tmp_path, monkeypatch):
    held_out = make_measurement(LinkingTask(["organ 3"], [["C3"]], ["acute organ 3"], ["C3"]), "held_out")
    with pytest.raises(ValueError, match="are held out, the first is 'C3'"):
        run_sweep(read_sweep(config, tmp_path / "out"), held_out, tmp_path / "out")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="one process, but was started in 2"):
        run_sweep(read_sweep(config, tmp_path / "out"), tasks, tmp_path / "out")


@cases("sweep_refusals")
def test_sweeps_without_meaning_are_refused(old, new, message, config, tmp_path):
    config.write_text(SWEEP.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_sweep(config, tmp_path / "out")


def test_runs_are_averaged_with_the_base_that_they_started_from(config, tasks, tmp_path):
    text = SWEEP.replace('"optimizer.learning_rate": 1e-2', '"encoder.max_length": 6').replace("[0, 1]", "[0]")
    config.write_text(text.replace('"batch.max_steps": 3', '"batch.max_steps": 1'))
    table = run_sweep(read_sweep(config, tmp_path / "out"), tasks, tmp_path / "out")
    assert "| before training: slow |" in table and "| before training: fast |" in table
    # The two bases; then both variants, without and with the base.
    assert read_results(tmp_path / "out").select("system", "fingerprint").unique().height == 6


def test_sweeps_that_come_with_it_can_be_read(tmp_path):
    paths = sorted((TRAINING / "sweeps").glob("*.cfg"))
    assert len(paths) == 8
    for path in paths:
        assert len(read_sweep(path, tmp_path).variants) >= 3
    search = read_sweep(TRAINING / "sweeps" / "search.cfg", tmp_path).variants
    # An epoch of UMLS 2020AA has 46,066 batches, and would end those runs before.
    batches = [run.batch for (run,) in map(dict.values, search.values())]
    assert all(batch.epochs * 11_792_953 // batch.pairs > batch.max_steps for batch in batches)
    assert search["margin_0.05"][0].objective.margin == 0.05
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_sweep(tmp_path / "no.cfg", tmp_path)


@pytest.mark.parametrize("name", ["mining", "losses", "adapters"])
def test_a_short_comparison_runs_as_in_the_paper(name, tmp_path):
    paper = TRAINING / "configs" / "sapbert.cfg"
    path = TRAINING / "sweeps" / f"{name}.cfg"
    sweep = read_sweep(path, tmp_path, {"paths.pairs": "pairs"}, run_config=paper)
    published = make_settings(read_config(paper), paper)
    changes = read_config(path)["variants"]
    assert list(sweep.variants) == list(changes)
    for variant, runs in sweep.variants.items():
        for seed, run in runs.items():
            values, wanted = run.to_dict(), published.to_dict()
            for key, value in changes[variant].items():
                section, setting = key.split(".")
                assert values[section].pop(setting) == value
                wanted[section].pop(setting)
            assert values.pop("run")["seed"] == seed and values.pop("paths")["pairs"] == "pairs"
            assert values == {section: wanted[section] for section in values}
    short = read_sweep(path, tmp_path).variants
    assert all(run.batch.max_steps == 200 for runs in short.values() for run in runs.values())
    assert all(run.batch.max_steps == 0 for runs in sweep.variants.values() for run in runs.values())


def test_relations_of_concepts_that_training_has_seen_are_no_unseen_ones(config, encoder_folder, tmp_path):
    for n, name in ((40, "names"), (30, "unseen")):
        build(make_names(range(n), "organ {}", "part {}")).to_disk(tmp_path / name)
    rows = [(f"C{head}", f"R{head % 2}", f"C{tail}") for head in range(40) for tail in range(head + 1, 40)]
    save_triple_rows(rows, tmp_path / "triples")
    paths = {"terminology": "names", "triples": "triples", "unseen": "unseen"}
    unseen = {"kind": "relations", "epochs": 1, **{name: str(tmp_path / path) for name, path in paths.items()}}
    Config({"tasks": {"unseen": unseen}}).to_disk(tmp_path / "tasks.cfg")
    config.write_text(SWEEP.replace("[0, 1]", "[0]").replace("[0.0, 0.5]", "[0.0]"))
    measurement = read_measurement(tmp_path / "tasks.cfg", needs_systems=False)
    # The pairs are of C0 to C29, which are those that count as seen.
    table = run_sweep(read_sweep(config, tmp_path / "out"), measurement, tmp_path / "out")
    assert table.splitlines()[0] == "|  | unseen accuracy |"
    write_pairs(build(make_names(range(40), "organ {}", "part {}")), tmp_path / "pairs")
    with pytest.raises(ValueError, match="unseen is not unseen"):
        run_sweep(read_sweep(config, tmp_path / "other"), measurement, tmp_path / "other")


def test_the_command_compares_settings(config, tmp_path):
    config.write_text(SWEEP.replace("[0, 1]", "[0]").replace("[0.0, 0.5]", "[0.0]"))
    LinkingTask(["part one"], [["P1"]], ["part 1", "part 2"], ["P1", "P2"]).to_disk(tmp_path / "held_out.json")
    options = ["--tasks.held_out.files", tmp_path / "held_out.json", "--batch.max_steps", 2]
    shown = run_command("sweep", config, tmp_path / "out", *options)
    assert "held_out.held_out acc@3 |" in shown and "| fast |" in shown
    with pytest.raises(ValueError, match="nothing to measure on"):
        run_command("sweep", config, tmp_path / "out")
