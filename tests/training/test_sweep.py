"""Sweeps: what is compared, what is run again, and what the table says."""

from pathlib import Path

import pytest
import srsly
from scipy.stats import ttest_rel
from training.evaluation.linking.accuracy import find
from training.evaluation.side_by_side import format_scores, format_tests

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import TerminologyBuilder
from training.cli.application import parse_seeds
from training.data.pairs import write_pairs
from training.data.run_folder import RunReport
from training.data.task import LinkingTask
from training.engine.checkpoints import load_transformer
from training.engine.run import export_run
from training.evaluation.measure import ResultStore, measure_encoder
from training.sweep import run_sweep
from training.sweep_settings import read_sweep

ROOT = Path(__file__).parents[2]
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
RUN = """
[paths]
encoder = "{encoder}"
pairs = "{pairs}"
output = "unused"

[run]
method = "sapbert"
precision = "fp32"
checkpoint_steps = 2
"""


@pytest.fixture
def config(tmp_path, encoder_folder):
    builder = TerminologyBuilder()
    for concept in range(30):
        for form in ("acute {}", "{} disease", "disorder of the {}"):
            builder.add_name(f"C{concept}", form.format(f"organ {concept}"))
    write_pairs(builder.build(), tmp_path / "pairs")
    (tmp_path / "run.cfg").write_text(RUN.format(encoder=encoder_folder, pairs=tmp_path / "pairs"))
    (tmp_path / "sweep.cfg").write_text(SWEEP)
    return tmp_path / "sweep.cfg"


@pytest.fixture
def corpora():
    names = [f"part {number}" for number in range(9)]
    return {"parts": LinkingTask(["part one", "part 2"], [["P1"], ["P2"]], names, [f"P{n}" for n in range(9)])}


def test_a_sweep_runs_measures_and_goes_on(config, corpora, tmp_path, monkeypatch):
    sweep = read_sweep(config, tmp_path / "out", {"batch.chunk_names": 5})
    assert [list(runs) for runs in sweep.variants.values()] == [[0, 1], [0, 1]]
    table = run_sweep(sweep, tmp_path / "out", held_out={}, corpora=corpora)
    scores, tests = table.split("\n\nDifferences from slow")
    assert [line.split("|")[1].strip() for line in scores.splitlines()[2:]] == [
        "before training",
        "slow",
        "slow, base share 0.5",
        "fast",
        "fast, base share 0.5",
    ]
    assert [line.split("|")[1].strip() for line in tests.splitlines()[4:]] == [
        "slow, base share 0.5",
        "fast",
        "fast, base share 0.5",
    ]
    result = srsly.read_json(tmp_path / "out" / "sweep.json")
    assert len(result["runs"]) == 8
    for record in result["runs"]:
        settings = record["report"]["settings"]
        assert settings["batch"]["chunk_names"] == 5 and settings["run"]["seed"] == record["seed"]
        if not record["base_share"]:
            encoder = EncoderShim({}, "auto")
            encoder.load(str(Path(settings["paths"]["output"]) / "encoder"))
            assert measure_encoder(encoder, corpora) == record["scores"]
    # All is done: nothing is trained or measured again, and the table is the same.
    monkeypatch.setattr("training.sweep.train", None)
    monkeypatch.setattr("training.evaluation.measure.find", None)
    assert run_sweep(sweep, tmp_path / "out", held_out={}, corpora=corpora) == table
    assert (tmp_path / "out" / "sweep.md").read_text() == table
    assert "slow" in (tmp_path / "out" / "curves.svg").read_text()


def test_variants_are_tested_over_the_seeds_that_both_have():
    figures = {"first": [70.0, 71.5, 69.0, 72.0, 70.5], "second": [72.0, 72.5, 71.5, 73.0, 71.0], "few": [60.0]}
    runs = {
        name: {seed: {"part": {"acc_at_1": value / 100, "acc_at_5": 0.9}} for seed, value in enumerate(values)}
        for name, values in figures.items()
    }
    # A seed that the first variant lacks does not count.
    runs["second"][9] = {"part": {"acc_at_1": 0.0}}
    p = ttest_rel(figures["second"], figures["first"]).pvalue
    gain = sum(figures["second"]) / 5 - sum(figures["first"]) / 5
    table = format_tests(runs)
    assert f"| second | {gain:+.1f}: p = {p:.3f} (paired t-test, 5 seeds) |" in table
    assert "few" not in table
    assert format_tests({"first": runs["first"]}) == format_tests({"first": runs["first"], "few": runs["few"]}) == ""


def test_seeds_are_given_in_place_of_the_configs(config, tmp_path):
    sweep = read_sweep(config, tmp_path / "out", seeds=parse_seeds("3,4 5"))
    assert [list(runs) for runs in sweep.variants.values()] == [[3, 4, 5]] * 2
    assert [list(runs) for runs in read_sweep(config, tmp_path, seeds=parse_seeds("")).variants.values()] == [
        [0, 1]
    ] * 2
    with pytest.raises(ValueError, match="seeds.*'1,x'"):
        parse_seeds("1,x")
    with pytest.raises(ValueError, match="a list of different numbers"):
        read_sweep(config, tmp_path, seeds=[1, 1])


def test_a_checkpoint_is_loaded_once_for_all_shares(config, corpora, tmp_path, monkeypatch):
    loaded = []

    def load(path, transformer):
        loaded.append(path)
        return load_transformer(path, transformer)

    monkeypatch.setattr("training.sweep.load_transformer", load)
    sweep = "base_shares = [0.0, 0.25, 0.5, 0.75]"
    config.write_text(SWEEP.replace("base_shares = [0.0, 0.5]", sweep).replace("seeds = [0, 1]", "seeds = [0]"))
    run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    assert len(loaded) == len(set(loaded)) == 2
    records = srsly.read_json(tmp_path / "out" / "sweep.json")["runs"]
    assert [record["base_share"] for record in records] == [0.0, 0.25, 0.5, 0.75] * 2
    # Each share is that of `export`, which loads the checkpoint for it alone.
    for record in records[1:4]:
        run, share = record["report"]["settings"]["paths"]["output"], record["base_share"]
        export_run(run, tmp_path / f"share {share}", base_share=share)
        encoder = EncoderShim({}, "auto")
        encoder.load(tmp_path / f"share {share}")
        assert measure_encoder(encoder, corpora) == record["scores"]


def test_seeds_and_settings_that_have_changed_are_run(config, corpora, tmp_path, monkeypatch):
    run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    config.write_text(SWEEP.replace("seeds = [0, 1]", "seeds = [1, 2]"))
    taken = []

    def interrupt(settings):
        taken.append((Path(settings.paths.output).parent.name, settings.run.seed))
        return RunReport({}, {}, {}, {}, training={"ended": "interrupted"})

    monkeypatch.setattr("training.sweep.train", interrupt)
    table = run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    # The first one was interrupted, and so is the sweep.
    assert taken == [("slow", 2)] and "| fast |" in table
    assert table.endswith("\n2 of 4 runs have been taken; the same command takes the others.\n")


def test_adapters_are_compared(config, corpora, tmp_path):
    pytest.importorskip("adapters")
    text = SWEEP.replace("[0.0, 0.5]", "[0.0]").replace("[0, 1]", "[0]")
    adapters = '"adapter.kind": "bottleneck", "adapter.reduction": '
    for old, reduction in (('"optimizer.learning_rate": 1e-4', 1), ('"optimizer.learning_rate": 1e-2', 16)):
        text = text.replace(old, f"{adapters}{reduction}")
    config.write_text(text)
    table = run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    names = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert names == ["before training", "slow", "fast"]
    encoders = [tmp_path / "out" / name / "seed-0" / "encoder" / "adapter" for name in ("slow", "fast")]
    sizes = [(folder / "adapter.safetensors").stat().st_size for folder in encoders]
    assert sizes[0] > sizes[1]


def test_held_out_concepts_must_not_be_in_the_pairs(config, tmp_path):
    held_out = {"held_out": LinkingTask(["organ 3"], [["C3"]], ["acute organ 3"], ["C3"])}
    with pytest.raises(ValueError, match="C3"):
        run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out=held_out, corpora={})


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('learning_rate": 1e-2', 'learning_rate": 1e-4', "E677.*slow.*fast"),
        ('{"optimizer.learning_rate": 1e-2', '{"optimiser.learning_rate": 1e-2', "optimiser.*no such setting"),
        ('learning_rate": 1e-2', 'rate": 1e-2', "rate.*no such setting"),
        ("[variants]", "[others]", "E676.*others"),
        ("seeds", "seed", "seeds of .sweep."),
        ("base_shares", "base_share", "base_share of .sweep.*Did you mean base_shares"),
        ("[0, 1]", "[]", r"seeds.*at least 1 item"),
        ("[0, 1]", "[0, 0]", "seeds.*a list of different numbers"),
        ("[0, 1]", "[-1]", "run.seed"),
        ("[0.0, 0.5]", "[0.0, 0]", "base_shares.*a list of different numbers"),
        ("[0.0, 0.5]", "[1.0]", "base_shares.*less than 1, not 1.0"),
        ('"batch.max_steps"', '"max_steps"', "E742.*'max_steps', which names no section"),
        ('{"optimizer.learning_rate": 1e-2}', "5", "E742.*'fast' is 5"),
        ('"optimizer.learning_rate": 1e-2', '"run.base_share": 0.5', "E740.*run.base_share.*`base_shares`"),
        (
            '"optimizer.learning_rate": 1e-2',
            '"adapter.kind": "bottleneck"',
            "E742.*'fast' trains.*has to be .0.0.",
        ),
        ("[variants]", "[variants", "sweep.cfg"),
    ],
)
def test_sweeps_without_meaning_are_refused(old, new, message, config, tmp_path):
    config.write_text(SWEEP.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_sweep(config, tmp_path / "out")


def test_a_sweep_makes_all_shares_of_the_base_itself(config, corpora, tmp_path):
    run = tmp_path / "run.cfg"
    run.write_text(run.read_text() + "base_share = 0.3\n")
    (tmp_path / "plain.cfg").write_text(SWEEP.replace("run.cfg", "other.cfg"))
    (tmp_path / "other.cfg").write_text(run.read_text().replace("0.3", "0.0"))
    tables = [
        run_sweep(read_sweep(path, tmp_path / path.stem), tmp_path / path.stem, held_out={}, corpora=corpora)
        for path in (config, tmp_path / "plain.cfg")
    ]
    first, second = (srsly.read_json(tmp_path / name / "sweep.json")["runs"] for name in ("sweep", "plain"))
    prints = [[record["report"]["encoder"]["trained"] for record in records] for records in (first, second)]
    assert prints[0] == prints[1] and tables[0] == tables[1]
    with pytest.raises(ValueError, match="E740.*--held-out"):
        read_sweep(config, tmp_path / "out", {"paths.held_out": "names.json"})


def test_runs_are_averaged_with_the_base_that_they_started_from(config, tmp_path, monkeypatch):
    config.write_text(SWEEP.replace('"optimizer.learning_rate": 1e-2', '"encoder.max_length": 6'))
    measured = []

    def measure(encoder, tasks, store):
        measured.append((encoder.settings.max_length, encoder.fingerprint))
        return {"parts": {"acc_at_1": 0.5, "acc_at_5": 0.5}}

    monkeypatch.setattr("training.sweep.measure_encoder", measure)
    table = run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora={})
    assert "| before training: slow |" in table and "| before training: fast |" in table
    # The two bases; then for each seed both variants, without and with the base.
    assert [length for length, _ in measured] == [25, 6, *(25, 25, 6, 6) * 2]
    assert len(dict(measured)) == 2 and len(set(measured)) == 10


def test_runs_of_other_pairs_or_weights_are_no_results(config, corpora, tmp_path):
    def run():
        run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
        return srsly.read_json(tmp_path / "out" / "sweep.json")["runs"]

    records = run()
    # Somebody exports other weights to the place of the run's own.
    export_run(tmp_path / "out" / "slow" / "seed-0", tmp_path / "out" / "slow" / "seed-0" / "encoder", base_share=0.9)
    assert [record["scores"] for record in run()] == [record["scores"] for record in records]
    builder = TerminologyBuilder()
    for concept in range(20):
        for form in ("{} disease", "disorder of the {}"):
            builder.add_name(f"C{concept}", form.format(f"bone {concept}"))
    write_pairs(builder.build(), tmp_path / "pairs")
    with pytest.raises(ValueError, match="data.sha256"):
        run()


def test_fewer_steps_are_not_those_of_a_longer_run(config, corpora, tmp_path):
    run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)
    config.write_text(SWEEP.replace('"batch.max_steps": 3', '"batch.max_steps": 2'))
    with pytest.raises(ValueError, match="taken 3 steps.*ask for 2"):
        run_sweep(read_sweep(config, tmp_path / "out"), tmp_path / "out", held_out={}, corpora=corpora)


def test_pairs_can_be_compared(config, tmp_path):
    config.write_text(
        SWEEP.replace('"optimizer.learning_rate": 1e-2', '"optimizer.learning_rate": 1e-4, "paths.pairs": "other"')
    )
    assert len(read_sweep(config, tmp_path / "out").variants) == 2


def test_sweeps_that_come_with_it_can_be_read(tmp_path):
    paths = sorted((ROOT / "training" / "sweeps").glob("*.cfg"))
    assert len(paths) == 8
    for path in paths:
        assert len(read_sweep(path, tmp_path).variants) >= 3
    search = read_sweep(ROOT / "training" / "sweeps" / "search.cfg", tmp_path).variants
    # An epoch of UMLS 2020AA has 46,066 batches, and would end those runs before.
    assert all(
        run.batch.epochs * 11_792_953 // run.batch.pairs > run.batch.max_steps
        for (run,) in map(dict.values, search.values())
    )
    margins = read_sweep(ROOT / "training" / "sweeps" / "search.cfg", tmp_path).variants["margin_0.05"]
    assert margins[0].objective.margin == 0.05
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_sweep(tmp_path / "no.cfg", tmp_path)


def test_scores_are_measured_once_for_an_encoder_and_a_task(encoder_folder, corpora, tmp_path, monkeypatch):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    store = ResultStore(tmp_path)
    scores = measure_encoder(encoder, corpora, store)
    assert scores == measure_encoder(encoder, corpora)
    measured = []
    monkeypatch.setattr(
        "training.evaluation.measure.find", lambda system, task: measured.append(task) or find(system, task)
    )
    other = {**corpora, "other": LinkingTask(["part 3"], [["P3"]], ["part 3"], ["P3"])}
    assert measure_encoder(encoder, other, store)["parts"] == scores["parts"]
    assert measured == [other["other"]]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}'])
def test_a_file_that_holds_no_result_is_refused(text, encoder_folder, corpora, tmp_path):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    measure_encoder(encoder, corpora, ResultStore(tmp_path / "kept"))
    (path,) = (tmp_path / "kept" / "results").iterdir()
    path.write_text(text)
    with pytest.raises(ValueError, match="E747.*results"):
        measure_encoder(encoder, corpora, ResultStore(tmp_path / "kept"))


def test_the_table_has_means_deviations_and_gains():
    def scores(at_1, at_5):
        return {"corpus": {"acc_at_1": at_1, "acc_at_5": at_5}}

    table = format_scores({"raw": [scores(0.5, 0.6)], "new": [scores(0.5, 0.7), scores(0.54, 0.7)]}, reference="raw")
    assert table.splitlines()[2:] == ["| raw | 50.0/60.0 |", "| new | 52.0±2.8/70.0±0.0 (+2.0/+10.0) |"]
