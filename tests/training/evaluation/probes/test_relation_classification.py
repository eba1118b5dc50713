"""Relation classification: what is chosen, how it is split, and that what can be learned is learned."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import srsly
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score
from typer.testing import CliRunner

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.data.triple_data import index_triples, save_triples
from training.evaluation.probes.relation_classification import (
    FEATURES,
    FINE_TUNING,
    HeadSettings,
    classify_features,
    learning_rate_at,
    score_labels,
)
from training.evaluation.probes.relation_data import RelationChoice, find_inverses, read_relations
from training.evaluation.probes.relation_finetuning import finetune_relations
from training.evaluation.systems.concept_vectors import ConceptVectors
from training.evaluation.systems.encoder import EncoderSystem

N = 40
CONCEPTS = [f"C{number:02}" for number in range(N)]


@pytest.fixture(scope="module")
def names():
    builder = TerminologyBuilder()
    for number, concept in enumerate(CONCEPTS):
        builder.add_name(concept, f"{'ab'[number % 2]}{'cd'[number // 2 % 2]} {'xyz'[number % 3]}{number}")
    return builder.build()


def write(folder, rows):
    folder.mkdir(exist_ok=True)
    save_triples(index_triples(rows), folder, {})
    return folder


def parity_triples():
    """Make triples whose label says whether the head, and whether the tail, has an even number."""
    pairs = [(head, tail) for head in range(N) for tail in range(N) if head < tail]
    return [(CONCEPTS[head], f"R{head % 2}{tail % 2}", CONCEPTS[tail]) for head, tail in pairs]


def parity_vectors(width=6, seed=0):
    noise = np.random.default_rng(seed).normal(size=(N, width)).astype("f4")
    noise[:, 0] = np.where(np.arange(N) % 2, 3, -3)
    return ConceptVectors(CONCEPTS, noise, fingerprint="parity")


def test_inverse_labels_are_found(names):
    rows = [("C00", "b", "C01"), ("C02", "b", "C03"), ("C01", "a", "C00"), ("C03", "a", "C02"), ("C05", "c", "C06")]
    rows += [("C07", "sib", "C08"), ("C08", "sib", "C07"), ("C06", "d", "C05"), ("C05", "d", "C04")]
    frame = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    assert find_inverses(frame.with_columns(pl.col("head", "tail").str.slice(1).cast(pl.Int64))) == {"b": "a"}


def test_what_is_left_out_is_counted(tmp_path, names):
    rows = [*parity_triples()[:200], ("C00", "R01", "C99"), ("C39", "rare", "C00"), ("C39", "rare", "C01")]
    rows += [(tail, f"inverse_{label}", head) for head, label, tail in rows if label == "R00"]
    rows += [("C00", "other", "C01")]
    folder = write(tmp_path / "triples", rows)
    n_even = sum(label == "R00" for _, label, _ in rows)
    data = read_relations(folder, names, RelationChoice(min_triples=10))
    left_out = {reason: n for reason, n in data.report["left_out"].items() if n}
    assert left_out == {"unknown_concept": 1, "inverse_label": n_even, "pair_of_several_labels": 2, "rare_label": 2}
    assert data.report["inverse_of"] == {"inverse_R00": "R00"} and data.report["pairs_of_several_labels"] == 1
    assert data.report["triples_read"] == len(rows) == len(data.labels) + sum(left_out.values())
    assert data.names == ["R00", "R01", "R10", "R11"] and data.report["rare_labels"] == 1
    everything = read_relations(folder, names, RelationChoice(2, distinct_pairs=False, inverses=True))
    assert {"inverse_R00", "rare"} < set(everything.names) and "other" not in everything.names
    # The labels still belong to their triples.
    for head, tail, label in zip(data.heads, data.tails, data.labels, strict=True):
        assert (data.concepts[head], data.names[label], data.concepts[tail]) in rows


def test_the_split_has_the_same_shares_whatever_the_order(tmp_path, names):
    rows = parity_triples()
    data = read_relations(write(tmp_path / "a", rows), names)
    for label in range(4):
        of_label = data.labels == label
        assert data.is_test[of_label].sum() == round(0.2 * of_label.sum())
    assert read_relations(write(tmp_path / "b", rows[::-1]), names).hash() == data.hash()
    assert read_relations(write(tmp_path / "c", rows), names, RelationChoice(seed=1)).hash() != data.hash()
    few = read_relations(write(tmp_path / "d", rows), names, RelationChoice(max_triples=20))
    assert few.report["labels"] == dict.fromkeys(data.names, 20) and few.report["test"] == 16
    assert few.report["left_out"]["beyond_maximum"] == len(rows) - 80


def test_what_leaves_one_label_is_refused(tmp_path, names):
    folder = write(
        tmp_path / "triples", [(head, label, tail) for head, label, tail in parity_triples() if label == "R00"]
    )
    with pytest.raises(ValueError, match="E773.*1 labels"):
        read_relations(folder, names)
    with pytest.raises(ValueError, match="E773.*0 labels.*rare_label"):
        read_relations(folder, names, RelationChoice(min_triples=1000))
    for wrong in ({"min_triples": 1}, {"max_triples": 1}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}"):
            RelationChoice(**wrong)
    for wrong in ({"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"warm_up": 2.0}, {"seeds": ()}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}"):
            HeadSettings(**wrong)


@pytest.fixture
def data(tmp_path, names):
    return read_relations(write(tmp_path / "triples", parity_triples()), names)


QUICK = replace(FEATURES, batch_size=64, learning_rate=0.02)


@pytest.mark.parametrize("standardise", [False, True])
def test_what_vectors_tell_is_learned(data, names, standardise):
    result = classify_features(parity_vectors(), names, data, replace(QUICK, standardise=standardise, seeds=(1, 2)))
    assert result["accuracy"] > 0.95 and result["macro_f1"] > 0.95 and result["accuracy_sd"] is not None
    assert result["accuracy"] == pytest.approx(np.mean([run["accuracy"] for run in result["runs"]]))
    most = int(np.bincount(data.labels[~data.is_test]).argmax())
    assert result["majority_accuracy"] == pytest.approx((data.labels[data.is_test] == most).mean())
    weighted = sum(entry["accuracy"] * entry["test"] for entry in result["labels"].values())
    assert weighted / result["test"] == pytest.approx(result["accuracy"])
    assert result["data"].startswith("substitute") and result["coverage"] == 1


def test_what_vectors_do_not_tell_is_not_learned(data, names):
    vectors = ConceptVectors(CONCEPTS, np.ones((N, 4), "f4"), fingerprint="x")
    result = classify_features(vectors, names, data, QUICK)
    # An equal vector for all leaves nothing but the most frequent label.
    assert result["accuracy"] == result["majority_accuracy"] == result["accuracy_of_all"]


def test_a_linear_head_cannot_learn_a_product(tmp_path, names):
    rows = [(head, "same" if label in ("R00", "R11") else "other", tail) for head, label, tail in parity_triples()]
    data = read_relations(write(tmp_path / "xor", rows), names)
    assert classify_features(parity_vectors(1), names, data, QUICK)["accuracy"] < 0.7


def test_runs_repeat_and_leave_the_random_state_alone(data, names):
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    first, again = (classify_features(parity_vectors(), names, data, replace(QUICK, epochs=3)) for _ in range(2))
    assert first == again and torch.equal(state, torch.random.get_rng_state())
    other = classify_features(parity_vectors(), names, data, replace(QUICK, epochs=3, seeds=(5,)))
    assert other["hash"] == first["hash"] and other["settings"] != first["settings"]


def test_the_head_equals_plain_softmax_regression(data, names):
    """One step of AdamW moves each weight by the learning rate against the sign of its gradient."""
    vectors = parity_vectors()
    settings = replace(FEATURES, epochs=1, batch_size=10_000, learning_rate=0.5, warm_up=0.0)
    result = classify_features(vectors, names, data, settings)
    with torch.random.fork_rng():
        torch.manual_seed(settings.seeds[0])
        layer = torch.nn.Linear(12, 4)
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    table = dict(zip(vectors.ids, vectors.vectors.astype(float), strict=True))
    x = np.array(
        [[*table[data.concepts[h]], *table[data.concepts[t]]] for h, t in zip(data.heads, data.tails, strict=True)]
    )
    logits = x[~data.is_test] @ weight.T + bias
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = shares - np.eye(4)[data.labels[~data.is_test]]
    weight -= 0.5 * np.sign(error.T @ x[~data.is_test])
    bias -= 0.5 * np.sign(error.sum(axis=0))
    predicted = (x[data.is_test] @ weight.T + bias).argmax(axis=1)
    assert result["accuracy"] == pytest.approx((predicted == data.labels[data.is_test]).mean())


def test_concepts_without_vectors_are_counted(data, names):
    table = parity_vectors()
    part = ConceptVectors(CONCEPTS[:30], table.vectors[:30], fingerprint="part")
    result = classify_features(part, names, data, QUICK)
    assert result["known_concepts"] == 30 and result["concepts"] == N
    assert result["train"] + result["test"] == 30 * 29 // 2
    assert result["accuracy_of_all"] == pytest.approx(result["accuracy"] * result["test"] / data.report["test"])
    with pytest.raises(ValueError, match="E774.*triples"):
        classify_features(ConceptVectors(CONCEPTS[:1], table.vectors[:1], fingerprint="x"), names, data, QUICK)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20))
def test_scores_are_those_of_scikit_learn(pairs):
    gold, predicted = np.array(pairs).T
    scores = score_labels(gold, predicted)
    assert scores["accuracy"] == pytest.approx(accuracy_score(gold, predicted))
    assert scores["macro_f1"] == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0))


def test_the_learning_rate_rises_and_falls():
    shares = [learning_rate_at(step, 100, FEATURES) for step in range(101)]
    assert shares[:10] == [pytest.approx((step + 1) / 10) for step in range(10)] and shares[10] == 1
    assert shares[10:] == sorted(shares[10:], reverse=True) and shares[99] > shares[100] == 0
    assert learning_rate_at(0, 1, FEATURES) == 1


def test_an_encoder_learns_more_than_its_frozen_vectors_tell(data, names, encoder_folder):
    encoder = EncoderShim({"max_length": 16}, "fp32")
    encoder.load(encoder_folder)
    before = encoder.encode_unscaled(["cold"])
    settings = replace(FINE_TUNING, epochs=4, learning_rate=2e-3)
    result, again = (finetune_relations(encoder, names, data, settings) for _ in range(2))
    assert result == again and result["mode"] == "fine-tune"
    frozen = classify_features(EncoderSystem(encoder), names, data, replace(FEATURES, epochs=4))
    assert result["accuracy"] > max(0.9, frozen["accuracy"])
    np.testing.assert_array_equal(encoder.encode_unscaled(["cold"]), before)


def test_the_command_compares_encoders_and_tables(tmp_path, names, encoder_folder, monkeypatch):
    names.to_disk(tmp_path / "names")
    folder = write(tmp_path / "triples", parity_triples())
    table = parity_vectors()
    lines = [" ".join([c, *map(str, row)]) for c, row in zip(table.ids, table.vectors.tolist(), strict=True)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    arguments = ["relations", str(encoder_folder), str(tmp_path / "names"), str(folder), str(tmp_path / "out")]
    arguments += ["--epochs", "2", "--vectors", str(tmp_path / "vectors.txt"), "--seeds", "1,2"]
    result = CliRunner().invoke(app, arguments)
    assert not result.exit_code, result.exception
    assert "780 triples with 4 labels: 624 to learn, 156 to test on" in result.output
    kept = srsly.read_json(tmp_path / "out" / "relations.json")
    figures = [entry["figures"] for entry in kept["results"]]
    assert [entry["mode"] for entry in figures] == ["feature"] * 2
    assert [run["seed"] for entry in figures for run in entry["runs"]] == [1, 2] * 2
    tuned = CliRunner().invoke(app, [*arguments[:5], "--epochs", "1", "--max-triples", "20", "--fine-tune"])
    assert not tuned.exit_code, tuned.exception
    assert [e["figures"]["mode"] for e in srsly.read_json(tmp_path / "out" / "relations.json")["results"]] == [
        "fine-tune"
    ]
    assert len(list((tmp_path / "out" / "results").iterdir())) == 3
    for wrong in (
        ["--seeds", "a"],
        ["--seeds", ""],
        ["--fine-tune", "--standardise"],
        ["--fine-tune", "--vectors", "x"],
    ):
        assert "but has to be" in str(CliRunner().invoke(app, [*arguments[:5], *wrong]).exception)
