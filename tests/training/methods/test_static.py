"""Static encoders: vocabulary, loss and optimizer against plain loops, runs that stop and go on, what is exported."""

import json

import numpy as np
import polars as pl
import pytest
import torch
from accelerate import Accelerator
from command_line import run_command
from conftest import load_encoder
from safetensors.numpy import load_file
from small_runs import TEXTS, final_weights, make_any, terminology, world
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from spacy_sapbert.encoder.folder import read_encoder
from spacy_sapbert.encoder.shim import EncoderShim
from training.encoders.bases import load_base
from training.engine.run import export_run, train
from training.methods import tables
from training.methods.registry import METHODS
from training.methods.static import RowAdagrad
from training.methods.tables import (
    START_FILE,
    Teacher,
    TokenTableSettings,
    fit_projection,
    load_start,
    make_tokenizer,
)

# Fixtures.
__all__ = ["make_any", "terminology", "world"]


@pytest.fixture
def make(make_any, tmp_path):
    """Make settings of a small run of this method."""

    def make_run(output="run", paths=None, **sections):
        return make_any("static", output, paths={"vectors": str(tmp_path / "vectors"), **(paths or {})}, **sections)

    return make_run


def build(settings):
    """Load data and make the model, as the runner does."""
    base = load_base(settings.paths.encoder, settings.encoder, precision=settings.run.precision)
    method = METHODS["static"](settings, base, Accelerator(cpu=True))
    method.learned = method.load()
    method.model = method.build()
    return method


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_the_loss_is_that_of_a_plain_loop(make):
    method = build(make())
    batch = next(method.batches(0))
    entry = method.loss(batch, scale=3.0)
    table, data = method.model.transformer, method.data
    rows = table.rows.detach().double().requires_grad_(True)

    def encode(string):
        ids = [token for token in table.tokenizer.encode(string).ids if token]
        vector = sum(rows[token] for token in ids)
        return vector / vector.norm()

    pair_rows, text_rows = batch
    names = [data.names[int(row)] for side in (data.left, data.right) for row in side[pair_rows]]
    labels = [int(label) for label in data.labels[pair_rows]] * 2
    vectors = [encode(name) for name in names]
    costs = []
    for a, anchor in enumerate(vectors):
        negatives = sum(
            torch.exp(anchor @ other / 0.1)
            for b, other in enumerate(vectors)
            if labels[a] != labels[b] and names[a] != names[b]
        )
        for b, other in enumerate(vectors):
            if a != b and labels[a] == labels[b]:
                positive = torch.exp(anchor @ other / 0.1)
                costs.append(-torch.log(positive / (positive + negatives)))
    contrast = sum(costs) / len(costs)
    # The teacher's vectors, projected, in plain steps.
    teacher = method.base
    sample = teacher.encode(data.names.to_list())
    mean, components = fit_projection(sample, 8)

    def measure(strings):
        targets = [unit((teacher.encode([string])[0] - mean) @ components) for string in strings]
        pairs = zip(strings, targets, strict=True)
        return sum(1 - encode(string) @ torch.from_numpy(target).double() for string, target in pairs) / len(strings)

    texts = [TEXTS[row] for row in text_rows]
    total = contrast + 0.5 * measure(names) + 2.0 * measure(texts)
    assert entry["contrast"] == pytest.approx(contrast.item(), rel=1e-4)
    # Targets are kept in half precision.
    assert entry["loss"] == pytest.approx(total.item(), rel=1e-3)
    total.backward()
    torch.testing.assert_close(table.rows.grad.to_dense().double(), 3.0 * rows.grad, rtol=2e-3, atol=2e-3)


def test_adagrad_has_one_learning_rate_a_row():
    table = torch.nn.Parameter(torch.randn(5, 4))
    plain, sums = table.detach().clone(), [0.0] * 5
    optimizer = RowAdagrad([table], lr=0.5)
    for step in range(4):
        optimizer.zero_grad()
        ids = torch.tensor([step % 3, 3, 3])
        gradient = torch.randn(3, 4)
        (torch.nn.functional.embedding(ids, table, sparse=True) * gradient).sum().backward()
        optimizer.step()
        for row in set(ids.tolist()):
            total = sum(gradient[i] for i in range(3) if ids[i] == row)
            sums[row] += float((total**2).mean())
            plain[row] -= 0.5 * total / sums[row] ** 0.5
    torch.testing.assert_close(table.detach(), plain)


def test_the_export_is_a_folder_whose_vectors_are_those_of_a_plain_computation(make, tmp_path):
    settings = make()
    report = train(settings)
    folder = tmp_path / "run" / "encoder"
    encoder = load_encoder(folder)
    assert encoder.fingerprint == report.encoder["trained"] and encoder.width == 8
    stored, trained = load_file(folder / "model.safetensors"), final_weights(settings)["weights.transformer.rows"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert stored["rows"].dtype == np.int8 and len(stored["rows"]) == tokenizer.get_vocab_size()
    assert not stored["rows"][0].any()
    strings = ["acute heart failure", "b12 pain", "attack, of the liver", "Chronic"]
    for string, vector in zip(strings, encoder.encode(strings), strict=True):
        ids = tokenizer.encode(string).ids
        np.testing.assert_allclose(vector, unit(sum(stored["rows"][i] * stored["scales"][i] for i in ids)), atol=1e-6)
        exact = unit(sum(trained[i].numpy() for i in ids if i))
        np.testing.assert_allclose(vector, exact, atol=0.03)
    card = (folder / "README.md").read_text(encoding="utf8")
    assert "Model2Vec" in card and "int8" in card and "Pooling mean" in card and "4 texts" in card
    assert report.export["dtype"] == "int8" and report.encoder["pooling"] == "mean"
    # Again from the checkpoint, also where the run has been moved, and with a share of the table before training.
    (tmp_path / "run").rename(tmp_path / "moved")
    assert export_run(tmp_path / "moved", tmp_path / "again").encoder == report.encoder
    export_run(tmp_path / "moved", tmp_path / "half", base_share=0.5)
    mixed = load_file(tmp_path / "half" / "model.safetensors")
    expected = (load_start(tmp_path / "moved").start + trained) / 2
    np.testing.assert_allclose(mixed["rows"] * mixed["scales"][:, None], expected, atol=0.02)
    with pytest.raises(ValueError, match="bf16.*int8"):
        export_run(tmp_path / "moved", tmp_path / "bf16", dtype="bf16")
    (tmp_path / "moved" / START_FILE).unlink()
    with pytest.raises(FileNotFoundError, match="start.safetensors"):
        export_run(tmp_path / "moved", tmp_path / "none")


def test_a_refused_run_leaves_the_start_of_the_former_one(make, tmp_path):
    train(make())
    before = (tmp_path / "run" / START_FILE).read_bytes()
    with pytest.raises(ValueError, match="table.width: 8, not 4"):
        train(make(table={"width": 4}))
    assert (tmp_path / "run" / START_FILE).read_bytes() == before
    export_run(tmp_path / "run", tmp_path / "exported")


def test_vectors_of_the_teacher_are_computed_once(make, monkeypatch):
    train(make("first"))
    monkeypatch.setattr(EncoderShim, "encode_tokens", None)
    settings = make("second", table={"words": 3}, run={"seed": 5})
    build(settings)


def test_tables_are_no_wider_than_the_teacher_and_do_without_its_vectors(make):
    with pytest.raises(ValueError, match="table.width is 33,.*at most 32, the width of the teacher"):
        train(make(table={"width": 33}))
    # Without weights, nothing of them is needed.
    report = train(make("plain", paths={"texts": ""}, distillation={"names": 0.0, "texts": 0.0}))
    assert report.training["steps"] == 6 and report.data["texts"] == 0


def test_teachers_of_another_kind_are_refused(encoder_folder):
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "heart": 1}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]").backend_tokenizer
    with pytest.raises(ValueError, match="WordLevel, not WordPiece"):
        make_tokenizer(tokenizer, ["heart"], TokenTableSettings(), lower_case=False)


def test_the_vocabulary_has_frequent_words_and_no_unused_pieces(encoder_folder, monkeypatch):
    teacher = read_encoder(encoder_folder).tokenizer.backend_tokenizer
    data = json.loads(teacher.to_str())
    for piece in ("[unused1]", "\u5fc3", "\u03b1", "##\u03b2"):
        data["model"]["vocab"][piece] = len(data["model"]["vocab"])
    teacher = Tokenizer.from_str(json.dumps(data))
    names = ["Heart attack", "heart failure", "acute heart", "acute attack", "rare"]
    settings = TokenTableSettings(words=2)
    monkeypatch.setattr(tables, "MIN_NAMES", 2)
    tokenizer = make_tokenizer(teacher, names, settings, lower_case=False)
    vocabulary = tokenizer.get_vocab()
    assert sorted(vocabulary.values()) == list(range(len(vocabulary))) and vocabulary["[UNK]"] == 0
    # The most frequent word first, equally frequent ones in order.
    assert vocabulary["heart"] == len(vocabulary) - 2 and vocabulary["acute"] == len(vocabulary) - 1
    assert {"\u03b1", "##\u03b2"} <= set(vocabulary) and {"attack", "\u5fc3", "[unused1]", "[CLS]"}.isdisjoint(
        vocabulary
    )
    assert tokenizer.encode("Acute HEART").tokens == ["acute", "heart"]
    assert tokenizer.encode("hearts \u5fc3").tokens == ["heart", "##s", "[UNK]"]
    everything = make_tokenizer(teacher, names, TokenTableSettings(scripts="all", words=99), lower_case=True)
    assert {"\u5fc3", "[unused1]", "attack"} <= set(everything.get_vocab()) and "rare" not in everything.get_vocab()
    assert everything.encode("ACUTE").tokens == ["acute"]


def test_strings_are_encoded_as_the_encoder_does(encoder, tmp_path):
    teacher = Teacher(encoder, tmp_path / "vectors")
    strings = ["heart", "liver pain", "heart", "\u5fc3"]
    vectors = teacher.encode(pl.Series(strings))
    np.testing.assert_allclose(vectors[:3], encoder.encode(strings[:3]), atol=1e-6)
    assert not vectors[3].any()
    np.testing.assert_allclose(teacher.encode_pieces(["a", "heart"]), encoder.encode(["a", "heart"]), atol=1e-6)


def test_an_exported_encoder_brings_its_threshold(make, tmp_path):
    train(make())
    for given, found in ((), 0.0), (("--threshold", "0.7"), 0.7):
        run_command("export", tmp_path / "run", tmp_path / "made", *given)
        assert read_encoder(tmp_path / "made").threshold == found
