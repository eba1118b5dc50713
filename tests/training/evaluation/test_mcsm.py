"""MCSM: the published maximum, and a naive loop."""

import math

import numpy as np
import pytest
from pair_rows import build

from training.evaluation import mcsm as module
from training.evaluation.mcsm import SEMANTIC_TYPES, McsmSettings, McsmTask, discounts
from training.evaluation.settings import Limits
from training.evaluation.systems.vectors import ConceptVectors, VectorTable

TYPES = [*SEMANTIC_TYPES, "T061"]


def build_typed(n, seed=0, n_types=2):
    generator = np.random.default_rng(seed)
    ids = [f"C{concept:03}" for concept in range(n)]
    names = {id_: {"SNOMEDCT_US" if row % 3 else "MSH": [f"name {row}"]} for row, id_ in enumerate(ids)}
    types = [generator.choice(TYPES, generator.integers(1, n_types + 1), replace=False).tolist() for _ in ids]
    return build(names, **{id_: {"types": of_id} for id_, of_id in zip(ids, types, strict=True)})


def vectors_of(terminology, seed=0, width=4):
    ids = terminology.concepts["id"].to_list()
    return VectorTable(ids, np.random.default_rng(seed).normal(size=(len(ids), width)).astype("f4"))


def measure(vectors, terminology, k=40, **settings):
    """Measure, and return values and counts by metric."""
    measured = McsmTask("mcsm", terminology, k=k, **settings).measure(ConceptVectors.of(vectors))
    return {figure.metric: figure.value for figure in measured.figures} | measured.details


def naive(terminology, vectors, k, wanted):
    """Follow the formula, one concept and one neighbour at a time."""
    table = dict(zip(vectors.keys, vectors.vectors.astype(float), strict=True))
    types = dict(terminology.concepts.select("id", "types").rows())
    ids = [c for row, c in enumerate(types) if wanted(row) and set(types[c]) & set(SEMANTIC_TYPES)]
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
    ids = [f"C{concept}" for concept in range(50)]
    terminology = build({id_: [id_] for id_ in ids}, **dict.fromkeys(ids, {"types": ["T047"]}))
    result = measure(vectors_of(terminology), terminology)
    scores = [result[f"{metric}.Disease or Syndrome"] for metric in ("mcsm", "mcsm_of_all", "mcsm_chance")]
    assert [round(score, 2) for score in scores] == [11.09] * 3 and result["mcsm"] == scores[0]
    assert all(math.isnan(result[f"{metric}.Finding"]) for metric in ("mcsm", "mcsm_of_all", "mcsm_chance"))


@pytest.mark.parametrize("block", [4, 4096])
@pytest.mark.parametrize("source", ["", "SNOMEDCT_US"])
def test_scores_equal_a_naive_loop(monkeypatch, block, source):
    monkeypatch.setattr(module, "QUERY_BLOCK", block)
    terminology = build_typed(60)
    everything = vectors_of(terminology)
    # A table that lacks some concepts, in another order, with others besides.
    rows = np.random.default_rng(1).permutation(60)[:45]
    ids = [*(everything.keys[row] for row in rows), "C999"]
    table = VectorTable(ids, np.vstack([everything.vectors[rows], np.ones((1, 4), "f4")]))
    for vectors in (everything, table):
        result = measure(vectors, terminology, 7, source=source)
        expected = naive(terminology, vectors, 7, lambda row: not source or row % 3 != 0)
        for name, (score, of_all) in expected.items():
            assert result[f"mcsm.{name}"] == pytest.approx(score)
            assert result[f"mcsm_of_all.{name}"] == pytest.approx(of_all)
        assert result["mcsm"] == pytest.approx(np.mean([score for score, _ in expected.values()]))
    assert 0 < result["coverage"] < 1 and result["known"] < result["concepts"]


def test_random_vectors_come_near_chance():
    terminology = build_typed(900, n_types=1)
    result = measure(vectors_of(terminology, width=64), terminology)
    assert result["mcsm"] == pytest.approx(result["mcsm_chance"], rel=0.1)


def test_equal_vectors_do_not_make_a_concept_its_own_neighbour():
    # Of 50 equal vectors, those found need not have the query among them.
    ids = [f"C{concept:02}" for concept in range(50)]
    types = {**dict.fromkeys(ids, {"types": ["T033"]}), "C30": {"types": ["T047"]}}
    terminology = build(dict.fromkeys(ids, ["n"]), **types)
    result = measure(VectorTable(ids, np.ones((50, 3), "f4")), terminology, 10)
    assert result["mcsm.Disease or Syndrome"] == 0


def test_concepts_are_drawn_by_a_seed():
    terminology = build_typed(60)
    vectors = vectors_of(terminology)
    results = [measure(vectors, terminology, 5, max_concepts=30, seed=seed) for seed in (0, 0, 1)]
    assert results[0] == results[1] != results[2] and results[0]["concepts"] == 30


def test_too_few_concepts_are_missing(tmp_path):
    terminology = build_typed(60)
    terminology.to_disk(tmp_path / "names")
    for settings, n in (({"source": "SNOMEDCT_US", "max_concepts": 40}, 40), ({"source": "NCI"}, 0)):
        (missing,) = McsmSettings(terminology=str(tmp_path / "names"), **settings).make("mcsm", Limits())
        assert missing.reason.startswith(f"{n} concepts") and missing.task == "mcsm"
    (task,) = McsmSettings(terminology=str(tmp_path / "names")).make("mcsm", Limits())
    assert task.name == "mcsm" and task.hash() != McsmTask("mcsm", terminology, seed=1).hash()
    few = VectorTable(terminology.concepts["id"].to_list()[:5], np.ones((5, 2), "f4"))
    with pytest.raises(ValueError, match="concepts have a vector"):
        task.measure(ConceptVectors.of(few))
