"""Settings of runs: which of them decide a run's course, how they are listed, and defaults of each method."""

import pytest
from thinc.api import Config
from typer.testing import CliRunner

from training.cli import app
from training.cli.application import TRAINING
from training.engine.settings import describe_difference
from training.methods.registry import make_settings, read_settings

PATHS = {
    "sapbert": {"pairs": "a"},
    "coder": {"terminology": "a", "triples": "b"},
    "coder_plusplus": {"terminology": "a"},
    "biosyn": {"mentions": "a", "dictionary": "b"},
    "static": {"pairs": "a"},
}
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

# Other tests register methods of their own.
NAMES = ["biosyn", "coder", "coder_plusplus", "sapbert", "static"]


def make(method, **changes):
    values = {"paths": {"encoder": "", "output": "o", **PATHS[method]}, "run": {"method": method}}
    for name, value in changes.items():
        section, _, setting = name.partition(".")
        values.setdefault(section, {})[setting] = value
    return make_settings(values)


@pytest.mark.parametrize("method", NAMES)
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


def test_each_method_has_its_own_defaults():
    runs = {method: make(method) for method in NAMES}
    lengths = {method: run.encoder.max_length for method, run in runs.items()}
    assert lengths == {"sapbert": 25, "coder": 32, "coder_plusplus": 32, "biosyn": 25, "static": 25}
    linear = {method for method, run in runs.items() if run.optimizer.schedule == "linear"}
    assert linear == {"coder", "coder_plusplus"}
    assert {method: run.encoder.pooling for method, run in runs.items() if run.encoder.pooling} == {"biosyn": "cls"}
    assert runs["biosyn"].optimizer.learning_rate == 1e-5 and runs["coder"].batch.max_steps == 100_000


def test_the_first_run_depends_on_no_clock_and_no_processor():
    # Minutes and bf16 differ between machines, and so do the random numbers of dropout.
    run = read_settings(TRAINING / "configs" / "quick.cfg")
    assert run.batch.max_steps and not run.batch.max_minutes
    assert (run.run.precision, run.batch.dropout) == ("fp32", 0.0)


def test_the_command_lists_all_settings_of_a_method():
    def invoke(*arguments):
        return CliRunner().invoke(app, ["settings", *arguments], catch_exceptions=False).stdout

    for method in NAMES:
        listed = invoke(method)
        for section, values in make(method).to_dict().items():
            assert all(f"--{section}.{name}\n" in listed for name in values)
        rate = "default 0.05" if method == "static" else "default 0.01"
        assert rate in listed and "must be given" in listed and all(line.strip() for line in listed.splitlines())
    # With a config, all its values, which can be read as a config.
    printed = make_settings(Config().from_str(invoke("static", "static_quick", "--run.seed", "7")))
    assert printed == read_settings(TRAINING / "configs" / "static_quick.cfg", {"run.seed": 7})
    with pytest.raises(ValueError, match="'coda'.*biosyn, coder, coder_plusplus, sapbert, static"):
        invoke("coda")
