"""Settings of runs: which of them decide a run's course, which are refused, and how they are listed."""

import json

import pytest
from command_line import run_command
from small_runs import FILES
from thinc.api import Config

from training.cli.application import TRAINING
from training.engine.run import export_run
from training.engine.settings import describe_difference
from training.methods.registry import METHODS, make_settings, read_settings

# Settings that may differ when a run is resumed; those of its length only if the schedule does not depend on it.
BESIDE = {
    "batch.max_minutes": 5.0,
    "run.checkpoint_steps": 7,
    "run.evaluation_steps": 7,
    "run.held_out_names": 7,
    "run.base_share": 0.5,
    "run.tensorboard": True,
    "paths.encoder": "other",
    "paths.output": "other",
    "paths.held_out": "other",
}
DECISIVE = {"run.seed": 3, "run.precision": "bf16", "optimizer.learning_rate": 0.5, "batch.chunk_names": 3}


def make(method, **changes):
    values = {"paths": {"encoder": "", "output": "o", **FILES[method]}, "run": {"method": method}}
    for name, value in changes.items():
        section, _, setting = name.partition(".")
        values.setdefault(section, {})[setting] = value
    return make_settings(values)


@pytest.mark.parametrize("method", FILES)
@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_a_checkpoint_depends_on_decisive_settings_only(method, schedule):
    def differs(**changes):
        first, second = make(method, **start), make(method, **start, **changes)
        difference = describe_difference(first.decisive(), second.decisive())
        return [line.partition(":")[0] for line in difference]

    start = {"optimizer.schedule": schedule}
    for name, value in BESIDE.items():
        assert differs(**{name: value}) == []
    decisive = dict(DECISIVE)
    if method == "static":
        # A table has no forward pass to cut into chunks.
        del decisive["batch.chunk_names"]
        decisive["table.width"] = 64
    for name, value in decisive.items():
        assert differs(**{name: value}) == [name]
    lengths = {"batch.max_steps": 77, **({"batch.epochs": 7} if method in ("sapbert", "biosyn", "static") else {})}
    for name, value in lengths.items():
        assert differs(**{name: value}) == ([name] if schedule == "linear" else [])
    assert "paths" not in make(method).decisive() and make(method).decisive()["run"]["method"] == method


@pytest.mark.parametrize(
    "method, given, message",
    [
        ("sapbert", {"batch.pairs": 1}, "batch.pairs"),
        ("sapbert", {"batch.size": 1}, "size.*pairs"),
        ("sapbert", {"batch.pairs": 8.0}, "batch.pairs.*valid integer, not 8.0"),
        ("sapbert", {"batch.epochs": True}, "batch.epochs"),
        ("sapbert", {"batch.neighbours": 256}, "batch.neighbours is 256"),
        ("sapbert", {"batch.neighbours": 3, "batch.neighbour_pool": 2}, "pool is 2.*batch.neighbours or more"),
        ("sapbert", {"batch.neighbour_pool": 2}, "neighbour_pool is 2.*0 without"),
        ("sapbert", {"paths.terminology": "t"}, "paths.terminology.*empty without batch.neighbours"),
        ("sapbert", {"encoder.lower_case": "no"}, "encoder.lower_case.*, not 'no'"),
        ("sapbert", {"objective.loss": "ms"}, "objective.loss"),
        ("sapbert", {"objective.constants": {"alpha": "x"}}, "objective.constants"),
        ("sapbert", {"objective.constants": {"alpha": -2.0}}, "alpha is -2.0.*more than 0"),
        ("sapbert", {"objective.loss": "triplet", "objective.constants": {"margin": -0.1}}, "-0.1.*0 or more"),
        ("sapbert", {"objective.loss": "triplet", "objective.constants": {"alpha": 1.0}}, "alpha, only margin"),
        ("sapbert", {"objective.miner": "off", "objective.margin": 0.1}, "margin is 0.1, with the miner 'off'"),
        ("sapbert", {"adapter.kind": "bottleneck", "run.base_share": 0.5}, "run.base_share is 0.5.*bottleneck"),
        ("sapbert", {"optimizer.learning_rate": "high"}, "learning_rate.*valid number, not 'high'"),
        ("sapbert", {"optimizer.learning_rate": float("nan")}, "learning_rate"),
        ("sapbert", {"run.precision": "fp8"}, "run.precision"),
        ("sapbert", {"run.base_share": 1.0}, "run.base_share"),
        ("sapbert", {"run.seed": 2**32}, "run.seed.*less than or equal to 4294967295"),
        ("coder", {"batch.triplets": 127}, "batch.repetitions is 8.*For 127 triplets: none"),
        ("coder", {"batch.repetitions": 1}, "For 128 triplets: 2, 4, 8"),
        ("coder", {"batch.max_steps": 0}, "batch.max_steps is 0"),
        ("coder", {"data.languages": " "}, "data.languages"),
        ("coder", {"loss.relations": "distmult"}, "relations.*'none', 'diagonal', 'full', 'transe' or 'transe_margin'"),
        ("coder", {"loss.relations": "none", "relations.weight": 0.5}, "relations.weight"),
        ("coder_plusplus", {"batch.triplets": 4}, "triplets.*no such setting"),
        ("coder_plusplus", {"relations.weight": 1.0}, "relations.*no such setting"),
        ("biosyn", {"candidates.sparse": 21}, "candidates.sparse is 21"),
        ("biosyn", {"paths.mentions": " , "}, "paths.mentions"),
        ("biosyn", {"run.precision": "fp16"}, "run.precision"),
        ("static", {"distillation.texts": 1.0, "paths.texts": ""}, "distillation.texts.*without paths.texts"),
        ("static", {"batch.dropout": 0.1}, "batch.dropout"),
        ("static", {"optimizer.weight_decay": 0.1}, "optimizer.weight_decay"),
    ],
)
def test_settings_without_meaning_are_refused(method, given, message):
    with pytest.raises(ValueError, match=message):
        make(method, **given)


def test_runs_without_a_method_are_refused_with_the_line_to_add(tmp_path):
    values = make("sapbert").to_dict()
    for run, message in (
        ({}, r'the settings names no method.*`method = "\.\.\."` below \[run\].*biosyn, coder, coder_plusplus'),
        ({"method": "coda"}, "run.method of the settings is 'coda'.*one of biosyn, coder"),
        ({"method": ["coder"]}, r"run.method of the settings is \['coder'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            make_settings({**values, "run": run})
    description = {"settings": {**values, "run": {}}, "data": {}, "encoder": {}, "versions": {}}
    (tmp_path / "settings.json").write_text(json.dumps(description))
    with pytest.raises(ValueError, match="settings.json names no method"):
        export_run(tmp_path, tmp_path / "again")


def test_configs_that_come_with_it_can_be_read(tmp_path):
    for path in (TRAINING / "configs").glob("*.cfg"):
        settings = read_settings(path, {"run.seed": 7})
        assert settings.run.seed == 7 and isinstance(settings, METHODS[settings.run.method].Settings)
    # Minutes and bf16 differ between machines, and so do the random numbers of dropout.
    for path in [*(TRAINING / "configs").glob("*cpu.cfg"), TRAINING / "configs" / "quick.cfg"]:
        first = read_settings(path)
        assert first.batch.max_steps and not first.batch.max_minutes
    assert (first.run.precision, first.batch.dropout) == ("fp32", 0.0)
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_settings("nowhere.cfg")
    (tmp_path / "run.cfg").write_text("paths = here")
    with pytest.raises(ValueError, match="run.cfg"):
        read_settings(tmp_path / "run.cfg")


def test_the_command_lists_all_settings_of_a_method():
    for method in FILES:
        listed = run_command("settings", method)
        for section, values in make(method).to_dict().items():
            assert all(f"--{section}.{name}\n" in listed for name in values)
        assert "must be given" in listed and all(line.strip() for line in listed.splitlines())
    # With a config, all its values, which can be read as a config.
    printed = make_settings(Config().from_str(run_command("settings", "static", "static_quick", "--run.seed", 7)))
    assert printed == read_settings(TRAINING / "configs" / "static_quick.cfg", {"run.seed": 7})
    with pytest.raises(ValueError, match="'coda'.*biosyn, coder, coder_plusplus, sapbert, static"):
        run_command("settings", "coda")
