"""Relation classification: what is chosen, how it is split, and that what can be learned is learned."""

import numpy as np
import polars as pl
import pytest
import torch
from conftest import load_encoder
from pair_rows import build, save_triple_rows

from training.encoders.embeddings import Embeddings
from training.evaluation import relations as module
from training.evaluation.relations import (
    RelationTask,
    RelationTaskSettings,
    TooFewRelations,
    choose_triples,
    find_inverses,
)
from training.evaluation.settings import Limits
from training.evaluation.systems.encoder import EncoderSystem
from training.evaluation.systems.vectors import ConceptVectors, VectorTable

N = 40
CONCEPTS = [f"C{number:02}" for number in range(N)]


@pytest.fixture(scope="module")
def names():
    return build({id_: [f"{'ab'[n % 2]}{'cd'[n // 2 % 2]} {'xyz'[n % 3]}{n}"] for n, id_ in enumerate(CONCEPTS)})


def choose(folder, names, **settings):
    return choose_triples(names, RelationTaskSettings(triples=str(folder), **settings))


def measure(vectors, names, data, **settings):
    """Measure, and return values by metric, and the other facts."""
    measured = RelationTask("relations", data, names, RelationTaskSettings(**settings)).measure(vectors)
    # Deviations of one seed are not defined.
    values = {figure.metric: figure.value for figure in measured.figures if figure.value == figure.value}
    return values | measured.details


def parity_triples():
    """Make triples whose label says whether the head, and whether the tail, has an even number."""
    pairs = [(head, tail) for head in range(N) for tail in range(N) if head < tail]
    return [(CONCEPTS[head], f"R{head % 2}{tail % 2}", CONCEPTS[tail]) for head, tail in pairs]


def parity_vectors(width=6, seed=0):
    noise = np.random.default_rng(seed).normal(size=(N, width)).astype("f4")
    noise[:, 0] = np.where(np.arange(N) % 2, 3, -3)
    return ConceptVectors.of(VectorTable(CONCEPTS, noise))


def test_inverse_labels_are_found(names):
    rows = [("C00", "b", "C01"), ("C02", "b", "C03"), ("C01", "a", "C00"), ("C03", "a", "C02"), ("C05", "c", "C06")]
    rows += [("C07", "sib", "C08"), ("C08", "sib", "C07"), ("C06", "d", "C05"), ("C05", "d", "C04")]
    frame = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    assert find_inverses(frame.with_columns(pl.col("head", "tail").str.slice(1).cast(pl.Int64))) == {"b": "a"}


def test_what_is_left_out_is_counted(tmp_path, names):
    rows = [*parity_triples()[:200], ("C00", "R01", "C99"), ("C39", "rare", "C00"), ("C39", "rare", "C01")]
    rows += [(tail, f"inverse_{label}", head) for head, label, tail in rows if label == "R00"]
    rows += [("C00", "other", "C01")]
    folder = save_triple_rows(rows, tmp_path / "triples")
    n_even = sum(label == "R00" for _, label, _ in rows)
    data = choose(folder, names, min_triples=10)
    left_out = {reason: n for reason, n in data.report["left_out"].items() if n}
    assert left_out == {"unknown_concept": 1, "inverse_label": n_even, "pair_of_several_labels": 2, "rare_label": 2}
    assert data.report["inverse_of"] == {"inverse_R00": "R00"}
    assert data.report["triples_read"] == len(rows) == len(data.labels) + sum(left_out.values())
    assert data.names == ["R00", "R01", "R10", "R11"]
    # The labels still belong to their triples.
    for head, tail, label in zip(*data.ends.T, data.labels, strict=True):
        assert (data.concepts[head], data.names[label], data.concepts[tail]) in rows


def test_the_split_has_the_same_shares_whatever_the_order(tmp_path, names):
    rows = parity_triples()
    data = choose(save_triple_rows(rows, tmp_path / "a"), names)
    for label in range(4):
        of_label = data.labels == label
        assert data.is_test[of_label].sum() == round(0.2 * of_label.sum())
    assert choose(save_triple_rows(rows[::-1], tmp_path / "b"), names).hash() == data.hash()
    few = choose(save_triple_rows(rows, tmp_path / "d"), names, max_triples=20)
    assert few.report["labels"] == dict.fromkeys(data.names, 20) and few.report["test"] == 16
    assert few.report["left_out"]["beyond_maximum"] == len(rows) - 80


def test_what_leaves_one_label_is_refused(tmp_path, names):
    folder = save_triple_rows([row for row in parity_triples() if row[1] == "R00"], tmp_path / "triples")
    with pytest.raises(TooFewRelations, match="1 of the relations"):
        choose(folder, names)
    with pytest.raises(TooFewRelations, match="0 of the relations.*rare label"):
        choose(folder, names, min_triples=1000)
    names.to_disk(tmp_path / "names")
    chosen = RelationTaskSettings(terminology=str(tmp_path / "names"), triples=str(folder))
    (missing,) = chosen.make("relations", Limits())
    assert "1 of the relations" in missing.reason


@pytest.mark.parametrize("wrong", [{"min_triples": 1}, {"max_triples": -1}, {"seeds": ()}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RelationTaskSettings.read(wrong)


@pytest.fixture(scope="module")
def data(tmp_path_factory, names):
    return choose(save_triple_rows(parity_triples(), tmp_path_factory.mktemp("triples")), names)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "RATES", {False: (64, 0.02), True: (96, 2e-3)})


def test_what_vectors_tell_is_learned(data, names, quick):
    result = measure(parity_vectors(), names, data, seeds=(1, 2), epochs=15)
    assert result["accuracy"] > 0.95 and result["macro_f1"] > 0.95 and result["accuracy_sd"] >= 0
    assert result["accuracy"] == pytest.approx(np.mean([run["accuracy"] for run in result["runs"]]))
    most = int(np.bincount(data.labels[~data.is_test]).argmax())
    assert result["majority_accuracy"] == pytest.approx((data.labels[data.is_test] == most).mean())
    sizes = np.bincount(data.labels[data.is_test])
    weighted = sum(result[f"accuracy.{name}"] * size for name, size in zip(data.names, sizes, strict=True))
    assert weighted / result["test"] == pytest.approx(result["accuracy"])
    assert result["data"].startswith("substitute") and result["coverage"] == 1


def test_runs_repeat_and_leave_the_random_state_alone(data, names, quick):
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    first, again = (measure(parity_vectors(), names, data, epochs=3) for _ in range(2))
    assert first == again and torch.equal(state, torch.random.get_rng_state())
    tasks = [RelationTask("relations", data, names, RelationTaskSettings(seeds=seeds)) for seeds in ((72,), (5,))]
    assert tasks[0].hash() != tasks[1].hash()


def test_the_head_equals_plain_softmax_regression(data, names, monkeypatch):
    """One step of AdamW moves each weight by the learning rate against the sign of its gradient."""
    monkeypatch.setattr(module, "RATES", {False: (10_000, 0.5)})
    vectors = parity_vectors()
    result = measure(vectors, names, data, epochs=1)
    with torch.random.fork_rng():
        torch.manual_seed(72)
        layer = torch.nn.Linear(12, 4)
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    table = dict(zip(vectors.loaded.keys, vectors.loaded.vectors.astype(float), strict=True))
    x = np.array([[*table[data.concepts[h]], *table[data.concepts[t]]] for h, t in data.ends])
    logits = x[~data.is_test] @ weight.T + bias
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = shares - np.eye(4)[data.labels[~data.is_test]]
    weight -= 0.5 * np.sign(error.T @ x[~data.is_test])
    bias -= 0.5 * np.sign(error.sum(axis=0))
    predicted = (x[data.is_test] @ weight.T + bias).argmax(axis=1)
    assert result["accuracy"] == pytest.approx((predicted == data.labels[data.is_test]).mean())


def test_concepts_without_vectors_are_counted(data, names, quick):
    table = parity_vectors().loaded
    part = ConceptVectors.of(VectorTable(CONCEPTS[:30], table.vectors[:30]))
    result = measure(part, names, data, epochs=2)
    assert result["train"] + result["test"] == 30 * 29 // 2
    assert result["accuracy_of_all"] == pytest.approx(result["accuracy"] * result["test"] / data.report["test"])
    with pytest.raises(ValueError, match="vectors at both ends"):
        measure(ConceptVectors.of(VectorTable(CONCEPTS[:1], table.vectors[:1])), names, data)


def test_an_encoder_learns_more_than_its_frozen_vectors_tell(data, names, encoder_folder, quick):
    encoder = load_encoder(encoder_folder, max_length=16)
    before = encoder.encode_unscaled(["cold"])
    settings = {"fine_tune": True, "epochs": 4}
    result, again = (measure(EncoderSystem.of(Embeddings(encoder)), names, data, **settings) for _ in range(2))
    assert result == again and result["mode"] == "fine-tune"
    frozen = measure(EncoderSystem.of(Embeddings(encoder)), names, data, epochs=4)
    assert result["accuracy"] > max(0.9, frozen["accuracy"])
    np.testing.assert_array_equal(encoder.encode_unscaled(["cold"]), before)
    with pytest.raises(ValueError, match="other vectors"):
        measure(parity_vectors(), names, data, **settings)


def test_unseen_triples_have_an_end_outside_of_training(tmp_path, names):
    folder = save_triple_rows(parity_triples(), tmp_path / "triples")
    seen = build({concept: [concept] for concept in CONCEPTS[:20]})
    chosen = RelationTaskSettings(triples=str(folder), unseen="x", min_triples=10)
    data = choose_triples(names, chosen, seen=seen)
    assert data.report["left_out"]["seen"] == 20 * 19 // 2
    task = RelationTask("unseen", data, names, chosen)
    task.check_unseen(set(CONCEPTS[:20]), "here")
    with pytest.raises(ValueError, match="both concepts are in here, as C"):
        task.check_unseen(set(CONCEPTS[10:30]), "here")
    RelationTask("all", data, names, RelationTaskSettings()).check_unseen(set(CONCEPTS), "here")
