"""Encoder folders out of runs: the weights they hold, and what their cards say."""

import json
import re
import shlex
import shutil
import sys
from functools import partial

import polars as pl
import pytest
import torch
from command_line import run_command
from conftest import load_encoder as load
from conftest import make_encoder_folder
from safetensors.torch import load_file
from small_runs import held_out, kill_at, make, make_any, make_run, terminology, world, write_config

from spacy_sapbert.encoder.folder import read_encoder
from spacy_sapbert.encoder.transformer import compute_fingerprint
from training.data.frame import SCHEMA
from training.data.run_folder import RunFolder
from training.engine.checkpoints import STATE_FILE
from training.engine.run import export_run, find_checkpoint, measure_names, train

# Fixtures.
__all__ = ["held_out", "make", "make_any", "terminology", "world"]
NAMES = ["heart attack", "acute cold", "b12 failure", "chronic pain of the liver"]


@pytest.fixture(scope="module")
def run(held_out, world, encoder_folder, tmp_path_factory):
    """A run with checkpoints of the steps 4 and 6, and its own export of the last."""
    output = tmp_path_factory.mktemp("run")
    train(make_run(encoder_folder, world, output, paths=held_out[1]))
    return output


def weights_of(folder):
    return read_encoder(folder).transformer.state_dict()


def card_of(folder):
    return (folder / "README.md").read_text(encoding="utf8")


def test_the_export_of_a_run_that_has_ended_is_the_run_s_own(run, tmp_path):
    report, own = export_run(run, tmp_path), RunFolder(run).read_report()
    assert report.encoder == own.encoder and report.held_out == own.held_out
    assert load(tmp_path).fingerprint == load(run / "encoder").fingerprint
    files = [folder / "model.safetensors" for folder in (tmp_path, run / "encoder")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert "| after |" in card_of(tmp_path)


@pytest.mark.parametrize("share, step", [(0.0, 4), (0.25, 6)])
def test_weights_are_those_of_the_checkpoint_and_of_the_base(run, encoder_folder, tmp_path, share, step):
    report = export_run(run, tmp_path, base_share=share, step=step)
    trained = load_file(find_checkpoint(run, step) / STATE_FILE)
    base = weights_of(encoder_folder)
    for name, tensor in weights_of(tmp_path).items():
        expected = (1 - share) * trained[f"weights.transformer.{name}"] + share * base[name]
        torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-6, msg=name)
    assert report.training["steps"] == step
    # The run's scores are of other weights.
    assert report.held_out is None and "acc@" not in card_of(tmp_path)


def test_half_the_size_and_nearly_the_same_vectors(run, tmp_path):
    export_run(run, tmp_path / "fp32")
    report = export_run(run, tmp_path / "bf16", dtype="bf16")
    sizes = [(tmp_path / dtype / "model.safetensors").stat().st_size for dtype in ("fp32", "bf16")]
    assert sizes[1] < 0.6 * sizes[0]
    source = read_encoder(tmp_path / "bf16")
    # Of what is stored: what was loaded hashes to it, too.
    assert source.fingerprint == report.encoder["trained"] != load(tmp_path / "fp32").fingerprint
    assert compute_fingerprint(source.transformer, source.tokenizer, source.settings) == source.fingerprint
    vectors, coarse = (load(tmp_path / dtype).encode(NAMES) for dtype in ("fp32", "bf16"))
    assert 0 < abs(vectors - coarse).max() < 0.02


def test_the_command_draws_curves_and_ends_without_them(make, tmp_path, monkeypatch):
    config = write_config(make(batch={"max_steps": 1}), tmp_path / "run.cfg")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.warns(UserWarning, match="are not drawn"):
            run_command("train", config)
    assert (tmp_path / "run" / "report.json").is_file() and not (tmp_path / "run" / "curves.svg").exists()
    shown = run_command("train", config)
    assert "<svg" in (tmp_path / "run" / "curves.svg").read_text()
    assert "Data: " in shown and f"Encoder: {tmp_path / 'run' / 'encoder'}" in shown


def test_a_run_says_what_it_takes_where_its_encoder_is_and_what_to_run_next(make, held_out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = write_config(make(paths={**held_out[1], "output": "run"}), tmp_path / "run.cfg")
    shown = run_command("train", config, "--device", "cpu")
    assert re.search(r"The other 3 steps take about \d+\.\d minutes of CPU time", shown)
    # Projects run in folders of their own.
    assert f"Encoder: {tmp_path / 'run' / 'encoder'}\n" in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("Next: "))
    words = shlex.split(line.removeprefix("Next: "))
    assert words[:3] == ["python", "-m", "training"]
    monkeypatch.chdir("/")
    assert "The results are" in run_command(*words[3:])


def test_a_run_that_was_killed_can_be_exported(make, tmp_path, monkeypatch):
    kill_at(monkeypatch, make(run={"base_share": 0.5}), 5)
    assert not (tmp_path / "run" / "report.json").exists()
    report = export_run(tmp_path / "run", tmp_path / "encoder")
    assert report.training["steps"] == 4 and report.export == {"base_share": 0.5, "dtype": "fp32"}
    assert load(tmp_path / "encoder").fingerprint == report.encoder["trained"]
    assert "4 steps, " in card_of(tmp_path / "encoder") and "ended" not in card_of(tmp_path / "encoder")


def test_low_rank_updates_are_merged(make, encoder_folder, tmp_path):
    pytest.importorskip("adapters")
    report = train(make(adapter={"kind": "lora", "rank": 2}, batch={"max_steps": 2}))
    again = export_run(tmp_path / "run", tmp_path / "encoder")
    assert again.encoder["trained"] == report.encoder["trained"] != report.encoder["base"]
    assert "adapter.kind lora" in card_of(tmp_path / "encoder")
    saved = load_file(find_checkpoint(tmp_path / "run") / STATE_FILE)
    export_run(tmp_path / "run", tmp_path / "half", base_share=0.5)
    base, full = weights_of(encoder_folder), weights_of(tmp_path / "encoder")
    for name, tensor in weights_of(tmp_path / "half").items():
        torch.testing.assert_close(tensor, (base[name] + full[name]) / 2, rtol=0, atol=1e-6, msg=name)
        # Training leaves the base's own weights alone.
        assert torch.equal(saved[f"weights.transformer.{name}"], base[name]), name


def test_bottleneck_adapters_are_exported_beside_the_base(make, encoder_folder, tmp_path):
    pytest.importorskip("adapters")
    report = train(make(adapter={"kind": "bottleneck", "reduction": 2}, batch={"max_steps": 2}))
    again = export_run(tmp_path / "run", tmp_path / "again")
    half = export_run(tmp_path / "run", tmp_path / "half", dtype="bf16")
    encoders = [load(path) for path in (encoder_folder, tmp_path / "again", tmp_path / "half")]
    assert again.encoder["trained"] == report.encoder["trained"] == encoders[1].fingerprint
    assert half.encoder["trained"] == encoders[2].fingerprint != again.encoder["trained"]
    sizes = [(tmp_path / name / "adapter" / "adapter.safetensors").stat().st_size for name in ("again", "half")]
    assert sizes[1] < sizes[0]
    vectors = [encoder.encode(["heart"]) for encoder in encoders]
    assert abs(vectors[0] - vectors[1]).max() > 1e-4 and (vectors[1] * vectors[2]).sum() > 0.999
    assert "adapter.kind bottleneck" in card_of(tmp_path / "again")
    with pytest.raises(ValueError, match="bottleneck adapter"):
        export_run(tmp_path / "run", tmp_path / "mixed", base_share=0.5)
    assert not (tmp_path / "mixed").exists()
    # The weights would be those of a transformer without it.
    with pytest.raises(ValueError, match="encoder is needed here"):
        train(make("other", paths={"encoder": str(tmp_path / "again")}))


def test_held_out_names_are_measured_again_on_the_stored_weights(run, held_out, tmp_path):
    task, paths = held_out
    report = export_run(run, tmp_path, base_share=0.5, dtype="bf16", held_out=paths["held_out"])
    assert report.held_out["after"] == measure_names(load(tmp_path, "auto"), task)
    assert f"| after | {100 * report.held_out['after']['acc_at_1']:.1f} |" in card_of(tmp_path)


def test_the_card_says_what_was_made_and_measured(run, tmp_path):
    def export(output, *arguments):
        how = ["--base-share", "0.5", "--dtype", "bf16", "--step", "4"]
        return run_command("export", run, tmp_path / output, *how, *arguments)

    def refuse(message, *arguments):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            export("other", *arguments)
        assert not (tmp_path / "other").exists()

    def write_figures(*rows):
        columns = ["task", "metric", "rank", "value", "fingerprint"]
        frame = pl.DataFrame(rows, columns, orient="row")
        others = {name: pl.lit(None) for name in SCHEMA if name not in columns}
        frame.with_columns(**others).select(*SCHEMA).cast(SCHEMA).write_parquet(results)

    assert "Step 4, share of the base 0.5, bf16" in export("bare")
    fingerprint, results = load(tmp_path / "bare").fingerprint, tmp_path / "results.parquet"
    figures = [("Corpus A", "acc", 1, 0.9123), ("Corpus A", "row_acc", 1, 0.3), ("Corpus B", "f1", None, 0.5)]
    of_another = ("Corpus A", "acc", 1, 0.2, "f" * 64)
    write_figures(*((*figure, fingerprint) for figure in figures), of_another)
    (tmp_path / "notes.md").write_text("## Data\n\nOntology X, CC BY 4.0.\n")
    notes = ["--notes", tmp_path / "notes.md", "--command", "python -m training train cpu.cfg"]
    export("full", *notes, "--licence", "apache-2.0", "--results", results)
    card = card_of(tmp_path / "full")
    assert card.startswith("---\nlibrary_name: sentence-transformers\nlicense: apache-2.0\n")
    for part in (
        "Base: encoder0, fingerprint",
        " pairs, ",
        "4 steps, ",
        "batch.pairs 8, ",
        "0.5 of the base and 0.5 of what was trained, stored as bf16",
        "```bash\npython -m training train cpu.cfg\n```",
        "|  | acc@1 | F1 |\n| --- | ---: | ---: |\n| Corpus A | 91.2 |  |\n| Corpus B |  | 50.0 |\n",
        "## Data\n\nOntology X, CC BY 4.0.",
        fingerprint,
    ):
        assert part in card
    assert "Held-out" not in card and str(tmp_path) not in card
    assert load(tmp_path / "full").fingerprint == fingerprint
    write_figures(of_another)
    refuse(r"of other encoders \(fff", "--results", results)
    pl.DataFrame({"task": ["a"]}).write_parquet(results)
    refuse("has other columns than", "--results", results)
    results.write_text("no table")
    refuse("not a table of results", "--results", results)
    refuse("no results in", "--results", tmp_path / "nowhere.parquet")
    refuse("No such file", "--notes", tmp_path / "nowhere.md")


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"run": "nowhere"}, FileNotFoundError, "nowhere"),
        ({"step": 5}, FileNotFoundError, "no checkpoint of step 5; there are: 4, 6"),
        ({"dtype": "fp8"}, ValueError, "dtype 'fp8'.*fp32, bf16"),
        ({"base_share": 1.0}, ValueError, "base_share"),
        ({"base_share": float("nan")}, ValueError, "base_share"),
    ],
)
def test_what_can_not_be_exported_is_refused_by_name(run, tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        export_run(**{"run": run, "output": tmp_path / "encoder", **given})
    assert not (tmp_path / "encoder").exists()


def test_runs_that_have_changed_since_are_not_exported(make, held_out, tmp_path):
    base = make_encoder_folder(tmp_path / "base")
    task, paths = held_out
    train(make(paths={"encoder": str(base), "pairs": paths["pairs"]}, batch={"max_steps": 1}))
    refused = partial(export_run, tmp_path / "run", tmp_path / "encoder")
    seen = json.loads((tmp_path / paths["held_out"]).read_text())
    seen["gold"][0] = [next(f"C{n:03d}" for n in range(40) if [f"C{n:03d}"] not in task.gold)]
    (tmp_path / "seen.json").write_text(json.dumps(seen))
    with pytest.raises(ValueError, match="held out"):
        refused(held_out=str(tmp_path / "seen.json"))
    description = json.loads((tmp_path / "run" / "settings.json").read_text())
    description["data"]["sha256"] = "0" * 64
    (tmp_path / "run" / "settings.json").write_text(json.dumps(description))
    with pytest.raises(ValueError, match="no longer those"):
        refused(held_out=paths["held_out"])
    shutil.rmtree(base)
    make_encoder_folder(base, seed=1)
    with pytest.raises(ValueError, match="base"):
        refused(base_share=0.5)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(FileNotFoundError, match=r"no checkpoint; there are: none"):
        find_checkpoint(tmp_path / "run")
    assert not (tmp_path / "encoder").exists()


def test_an_export_over_another_leaves_no_other_pooling(run, make, tmp_path):
    train(make(encoder={"pooling": "mean_all_tok"}, batch={"max_steps": 1}))
    for folder, is_expressed in ((run, True), (tmp_path / "run", False)):
        export_run(folder, tmp_path / "encoder")
        assert (tmp_path / "encoder" / "modules.json").is_file() == is_expressed
        assert load(tmp_path / "encoder").fingerprint == load(folder / "encoder").fingerprint
