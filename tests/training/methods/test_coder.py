"""CODER: data, losses and gradients against naive loops, relations, runs that stop and go on, bad input."""

import itertools
import json
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from conftest import load_encoder
from pair_rows import build, save_triple_rows
from safetensors import safe_open
from small_runs import final_weights, losses, make_any, naive_loss, terminology, world, write_triples_of

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.edits import remove_concepts
from training.data.run_folder import RunFolder
from training.engine.loop import TrainingLoop
from training.engine.method import Model
from training.engine.run import train
from training.methods.coder import method as coder_method
from training.methods.coder.data import TripletSampler, choose_names, load_graph
from training.methods.coder.method import Coder, CoderLoss, check_memory, make_relations
from training.methods.coder.settings import CoderData, CoderPaths
from training.methods.registry import make_settings

NAMES = {
    "C1": {"ENG": ["Aspirin", "aspirin", "ASA"], "GER": ["Aspirin", "Acetylsalicylsäure"]},
    "C2": {"ENG": ["headache", "cephalgia", "head pain"], "GER": ["Kopfschmerz"]},
    "C3": {"ENG": ["pain"]},
    "C4": {"GER": ["Fieber"]},
    "C5": {"ENG": ["ibuprofen", "brufen"], "GER": ["Ibuprofen"]},
}
# (label, head, tail): the second concept of a row is the head.
TRIPLES = [
    ("RO may_treat", "C1", "C2"),
    ("RO may_treat", "C1", "C3"),
    ("RO may_treat", "C5", "C2"),
    ("RO may_treat", "C5", "C3"),
    ("RO may_treat", "C1", "C4"),
    ("PAR", "C2", "C3"),
    ("RB", "C4", "C1"),
    ("RB", "C1", "C5"),
]
# Fixtures.
__all__ = ["make_any", "terminology", "world"]


@pytest.fixture
def make(make_any):
    """Make settings of a small run; values by section."""
    return partial(make_any, "coder")


@pytest.fixture(scope="module")
def named_graph(tmp_path_factory):
    """Terminology and triples of names with a meaning."""
    folder = tmp_path_factory.mktemp("graph")
    build(NAMES, "language").to_disk(folder / "terminology")
    save_triple_rows([(head, label, tail) for label, head, tail in TRIPLES], folder / "triples")
    return folder


def load(folder, terminology="terminology", **options):
    paths = {"terminology": str(folder / terminology), "triples": str(folder / "triples")}
    data = CoderData(**{"languages": "all", "min_triples": 1, **options})
    return load_graph(CoderPaths(encoder="", output="", **paths), data)


def as_triples(graph):
    ids = graph.concepts.to_list()
    rows = zip(graph.relations.tolist(), graph.heads.tolist(), graph.tails.tolist(), strict=True)
    return {(graph.labels[relation], ids[head], ids[tail]) for relation, head, tail in rows}


def names_of(graph, concept):
    rows = graph.name_rows[graph.offsets[concept] : graph.offsets[concept + 1]]
    return graph.names.gather(rows).to_list()


def test_names_and_triples_are_those_of_the_languages_and_what_can_not_be_used_is_counted(named_graph):
    graph = load(named_graph)
    assert as_triples(graph) == set(TRIPLES) and len(graph.heads) == len(TRIPLES)
    assert names_of(graph, 0) == ["acetylsalicylsäure", "asa", "aspirin"]
    assert graph.report["names_by_language"] == {"ENG": 8, "GER": 5}
    assert graph.report["labels"] == {"PAR": 1, "RB": 2, "RO may_treat": 5}
    cased = ["ASA", "Acetylsalicylsäure", "Aspirin", "aspirin"]
    assert names_of(load(named_graph, lower_case=False), 0) == cased
    graph = load(named_graph, languages="ENG", min_triples=2)
    assert as_triples(graph) == {triple for triple in TRIPLES if triple[0] == "RO may_treat" and "C4" not in triple}
    report = graph.report
    assert (report["head_without_names"], report["tail_without_names"], report["unknown_concept"]) == (1, 1, 0)
    assert report["rare_labels"] == {"PAR": 1, "RB": 1}
    assert report["triples_read"] == 8 and report["triples"] == 4
    assert "C4" not in graph.concepts and "fieber" not in graph.names
    terminology = Terminology.from_disk(named_graph / "terminology")
    remove_concepts(terminology, ["C5"]).terminology.to_disk(named_graph / "without")
    graph = load(named_graph, "without", languages="ENG")
    assert graph.report["unknown_concept"] == 3 and "C5" not in graph.concepts


def test_what_leaves_nothing_is_refused(named_graph):
    with pytest.raises(ValueError, match="no names in FRE, XX; it has names in ENG, GER"):
        load(named_graph, languages="FRE,ENG,XX")
    terminology = Terminology.from_disk(named_graph / "terminology")
    names = terminology.names.take(np.flatnonzero(terminology.names["language"].is_in(["ENG"])))
    Terminology(terminology.concepts, names).to_disk(named_graph / "english")
    with pytest.warns(UserWarning, match="all in ENG"):
        load(named_graph, "english")
    with pytest.raises(ValueError, match="None of the 8 triples.*rare_labels"):
        load(named_graph, min_triples=6)
    remove_concepts(Terminology.from_disk(named_graph / "terminology"), ["C1", "C2", "C5"]).terminology.to_disk(
        named_graph / "little"
    )
    with pytest.raises(ValueError, match="'unknown_concept': 8"):
        load(named_graph, "little")
    with pytest.raises(ValueError, match="There are 4 triples.*8 distinct"):
        TripletSampler(load(named_graph, languages="ENG", min_triples=2), 16, 2)


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("k, m", [(8, 2), (16, 4), (9, 3)])
def test_batches_hold_what_they_promise(named_graph, k, m, balance):
    graph = load(named_graph)
    sampler = TripletSampler(graph, k, m, seed=3, label_balance=balance)
    for number in range(40):
        batch = sampler.draw(number)
        assert set(Counter(batch.triples.tolist()).values()) == {m} and len(set(batch.triples.tolist())) == k // m
        heads, tails = np.split(batch.concepts, 2)
        assert (heads == graph.heads[batch.triples]).all() and (tails == graph.tails[batch.triples]).all()
        assert (batch.relations == graph.relations[batch.triples]).all()
        for names, concepts in zip(np.split(batch.names, 2), (heads, tails), strict=True):
            for start in range(0, k, m):
                drawn = graph.names.gather(names[start : start + m]).to_list()
                own = names_of(graph, concepts[start])
                # Each name at least once, or no name twice: none comes again before the others have come.
                counts = Counter(drawn)
                assert set(counts) <= set(own) and max(counts.values()) - min(counts[name] for name in own) <= 1


def test_random_concepts_are_others_than_the_tails(named_graph):
    graph = load(named_graph)
    sampler, plain = (TripletSampler(graph, 8, 2, random_concepts=wanted) for wanted in (True, False))
    drawn = Counter()
    for number in range(200):
        batch = sampler.draw(number)
        _, tails, others = np.split(batch.concepts, 3)
        assert (others != tails).all()
        for name, concept in zip(batch.names[16:].tolist(), others.tolist(), strict=True):
            assert graph.names[name] in names_of(graph, concept)
        assert (batch.names[:16] == plain.draw(number).names).all()
        drawn.update(others.tolist())
    assert set(drawn) == set(range(len(graph.concepts)))


def test_triples_are_drawn_alike_or_labels_are(named_graph):
    graph = load(named_graph)
    for balance, expected in ((0.0, [1 / 8, 2 / 8, 5 / 8]), (1.0, [1 / 3] * 3)):
        # One distinct triple in a batch, so that draws do not depend on each other.
        sampler = TripletSampler(graph, 2, 2, label_balance=balance)
        drawn = np.bincount([sampler.draw(number).relations[0] for number in range(3000)]) / 3000
        np.testing.assert_allclose(drawn, expected, atol=0.04)


def test_names_are_cleaned_on_request():
    terminology = build({"C1": ["Pain NOS (finding)", "low-back pain", "(x)"]})
    cleaned = choose_names(terminology, CoderData(clean_names=True), "terminology")
    assert sorted(cleaned["name"]) == ["low back pain", "pain"]


def settings_for(kind, **sections):
    paths = {"encoder": "", "terminology": "a", "triples": "b", "output": "c"}
    return make_settings({"paths": paths, "loss": {"relations": kind}, "run": {"method": "coder"}, **sections})


def make_batch(k=12, width=6, labels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    concepts = torch.cat([torch.randint(3, (k,), generator=generator), torch.randint(3, 7, (k,), generator=generator)])
    centres = torch.randn(7, width, generator=generator, dtype=torch.float64)
    noise = torch.randn(2 * k, width, generator=generator, dtype=torch.float64)
    embeddings = (2.0 * (centres[concepts] + 0.6 * noise)).requires_grad_()
    return embeddings, concepts, torch.randint(labels, (k,), generator=generator)


@pytest.mark.parametrize("kind", ["none", "diagonal", "full", "transe"])
@pytest.mark.parametrize("seed", range(3))
def test_losses_and_gradients_are_those_of_naive_loops(kind, seed):
    embeddings, concepts, labels = make_batch(seed=seed)
    relations = make_relations(kind, 3, 6, start="normal", seed=seed)
    relations = None if relations is None else relations.double()
    loss, (terms, parts) = CoderLoss(settings_for(kind), relations, 6)(embeddings, concepts, labels)

    k = len(embeddings) // 2
    concepts, everything = concepts.tolist(), range(2 * k)
    cosine = torch.nn.functional.cosine_similarity
    same = [[j for j in everything if j != i and concepts[i] == concepts[j]] for i in everything]
    other = [[j for j in everything if concepts[i] != concepts[j]] for i in everything]
    between = torch.stack([cosine(embeddings[i], embeddings, dim=1) for i in everything])
    expected_terms = naive_loss(between, same, other, 2.0, 50.0, 0.5, 0.1)
    expected = expected_terms
    if relations is not None:
        rows = []
        for i in range(k):
            weights = relations.weights[labels[i]]
            head, row = embeddings[i], []
            for j in range(k, 2 * k):
                if kind == "transe":
                    row.append(-torch.linalg.vector_norm(head + weights - embeddings[j]))
                else:
                    turned = (weights.T if kind == "full" else torch.diag(weights)) @ head
                    row.append(cosine(turned, embeddings[j], dim=0))
            rows.append(torch.stack(row))
        tails = concepts[k:]
        right = [[j for j in range(k) if tails[i] == tails[j]] for i in range(k)]
        wrong = [[j for j in range(k) if tails[i] != tails[j]] for i in range(k)]
        constants = (0.2, 5.0, -2.0, 0.1) if kind == "transe" else (2.0, 50.0, 0.5, 0.1)
        expected_relations = naive_loss(torch.stack(rows), right, wrong, *constants)
        torch.testing.assert_close(parts.loss, expected_relations)
        expected = expected_terms + (0.1 if kind == "transe" else 1.0) * expected_relations
    torch.testing.assert_close(terms.loss, expected_terms)
    torch.testing.assert_close(loss, expected)
    assert loss.dtype == torch.float64
    learned = [embeddings, *([] if relations is None else relations.parameters())]
    for found, wanted in zip(
        torch.autograd.grad(loss, learned, retain_graph=True), torch.autograd.grad(expected, learned), strict=True
    ):
        assert wanted.abs().max() > 1e-4
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("seed", range(3))
def test_margins_are_those_of_a_naive_loop(seed):
    embeddings, concepts, labels = make_batch(k=8, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    others = (3.0 * torch.randn(8, 6, generator=generator, dtype=torch.float64)).requires_grad_()
    concepts = torch.cat([concepts, torch.randint(7, (8,), generator=generator)])
    relations = make_relations("transe_margin", 3, 6, seed=seed).double()
    together = torch.cat([embeddings, others])
    loss, (terms, part) = CoderLoss(settings_for("transe_margin"), relations, 6)(together, concepts, labels)
    costs = []
    for i in range(8):
        moved = embeddings[i] + relations.weights[labels[i]]
        near, far = torch.linalg.vector_norm(moved - embeddings[8 + i]), torch.linalg.vector_norm(moved - others[i])
        costs.append(torch.relu(1.0 + near - far))
    expected = sum(costs) / 8
    torch.testing.assert_close(part.loss, expected)
    torch.testing.assert_close(loss, terms.loss + expected)
    assert 0 < part.positives < 8 and part.positives == sum(cost.item() > 0 for cost in costs)
    learned = [embeddings, others, relations.weights]
    for found, wanted in zip(
        torch.autograd.grad(part.loss, learned, retain_graph=True), torch.autograd.grad(expected, learned), strict=True
    ):
        torch.testing.assert_close(found, wanted)
    # The random concepts are names like any others for the loss of terms.
    assert all(gradient.abs().max() > 0 for gradient in torch.autograd.grad(terms.loss, [embeddings, others]))


def test_relations_start_as_the_identity_or_at_random():
    heads, tails, labels = torch.randn(4, 6), torch.randn(5, 6), torch.tensor([0, 1, 1, 0])
    plain = torch.nn.functional.cosine_similarity(heads[:, None], tails[None], dim=2)
    for kind in ("diagonal", "full"):
        torch.testing.assert_close(make_relations(kind, 2, 6)(heads, labels, tails), plain)
    still = make_relations("transe", 2, 6, start="identity")
    torch.testing.assert_close(still(heads, labels, tails), -torch.cdist(heads, tails))
    assert torch.equal(make_relations("transe", 2, 6, seed=4).weights, make_relations("transe", 2, 6, seed=4).weights)
    # What the constants of the paper's ablation suppose: a distance of about 28 between a vector and itself moved.
    lengths = make_relations("transe", 200, 768).weights.norm(dim=1)
    assert lengths.mean().item() == pytest.approx(28.0, rel=0.02)
    lengths = (make_relations("full", 2, 300, start="normal").weights @ torch.ones(300)).norm(dim=1)
    assert lengths.mean().item() == pytest.approx(300**0.5, rel=0.1)
    assert make_relations("none", 2, 6) is None


def test_constants_are_those_of_the_paper_unless_given():
    plain = settings_for("diagonal")
    assert plain.terms.resolve("none", 768) == plain.relations.resolve("diagonal", 768) == (2.0, 50.0, 0.5, 0.1)
    assert plain.relations.resolve("transe", 768) == (0.2, 5.0, -28.0, 0.1)
    given = settings_for("transe", relations={"base": -3.0, "margin": 0.0}).relations
    assert given.resolve("transe", 768) == (0.2, 5.0, -3.0, 0.0)


def test_matrices_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    # The paper's 923 labels and vectors of 768 numbers, with gradients and two moments.
    needed = 923 * 768 * 768 * 4 * 4
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**12))
    for available, device, left in ((needed - 1, "cpu", "8.7"), (needed, "cuda", "1.0")):
        monkeypatch.setattr(coder_method, "find_available", lambda: available)  # noqa: B023
        with pytest.raises(MemoryError, match=rf"923 relations, 768 x 768.*8\.7 GB.*{device} has {left} GB.*0\.011 GB"):
            check_memory("full", 923, 768, torch.device(device))
    check_memory("full", 923, 768, torch.device("cpu"))
    check_memory("diagonal", 923, 768, torch.device("cuda"))


def test_what_comes_out(make, terminology, tmp_path):
    sections = {"batch": {"max_steps": 20}, "optimizer": {"schedule": "constant"}}
    settings = make(**sections)
    report = train(settings)
    assert report.to_dict() == json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf8"))
    data = report.data
    assert data["rare_labels"] == {"PAR r9": 1} and data["triples"] == 32 and data["triples_read"] == 33
    assert data["sha256"]["terminology"] == terminology.fingerprint
    assert data["names_by_language"] == {"ENG": data["names"]}
    assert report.training["ended"] == "max_steps"
    entries = list(RunFolder(settings.paths.output).read_metrics())
    assert sum(losses(settings)[-5:]) < sum(losses(settings)[:5])
    for entry in entries:
        assert entry["loss"] == pytest.approx(entry["term_loss"] + entry["relation_loss"], rel=1e-5)
        assert 0.0 <= entry["term_mined"] <= 1.0 and 0.0 <= entry["relation_mined"] <= 1.0
        assert entry["triplets"] == 16
    encoder = load_encoder(tmp_path / "run" / "encoder")
    assert encoder.fingerprint == report.encoder["trained"] != report.encoder["base"]
    assert encoder.settings.max_length == 32
    with safe_open(tmp_path / "run" / "relations.safetensors", framework="pt") as file:
        metadata, weights = file.metadata(), file.get_tensor("relations")
    assert metadata["kind"] == "diagonal" and json.loads(metadata["labels"]) == ["RO r0", "RO r1", "RO r2"]
    assert metadata["encoder"] == encoder.fingerprint
    assert torch.equal(weights, final_weights(settings)["weights.relations.weights"])
    assert not torch.equal(weights, torch.ones(3, 32))
    assert report.parameters["relations"] == 3 * 32
    card = (tmp_path / "run" / "encoder" / "README.md").read_text(encoding="utf8")
    assert "after CODER" in card and "- coder\n" in card and "32 triples" in card
    # The run does not go on with other relations or triples.
    with pytest.raises(ValueError, match=r"loss\.relations: 'diagonal', not 'full'"):
        train(make(loss={"relations": "full"}, **sections))
    others = [(head, "RO r5", tail) for head, tail in itertools.product(range(4), range(4, 12))]
    write_triples_of(others, tmp_path / "other")
    with pytest.raises(ValueError, match=r"data\.sha256\.triples"):
        train(make(paths={"triples": str(tmp_path / "other")}, **sections))


def test_accumulated_gradients_are_the_mean_of_those_of_the_batches(make, monkeypatch):
    gradients = {}

    def keep(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        entry = self.method.loss(batch, 1.0)
        key = (self.settings.batch.accumulation, batch)
        gradients[key] = {
            name: p.grad.clone() for name, p in self.method.model.named_parameters() if p.grad is not None
        }
        self._log({"step": batch + 1, **entry})
        self.step += 1
        return entry["loss"]

    monkeypatch.setattr(TrainingLoop, "take_step", keep)
    for accumulation, steps in ((1, 2), (2, 1)):
        batch = {"accumulation": accumulation, "max_steps": steps, "dropout": 0.0}
        train(make(f"run{accumulation}", batch=batch, loss={"relations": "transe"}, optimizer={"warmup_steps": 0}))
    both = gradients[2, 0]
    assert "relations.weights" in both
    for name, gradient in both.items():
        mean = (gradients[1, 0][name] + gradients[1, 1][name]) / 2
        torch.testing.assert_close(gradient, mean, rtol=1e-4, atol=1e-6, msg=name)


def test_biases_and_layer_normalisation_do_not_decay(encoder, make):
    method = Coder.__new__(Coder)
    method.settings = make(optimizer={"relation_learning_rate": 1e-1})
    method.relations = make_relations("diagonal", 2, 32)
    method.model = Model(encoder.source.transformer, relations=method.relations)
    decaying, others, relations = method.make_optimizer().param_groups
    names = {id(parameter): name for name, parameter in method.model.named_parameters()}
    assert all("LayerNorm" in names[id(p)] or names[id(p)].endswith("bias") for p in others["params"])
    assert all("LayerNorm" not in names[id(p)] and names[id(p)].endswith("weight") for p in decaying["params"])
    assert others["weight_decay"] == 0.0 < decaying["weight_decay"] and relations["rate"] == pytest.approx(100)
    assert sum(len(group["params"]) for group in (decaying, others, relations)) == len(names)


def test_a_graph_with_one_tail_is_enough_where_no_relations_are_learned(make, tmp_path):
    write_triples_of([(head, "RO", 11) for head in range(8)], tmp_path / "one")
    paths, batch = {"triples": str(tmp_path / "one")}, {"max_steps": 2}
    assert train(make(paths=paths, loss={"relations": "none"}, batch=batch)).training["steps"] == 2
