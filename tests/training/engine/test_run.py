"""Training: gradients against a plain loop, runs that stop and go on, what comes out."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from small_runs import (
    LAST_WORDS,
    ROOT,
    assert_same,
    final_weights,
    held_out,
    losses,
    make,
    pairs,
    start,
    stop_at,
    terminology,
    wait_for_steps,
)
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from spacy_sapbert.encoder.folder import read_encoder
from spacy_sapbert.encoder.shim import EncoderShim
from training.data.pairs import load_pairs
from training.data.run_folder import LOCK_FILE, RunFolder
from training.engine.checkpoints import CHECKPOINT_FILE, FORMAT_VERSION, list_checkpoints
from training.engine.gradient import ChunkedGradient
from training.engine.loop import TrainingLoop, learning_rate
from training.engine.objectives import make_loss, make_miner
from training.engine.run import count_trainable, export_run, measure_names, train
from training.engine.settings import OptimizerSettings
from training.methods.pairs import Batches, Objective
from training.methods.registry import METHODS, read_settings
from training.methods.sapbert import AdapterSettings, add_adapter

# Fixtures.
__all__ = ["held_out", "make", "pairs", "terminology"]


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
def batch(pairs, encoder_folder):
    data = load_pairs(pairs)
    shim = EncoderShim({}, "fp32")
    shim.load(encoder_folder)
    rows = next(Batches(data.labels, 12, 1).iterate())
    names = np.concatenate([data.left[rows], data.right[rows]])
    tokens = [np.array(ids) for ids in shim.tokenize(data.names.gather(names).to_list())]
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
@pytest.mark.parametrize("chunk_names", [1, 5, 1000])
def test_gradient_cache_changes_nothing(encoder_folder, batch, chunk_names, dropout):
    tokens, labels, _ = batch
    how = {"chunk_names": chunk_names, "dropout": dropout}
    loss, gradients = make_gradients(encoder_folder, tokens, labels, **how)
    cached_loss, cached = make_gradients(encoder_folder, tokens, labels, gradient_cache=True, **how)
    assert loss == pytest.approx(cached_loss, rel=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, cached[name], rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(make, schedule, monkeypatch):
    optimizer = {"schedule": schedule, "warmup_steps": 2}
    whole, stopped = make("whole", optimizer=optimizer), make("stopped", optimizer=optimizer)
    train(whole)
    assert len(losses(whole)) == 6
    with monkeypatch.context() as patch:
        stop_at(3, patch)
        with pytest.raises(RuntimeError):
            train(stopped)
    assert len(losses(stopped)) == 3  # the third step is after the last checkpoint, and is taken again
    for _ in range(2):  # the second time, there is nothing left to do
        train(stopped)
        assert losses(stopped) == losses(whole)
        assert_same(final_weights(stopped), final_weights(whole))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_interrupted_runs_go_on_and_leave_nothing_behind(make, tmp_path, number):
    steps = {"batch": {"max_steps": 400}}
    settings = make("killed", **steps)
    process = start(settings, tmp_path)
    wait_for_steps(settings, 7)
    process.send_signal(number)
    output, _ = process.communicate(timeout=180)
    done, output_folder = len(losses(settings)), Path(settings.paths.output)
    assert done < 400
    # Who is killed leaves its lock, which the system has dropped, and may leave files that are incomplete.
    assert (output_folder / LOCK_FILE).exists() == (number == signal.SIGKILL)
    (output_folder / "checkpoints" / f".saving-{'0' * 32}").mkdir(parents=True, exist_ok=True)
    (output_folder / f"settings.json.{'0' * 32}.part").touch()
    own = output_folder / "notes.part"
    own.touch()
    if number == signal.SIGINT:
        assert process.returncode == 0 and b"interrupted" in output
        assert RunFolder(output_folder).read_report().training["ended"] == "interrupted"
    end = {"batch": {"max_steps": done + 3}}
    whole = make("whole", **end)
    train(make("killed", **end))
    train(whole)
    assert losses(settings) == losses(whole)
    assert_same(final_weights(settings), final_weights(whole))
    left = [p for p in output_folder.rglob("*") if p.name.startswith((".saving", ".run")) or p.suffix == ".part"]
    assert left == [own]


def test_two_processes_give_the_weights_of_one(make, tmp_path):
    # Batches of an odd number of names on each side, and a last one that does not divide by two.
    settings = {"batch": {"pairs": 7, "dropout": 0.0, "max_steps": 12}, "objective": {"ignore_homonyms": True}}
    one, two = make("one", **settings), make("two", **settings)
    script = tmp_path / "training_with_last_words.py"
    script.write_text(LAST_WORDS)
    process = start(two, tmp_path, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(script))
    train(one)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output.decode()
    assert [(tmp_path / "two" / f"last-{rank}").read_text() for rank in (0, 1)] == ["True False"] * 2
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
    settings = make(paths=paths, batch={"max_steps": 0, "epochs": 6}, run={"evaluation_steps": 10})
    report = train(settings)
    assert np.mean(losses(settings)[-5:]) < np.mean(losses(settings)[:5])
    folder = Path(settings.paths.output) / "encoder"
    shim = EncoderShim({}, "auto")
    shim.load(folder)
    assert shim.fingerprint == report.encoder["trained"] != report.encoder["base"]
    assert measure_names(shim, task) == report.held_out["after"]
    evaluated = [entry["step"] for entry in RunFolder(settings.paths.output).read_metrics() if "evaluation" in entry]
    assert evaluated[:3] == [0, 10, 20]
    assert f"{report.data['pairs']:,} pairs" in (folder / "README.md").read_text()


def test_held_out_names_can_be_searched_among_few(make, held_out, tmp_path):
    task, paths = held_out
    report = train(make(paths=paths, batch={"max_steps": 1}, run={"held_out_names": 12, "evaluation_steps": 1}))
    during = [entry["evaluation"] for entry in RunFolder(tmp_path / "run").read_metrics() if "evaluation" in entry][1]
    assert during["queries"] == 5 and 12 <= during["names"] < len(task.names)
    assert report.held_out["before"]["names"] == report.held_out["after"]["names"] == during["names"]


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


@pytest.mark.parametrize("step, rate", [(0, 0.5), (1, 1.0), (2, 1.0), (6, 0.5), (9, 0.125)])
def test_learning_rate_rises_and_falls(step, rate):
    settings = OptimizerSettings(learning_rate=1.0, schedule="linear", warmup_steps=2)
    assert learning_rate(settings, step, 10) == rate
    constant = OptimizerSettings(learning_rate=1.0)
    assert learning_rate(constant, step, 10) == 1.0


@pytest.mark.parametrize("batch, reason", [({"max_minutes": 1e-6, "max_steps": 0}, "max_minutes"), ({}, "max_steps")])
def test_a_run_that_has_ended_stays_as_it_is(make, batch, reason):
    settings = make(batch=batch)
    first = train(settings)
    again = train(settings)
    assert first.training["ended"] == again.training["ended"] == reason
    assert first.training["steps"] == again.training["steps"] == (1 if reason == "max_minutes" else 6)
    assert first.encoder == again.encoder


def test_all_processes_end_at_the_same_step(make, monkeypatch):
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
        make(precision, run={"precision": precision}, batch={"dropout": 0.0, "max_steps": 12})
        for precision in ("fp32", "fp16")
    )
    for settings in (single, half):
        train(settings)
    assert losses(half) == pytest.approx(losses(single), abs=0.05)
    first, second = final_weights(single), final_weights(half)
    name = "weights.transformer.encoder.layer.0.output.dense.weight"
    start = read_encoder(single.paths.encoder).transformer.state_dict()[name.removeprefix("weights.transformer.")]
    moved, moved_half = (first[name] - start).flatten(), (second[name] - start).flatten()
    assert torch.nn.functional.cosine_similarity(moved, moved_half, dim=0) > 0.9


def test_checkpoints_that_do_not_fit_are_refused_with_what_to_do(make, tmp_path):
    train(make())
    for changes, message in (
        ({"optimizer": {"learning_rate": 0.5}}, r"other settings.*optimizer.learning_rate: 0.001, not 0.5"),
        # What comes out of a run is an encoder to start from, with other weights.
        ({"paths": {"encoder": str(tmp_path / "run" / "encoder")}}, "other settings.*base.fingerprint"),
        ({"batch": {"max_steps": 5}}, "taken 6 steps.*ask for 5"),
    ):
        with pytest.raises(ValueError, match=message):
            train(make(**changes))
    last = list_checkpoints(tmp_path / "run" / "checkpoints")[-1] / CHECKPOINT_FILE
    last.write_text(json.dumps({**json.loads(last.read_text()), "format": FORMAT_VERSION - 1}))
    for use in (lambda: train(make()), lambda: export_run(tmp_path / "run", tmp_path / "encoder")):
        with pytest.raises(ValueError, match="step-00000006.*another version"):
            use()


@pytest.mark.parametrize(
    "section, values, message",
    [
        ("batch", {"pairs": 1}, "batch.pairs"),
        ("batch", {"size": 1}, "size.*pairs"),
        ("batch", {"pairs": 8.0}, "batch.pairs: .*valid integer, not 8.0"),
        ("batch", {"epochs": True}, "batch.epochs"),
        ("objective", {"loss": "ms"}, "objective.loss"),
        ("objective", {"constants": {"alpha": "x"}}, "objective.constants"),
        ("objective", {"constants": {"alpha": -2.0}}, "alpha is -2.0.*more than 0"),
        ("objective", {"loss": "triplet", "constants": {"margin": -0.1}}, "margin is -0.1.*0 or more"),
        ("objective", {"loss": "triplet", "constants": {"alpha": 1.0}}, "triplet.*no constant alpha, only margin"),
        ("objective", {"loss": "cosine", "preset": "released"}, "released code has no loss cosine"),
        ("objective", {"miner": "off", "margin": 0.1}, "objective.margin is 0.1, with the miner 'off'"),
        ("optimizer", {"learning_rate": "high"}, "learning_rate: .*valid number, not 'high'"),
        ("optimizer", {"learning_rate": float("nan")}, "learning_rate"),
        ("run", {"precision": "fp8"}, "run.precision"),
        ("run", {"base_share": 1.0}, "run.base_share"),
        ("run", {"seed": 2**32}, "run.seed.*less than or equal to 4294967295"),
    ],
)
def test_settings_without_meaning_are_refused(make, section, values, message):
    with pytest.raises(ValueError, match=message):
        make(**{section: values})


def test_configs_that_come_with_it_can_be_read(tmp_path):
    for path in (ROOT / "training" / "configs").glob("*.cfg"):
        settings = read_settings(path, {"run.seed": 7})
        assert settings.run.seed == 7 and isinstance(settings, METHODS[settings.run.method].Settings)
    with pytest.raises(FileNotFoundError, match="There is no config"):
        read_settings("nowhere.cfg")
    (tmp_path / "run.cfg").write_text("paths = here")
    with pytest.raises(ValueError, match="run.cfg"):
        read_settings(tmp_path / "run.cfg")
