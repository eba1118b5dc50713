"""Settings of runs: which of them decide a run's course, which are refused, and how they are listed."""

import json

import pytest
from case_tables import cases
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


@cases("method_refusals")
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
