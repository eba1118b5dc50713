"""Training: gradients against a plain loop, runs that stop and go on, what comes out."""

import signal
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from conftest import load_encoder
from small_runs import (
    assert_same,
    assert_same_course,
    copy,
    final_weights,
    held_out,
    kill_at,
    losses,
    make,
    make_any,
    start,
    terminology,
    wait_for_steps,
    whole,
    world,
    write_config,
)
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from spacy_sapbert.encoder.folder import read_encoder
from training.data.pairs import load_pairs
from training.data.run_folder import LOCK_FILE, RunFolder
from training.data.task import limit_names
from training.engine.checkpoints import list_checkpoints
from training.engine.gradient import ChunkedGradient
from training.engine.loop import TrainingLoop, learning_rate
from training.engine.objectives import make_loss, make_miner
from training.engine.run import count_trainable, measure_names, train
from training.engine.settings import OptimizerSettings
from training.methods import static
from training.methods.pairs import Batches, Objective
from training.methods.sapbert import AdapterSettings, add_adapter

# Fixtures.
__all__ = ["copy", "held_out", "make", "make_any", "terminology", "whole", "world"]


def make_gradients(encoder, tokens, labels, **how):
    transformer = read_encoder(encoder).transformer.float().requires_grad_(True).train()
    for module in transformer.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = how.get("dropout", 0.0)
    torch.manual_seed(5)
    objective = Objective(make_loss("multi_similarity"), make_miner("sapbert"))
    gradient = ChunkedGradient(
        transformer,
        read_encoder(encoder).settings,
        Accelerator(cpu=True),
        pad_id=0,
        chunk_names=how.get("chunk_names", 1000),
        gradient_cache=how.get("gradient_cache", False),
        autocast=None,
    )
    loss, _ = gradient.compute(tokens, lambda vectors: objective(vectors, torch.from_numpy(labels)))
    return loss, {name: p.grad for name, p in transformer.named_parameters() if p.grad is not None}


@pytest.fixture(scope="module")
def batch(world, encoder):
    data = load_pairs(world / "pairs")
    rows = next(Batches(data.labels, 12, 1).iterate())
    names = np.concatenate([data.left[rows], data.right[rows]])
    tokens = [np.array(ids) for ids in encoder.tokenize(data.names.gather(names).to_list())]
    return tokens, np.concatenate([data.labels[rows]] * 2), data.names.gather(names).to_list()


def test_gradients_are_those_of_a_plain_loop(encoder_folder, batch):
    tokens, labels, names = batch
    # As the reference code: two passes, all names padded to 25 tokens, the loss on both together.
    model = AutoModel.from_pretrained(encoder_folder, add_pooling_layer=False)
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    embedded = []
    for side in (names[:12], names[12:]):
        encoded = tokenizer(side, padding="max_length", max_length=25, truncation=True, return_tensors="pt")
        embedded.append(model.eval()(**encoded)[0][:, 0])
    plain, _ = Objective(make_loss("multi_similarity"), make_miner("sapbert"))(
        torch.cat(embedded), torch.from_numpy(labels), None
    )
    plain.backward()
    loss, gradients = make_gradients(encoder_folder, tokens, labels, chunk_names=5)
    assert loss == pytest.approx(plain.item(), rel=1e-5)
    theirs = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert set(theirs) == set(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-3, atol=1e-6, msg=name)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("chunk_names", [1, 5])
def test_gradient_cache_changes_nothing(encoder_folder, batch, chunk_names, dropout):
    tokens, labels, _ = batch
    how = {"chunk_names": chunk_names, "dropout": dropout}
    loss, gradients = make_gradients(encoder_folder, tokens, labels, **how)
    cached_loss, cached = make_gradients(encoder_folder, tokens, labels, gradient_cache=True, **how)
    assert loss == pytest.approx(cached_loss, rel=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, cached[name], rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("step, rate", [(0, 0.5), (1, 1.0), (2, 1.0), (6, 0.5), (9, 0.125)])
def test_learning_rate_rises_and_falls(step, rate):
    settings = OptimizerSettings(learning_rate=1.0, schedule="linear", warmup_steps=2)
    assert learning_rate(settings, step, 10) == rate
    assert learning_rate(OptimizerSettings(learning_rate=1.0), step, 10) == 1.0


# Groups of neighbours, and names in other writing.
GROUPS = {"neighbours": 1, "neighbour_pool": 4, "altered": 0.5}


@pytest.mark.parametrize(
    "method, step, sections",
    [
        ("sapbert", 3, {"optimizer": {"schedule": "linear", "warmup_steps": 2}}),
        ("sapbert", 5, {"batch": GROUPS, "paths": {"terminology": "terminology"}}),
        ("static", 5, {"optimizer": {"schedule": "linear"}, "batch": GROUPS}),
        ("coder", 3, {"loss": {"relations": "transe_margin"}}),
    ],
)
def test_a_stopped_run_goes_on_as_if_it_had_not_been(make_any, world, monkeypatch, method, step, sections):
    monkeypatch.chdir(world)
    undisturbed, stopped = (make_any(method, output, **sections) for output in ("undisturbed", "stopped"))
    train(undisturbed)
    # The last step is after the last checkpoint, and is taken again.
    kill_at(monkeypatch, stopped, step)
    assert len(losses(undisturbed)) == 6 and len(losses(stopped)) == step
    # The table that a static encoder starts from is read, not made again.
    monkeypatch.setattr(static, "make_start", None)
    train(stopped)
    assert_same_course(undisturbed, stopped)


def test_a_killed_run_goes_on_and_leaves_nothing_behind(make, tmp_path):
    settings, folder = make("killed", batch={"max_steps": 400}), tmp_path / "killed"
    process = start("-m", "training", "train", write_config(settings, tmp_path / "run.cfg"))
    wait_for_steps(settings, 7)
    process.kill()
    process.communicate(timeout=180)
    done = len(losses(settings))
    # Who is killed leaves a lock, which the system has dropped, and may leave files that are incomplete.
    assert done < 400 and (folder / LOCK_FILE).exists()
    (folder / "checkpoints" / f".saving-{'0' * 32}").mkdir(parents=True, exist_ok=True)
    (folder / f"settings.json.{'0' * 32}.part").touch()
    (folder / "notes.part").touch()
    for output in ("killed", "undisturbed"):
        train(make(output, batch={"max_steps": done + 3}))
    assert_same_course(make("undisturbed"), settings)
    left = [p.name for p in folder.rglob("*") if p.name.startswith((".saving", ".run")) or p.suffix == ".part"]
    assert left == ["notes.part"]


def test_an_interrupted_run_ends_after_its_step_and_goes_on(whole, make, monkeypatch):
    settings, take_step = make(), TrainingLoop.take_step

    def interrupt(self, batch):
        if self.step == 2:
            signal.raise_signal(signal.SIGINT)
        return take_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "take_step", interrupt)
        report = train(settings)
    assert (report.training["ended"], report.training["steps"]) == ("interrupted", 3)
    train(settings)
    assert_same_course(whole, settings)


# Trains by one config after the other; the run "stopped" is stopped after its third step, when the checkpoint of the
# second is the last, and goes on. At the very end each process notes whether the last run has been exported, and
# whether connections are still open.
LAUNCHED = """
import atexit, os, pathlib, sys
sys.path.insert(0, os.getcwd())
import torch
from training.engine.loop import TrainingLoop
from training.engine.run import train
from training.methods.registry import read_settings

after_step, stops = TrainingLoop._after_step, ["stopped"]

def stop(self):
    after_step(self)
    if self.step == 3 and self.folder.path.name in stops:
        stops.clear()
        raise KeyboardInterrupt

def note():
    found = f"{(run / 'report.json').is_file()} {torch.distributed.is_initialized()}"
    (run / f"last-{os.environ['RANK']}").write_text(found)

TrainingLoop._after_step = stop
atexit.register(note)
for config in sys.argv[1:]:
    settings = read_settings(config)
    run = pathlib.Path(settings.paths.output)
    try:
        train(settings)
    except KeyboardInterrupt:
        train(settings)
"""


def test_two_processes_give_the_weights_of_one_and_go_on_bit_for_bit(make, tmp_path):
    # Batches of an odd number of names on each side, and a last one that does not divide by two.
    plain = {"batch": {"pairs": 7, "dropout": 0.0, "max_steps": 12}, "objective": {"ignore_homonyms": True}}
    dropout = {"batch": {"pairs": 7, "dropout": 0.3, "max_steps": 4}}
    one, two = make("one", **plain), make("two", **plain)
    undisturbed, stopped = make("undisturbed", **dropout), make("stopped", **dropout)
    script = tmp_path / "launched.py"
    script.write_text(LAUNCHED)
    configs = [write_config(run, f"{run.paths.output}.cfg") for run in (two, undisturbed, stopped)]
    process = start("-m", "torch.distributed.run", "--nproc_per_node", 2, script, *configs)
    train(one)
    output, _ = process.communicate(timeout=240)
    assert not process.returncode, output.decode()
    assert [(tmp_path / "stopped" / f"last-{rank}").read_text() for rank in (0, 1)] == ["True False"] * 2
    assert_same_course(undisturbed, stopped)
    first, second = (final_weights(run)["random.cpu"] for run in (undisturbed, stopped))
    assert torch.equal(first, second) and not torch.equal(*first)
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
    # The softmax of attention does not depend on the keys' biases: their gradients are rounding errors around 0, which
    # Adam blows up to full steps.
    weights, others = (
        {k: v for k, v in final_weights(run).items() if k.startswith("weights.") and not k.endswith("key.bias")}
        for run in (one, two)
    )
    assert_same(weights, others, atol=1e-5)


def test_training_learns_and_exports_what_it_measured(make, held_out):
    task, paths = held_out
    # Searched among some names only, during the run and at its end.
    batch, run = {"max_steps": 0, "epochs": 3}, {"evaluation_steps": 10, "held_out_names": 12}
    settings = make(paths=paths, batch=batch, run=run)
    report = train(settings)
    assert np.mean(losses(settings)[-5:]) < np.mean(losses(settings)[:5])
    folder = Path(settings.paths.output) / "encoder"
    shim = load_encoder(folder, "auto")
    assert shim.fingerprint == report.encoder["trained"] != report.encoder["base"]
    assert measure_names(shim, limit_names(task, 12)) == report.held_out["after"]
    entries = [entry for entry in RunFolder(settings.paths.output).read_metrics() if "evaluation" in entry]
    assert [entry["step"] for entry in entries][:3] == [0, 10, 20]
    assert entries[0]["evaluation"] == report.held_out["before"]
    assert report.held_out["after"]["queries"] == 5
    assert 12 <= report.held_out["after"]["names"] < len(task.names)
    assert f"{report.data['pairs']:,} pairs" in (folder / "README.md").read_text()


def test_tensorboard_gets_each_metric_also_of_a_run_that_was_stopped(make, held_out, monkeypatch, tmp_path):
    settings = make(paths=held_out[1], run={"evaluation_steps": 2, "tensorboard": True})
    monkeypatch.setattr("training.engine.run.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"run.tensorboard.*pip install tensorboard"):
        train(settings)
    assert not (tmp_path / "run").exists()
    # A stand-in for the library.
    library = MagicMock()
    board = library.SummaryWriter.return_value.__enter__.return_value
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", library)
    monkeypatch.setattr("training.engine.run.find_spec", lambda _: True)
    # After step 5; the last checkpoint is at 4.
    kill_at(monkeypatch, settings, 5)
    train(settings)
    assert [call.kwargs["purge_step"] for call in library.SummaryWriter.call_args_list] == [0, 5]
    written = {(label, step): value for label, value, step in (call.args for call in board.add_scalar.call_args_list)}
    for entry in RunFolder(settings.paths.output).read_metrics():
        if "evaluation" in entry:
            assert written["held-out names/acc_at_1", entry["step"]] == entry["evaluation"]["acc_at_1"]
        else:
            for name in ("loss", "learning_rate", "positives", "pairs"):
                assert written[f"training/{name}", entry["step"]] == entry[name]


def test_bottleneck_adapters_have_the_published_numbers_of_weights():
    def count(**settings):
        # Of the shape of BERT-base where adapters are, and small elsewhere.
        sizes = {"vocab_size": 2, "max_position_embeddings": 8, "intermediate_size": 8}
        transformer = BertModel(BertConfig(**sizes), add_pooling_layer=False)
        add_adapter(transformer, AdapterSettings(kind="bottleneck", **settings))
        return count_trainable(transformer)

    # 13.22 % and 1.09 % of BERT-base in table 7 of the paper, whose "0.60 M" for the second one is a slip.
    assert count(reduction=1) == 14_470_272
    assert count(reduction=16) == 1_190_592


def test_pairs_of_held_out_concepts_are_not_trained_on(make, held_out, tmp_path):
    task, paths = held_out
    with pytest.raises(ValueError, match=rf"5 concepts.*{min(task.gold)[0]}"):
        train(make(paths={"held_out": paths["held_out"]}))
    assert not list_checkpoints(tmp_path / "run" / "checkpoints")


def test_a_run_that_has_ended_stays_as_it_is(make, copy):
    again = train(copy)
    assert again.training["ended"] == "max_steps" and again.training["steps"] == 6
    settings = make("short", batch={"max_minutes": 1e-6, "max_steps": 0})
    first, again = train(settings), train(settings)
    assert first.training["ended"] == again.training["ended"] == "max_minutes"
    assert first.training["steps"] == again.training["steps"] == 1 and first.encoder == again.encoder


def test_all_processes_end_at_the_same_step():
    class Two:
        num_processes, device, is_main_process = 2, torch.device("cpu"), True

        def gather(self, own):
            return torch.cat([own, torch.tensor([self.other])])

    loop = TrainingLoop.__new__(TrainingLoop)
    loop.accelerator = Two()
    for own, other, agreed in [(None, 0, None), (None, 2, "max_minutes"), ("interrupted", 0, "interrupted")]:
        loop.accelerator.other = other
        assert loop._agree(own) == agreed


def test_half_precision_changes_the_weights_as_single_precision_would(make):
    single, half = (
        make(precision, run={"precision": precision}, batch={"dropout": 0.0}) for precision in ("fp32", "fp16")
    )
    for settings in (single, half):
        train(settings)
    assert losses(half) == pytest.approx(losses(single), abs=0.05)
    first, second = final_weights(single), final_weights(half)
    name = "weights.transformer.encoder.layer.0.output.dense.weight"
    start = read_encoder(single.paths.encoder).transformer.state_dict()[name.removeprefix("weights.transformer.")]
    moved, moved_half = (first[name] - start).flatten(), (second[name] - start).flatten()
    assert torch.nn.functional.cosine_similarity(moved, moved_half, dim=0) > 0.9
