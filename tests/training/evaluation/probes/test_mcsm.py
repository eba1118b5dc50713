"""MCSM: the published maximum, and a naive loop."""

import math

import numpy as np
import pytest
import srsly
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.encoders.bases import EncoderChoice, load_base
from training.evaluation.probes import mcsm as module
from training.evaluation.probes.mcsm import SEMANTIC_TYPES, discounts, measure_mcsm
from training.evaluation.systems.concept_vectors import ConceptVectors
from training.evaluation.systems.encoder import EncoderSystem

TYPES = [*SEMANTIC_TYPES, "T061"]


def build(n, seed=0, n_types=2):
    generator = np.random.default_rng(seed)
    builder = TerminologyBuilder()
    for concept in range(n):
        types = generator.choice(TYPES, generator.integers(1, n_types + 1), replace=False).tolist()
        builder.add_concept(f"C{concept:03}", canonical_name=f"name {concept}", types=types)
        builder.add_name(f"C{concept:03}", f"name {concept}", source="SNOMEDCT_US" if concept % 3 else "MSH")
    return builder.build()


def vectors_of(terminology, seed=0, width=4):
    ids = terminology.concepts["id"].to_list()
    return ConceptVectors(
        ids, np.random.default_rng(seed).normal(size=(len(ids), width)).astype("f4"), fingerprint="abc"
    )


def naive(terminology, vectors, k, wanted=lambda row: True, restricted=True):
    """Follow the formula, one concept and one neighbour at a time."""
    table = dict(zip(vectors.ids, vectors.vectors.astype(float), strict=True))
    types = dict(terminology.concepts.select("id", "types").iter_rows())
    ids = [c for row, c in enumerate(types) if wanted(row) and (not restricted or set(types[c]) & set(SEMANTIC_TYPES))]
    known = [concept for concept in ids if concept in table]
    scores = {}
    for tui, name in SEMANTIC_TYPES.items():
        total, n = 0.0, 0
        for concept in known:
            if tui not in types[concept]:
                continue
            n += 1
            vector = table[concept]
            others = [other for other in known if other != concept]
            cosine = {o: vector @ table[o] / np.linalg.norm(vector) / np.linalg.norm(table[o]) for o in others}
            nearest = sorted(others, key=lambda other: -cosine[other])[:k]
            total += sum((tui in types[other]) / math.log2(rank + 1) for rank, other in enumerate(nearest, start=1))
        n_all = sum(tui in types[concept] for concept in ids)
        scores[name] = (total / n if n else None, total / n_all if n_all else None)
    return scores


def test_the_highest_score_is_as_published():
    assert round(float(discounts(40).sum()), 2) == 11.09
    builder = TerminologyBuilder()
    for concept in range(50):
        builder.add_concept(f"C{concept}", canonical_name=f"n{concept}", types=["T047"])
        builder.add_name(f"C{concept}", f"n{concept}")
    terminology = builder.build()
    result = measure_mcsm(vectors_of(terminology), terminology)
    entry = result["types"]["Disease or Syndrome"]
    assert round(entry["score"], 2) == round(entry["chance"], 2) == round(result["maximum"], 2) == 11.09
    assert result["types"]["Finding"] == {
        "score": None,
        "score_of_all": None,
        "chance": None,
        "concepts": 0,
        "known": 0,
    }
    assert result["mean"] == entry["score"]


@pytest.mark.parametrize("block", [4, 4096])
@pytest.mark.parametrize("all_types", [False, True])
@pytest.mark.parametrize("source", ["", "SNOMEDCT_US"])
def test_scores_equal_a_naive_loop(monkeypatch, block, all_types, source):
    monkeypatch.setattr(module, "QUERY_BLOCK", block)
    terminology = build(60)
    everything = vectors_of(terminology)
    # A table that lacks some concepts, in another order, with others besides.
    rows = np.random.default_rng(1).permutation(60)[:45]
    ids = [*(everything.ids[row] for row in rows), "C999"]
    table = ConceptVectors(ids, np.vstack([everything.vectors[rows], np.ones((1, 4), "f4")]), fingerprint="x")
    for vectors in (everything, table):
        result = measure_mcsm(vectors, terminology, k=7, source=source, all_types=all_types)
        expected = naive(terminology, vectors, 7, lambda row: not source or row % 3 != 0, restricted=not all_types)
        for name, (score, of_all) in expected.items():
            assert result["types"][name]["score"] == pytest.approx(score)
            assert result["types"][name]["score_of_all"] == pytest.approx(of_all)
        assert result["mean"] == pytest.approx(np.mean([score for score, _ in expected.values()]))
    assert 0 < result["coverage"] < 1 and result["known"] < result["concepts"]


def test_random_vectors_come_near_chance():
    terminology = build(900, n_types=1)
    result = measure_mcsm(vectors_of(terminology, width=64), terminology)
    assert result["mean"] == pytest.approx(result["mean_chance"], rel=0.1)


def test_equal_vectors_do_not_make_a_concept_its_own_neighbour():
    # Of 50 equal vectors, those found need not have the query among them.
    builder = TerminologyBuilder()
    for concept in range(50):
        builder.add_concept(f"C{concept}", canonical_name="n", types=["T047" if concept == 30 else "T033"])
        builder.add_name(f"C{concept}", "n")
    terminology = builder.build()
    ids = terminology.concepts["id"].to_list()
    result = measure_mcsm(ConceptVectors(ids, np.ones((50, 3), "f4"), fingerprint="x"), terminology, k=10)
    assert result["types"]["Disease or Syndrome"]["score"] == 0


def test_concepts_are_drawn_by_a_seed():
    terminology = build(60)
    vectors = vectors_of(terminology)
    results = [measure_mcsm(vectors, terminology, k=5, max_concepts=30, seed=seed) for seed in (0, 0, 1)]
    assert results[0] == results[1] != results[2] and results[0]["concepts"] == 30


def test_too_few_concepts_are_refused():
    terminology = build(60)
    with pytest.raises(ValueError, match="E772.*40 nearest.*of SNOMEDCT_US"):
        measure_mcsm(vectors_of(terminology), terminology, source="SNOMEDCT_US", max_concepts=40)
    with pytest.raises(ValueError, match="E772.*0 concepts of NCI"):
        measure_mcsm(vectors_of(terminology), terminology, source="NCI")
    few = ConceptVectors(terminology.concepts["id"].to_list()[:5], np.ones((5, 2), "f4"), fingerprint="x")
    with pytest.raises(ValueError, match="E772.*have a vector"):
        measure_mcsm(few, terminology)


def test_the_command_keeps_results(tmp_path, encoder_folder, monkeypatch):
    terminology = build(80)
    terminology.to_disk(tmp_path / "names")
    table = vectors_of(terminology)
    lines = [" ".join([c, *map(str, row)]) for c, row in zip(table.ids[:60], table.vectors.tolist(), strict=False)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    arguments = ["mcsm", str(encoder_folder), str(tmp_path / "names"), str(tmp_path / "out")]
    arguments += ["--vectors", str(tmp_path / "vectors.txt")]
    result = CliRunner().invoke(app, arguments)
    assert not result.exit_code, result.exception
    assert "random neighbours" in result.output and "unknown = 0" in result.output
    kept = srsly.read_json(tmp_path / "out" / "mcsm.json")
    assert len({entry["figures"]["known"] for entry in kept["results"]}) == len(kept["results"]) == 2
    # Nothing is measured twice.
    monkeypatch.setattr(EncoderSystem, "encode", None)
    monkeypatch.setattr(ConceptVectors, "take", None)
    assert CliRunner().invoke(app, arguments).output == result.output
    nothing = CliRunner().invoke(app, ["mcsm", "none", *arguments[2:4]])
    assert "E778" in str(nothing.exception)
    next((tmp_path / "out" / "results").iterdir()).write_text("[]")
    assert "E747" in str(CliRunner().invoke(app, arguments).exception)


@pytest.mark.parametrize("published, pooling", [("mean", "mean_all_tok"), ("pooler", "pooler")])
def test_encoders_are_measured_as_in_the_published_comparison(published, pooling, tmp_path, encoder_folder):
    terminology = build(80)
    terminology.to_disk(tmp_path / "names")
    arguments = ["mcsm", str(encoder_folder), str(tmp_path / "names"), str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, "--published-pooling", published])
    assert not result.exit_code, result.exception
    (kept,) = srsly.read_json(tmp_path / "out" / "mcsm.json")["results"]
    padded = EncoderChoice(pooling=pooling, max_length=32, pad_to_length=32, attention_mask=False)
    system = EncoderSystem(load_base(str(encoder_folder), padded))
    assert kept["figures"]["mean"] == pytest.approx(measure_mcsm(system, terminology)["mean"])
    refused = CliRunner().invoke(app, [*arguments, "--published-pooling", "max"])
    assert "but has to be" in str(refused.exception) and "mean, pooler" in str(refused.exception)
