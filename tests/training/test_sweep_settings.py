"""The settings of a sweep with another run than its own."""

from pathlib import Path

import pytest

from training.engine.settings import read_config
from training.methods.registry import make_settings
from training.sweep_settings import read_sweep

TRAINING = Path(__file__).parents[2] / "training"


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
