"""CODER: losses and gradients against naive loops, relations, runs that stop and go on, bad input."""

import itertools
import json
import math
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from rrf_files import atom, rrf_line, write_release
from safetensors.torch import load_file
from typer.testing import CliRunner

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import Terminology, read_rrf
from training.cli import app
from training.data.run_folder import RunFolder
from training.data.task import LinkingTask
from training.data.triples import write_triples
from training.engine.checkpoints import list_checkpoints
from training.engine.loop import TrainingLoop
from training.engine.run import export_run, train
from training.methods.coder import loss as coder_loss
from training.methods.coder.loss import (
    BatchLabels,
    CoderLoss,
    DiagonalRelations,
    FullRelations,
    TranslationRelations,
    check_memory,
    load_relations,
    make_relations,
)
from training.methods.coder.method import CoderModel
from training.methods.coder.settings import resolve
from training.methods.registry import make_settings

WORDS = ["heart", "attack", "cold", "acute", "liver", "pain", "chronic", "failure", "b12", "mild"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Terminology and triples of a small release: 12 concepts, 4 labels of which one has a single triple."""
    path = tmp_path_factory.mktemp("graph")
    write_graph(path, [("RO", tail % 3, head, tail) for head, tail in itertools.product(range(4), range(4, 12))])
    return path


def write_graph(path, relations):
    rng = np.random.default_rng(0)
    rows = [
        rrf_line("MRREL", CUI1=f"C{tail:02d}", REL=rel, RELA=f"r{kind}", CUI2=f"C{head:02d}")
        for rel, kind, head, tail in [*relations, ("PAR", 9, 0, 1)]
    ]
    names = [(c, " ".join(rng.choice(WORDS, size=int(rng.integers(1, 4))))) for c in range(12) for _ in range(4)]
    release = write_release(path / "rrf", MRCONSO=[atom(f"C{c:02d}", name) for c, name in names], MRREL=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        terminology = read_rrf(release, tradenames="off")
        write_triples(release, terminology, path / "triples")
    terminology.to_disk(path / "terminology")


@pytest.fixture
def make(folders, encoder_folder, tmp_path):
    """Make settings of a small run; values by section."""

    def make_run(output="run", graph=folders, **sections):
        values = {
            "paths": {
                "encoder": str(encoder_folder),
                "terminology": str(graph / "terminology"),
                "triples": str(graph / "triples"),
                "output": str(tmp_path / output),
            },
            "optimizer": {"learning_rate": 1e-3, "warmup_steps": 2},
            "batch": {"triplets": 8, "repetitions": 2, "accumulation": 2, "max_steps": 6, "chunk_names": 5},
            "run": {"method": "coder", "precision": "fp32", "checkpoint_steps": 2},
        }
        for section, settings in sections.items():
            values.setdefault(section, {}).update(settings)
        return make_settings(values)

    return make_run


def settings_for(kind, **sections):
    paths = {"encoder": "", "terminology": "a", "triples": "b", "output": "c"}
    return make_settings({"paths": paths, "loss": {"relations": kind}, "run": {"method": "coder"}, **sections})


def mine(row, positives, negatives, epsilon):
    """The paper's rules for one anchor."""
    kept_positives = [p for p in positives if negatives and row[p] < max(row[n] for n in negatives) + epsilon]
    kept_negatives = [n for n in negatives if positives and row[n] > min(row[p] for p in positives) - epsilon]
    return kept_positives, kept_negatives


def naive_loss(similarities, positives, negatives, alpha, beta, base, epsilon):
    """The Multi-Similarity loss as it is printed."""
    total = 0.0
    for i, row in enumerate(similarities):
        chosen, others = mine(row.detach(), positives[i], negatives[i], epsilon)
        pull = sum(torch.exp(-alpha * (row[p] - base)) for p in chosen)
        push = sum(torch.exp(beta * (row[n] - base)) for n in others)
        total = total + torch.log(1 + torch.as_tensor(pull)) / alpha + torch.log(1 + torch.as_tensor(push)) / beta
    return total / len(similarities)


def make_batch(k=12, width=6, labels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    concepts = torch.cat([torch.randint(3, (k,), generator=generator), torch.randint(3, 7, (k,), generator=generator)])
    centres = torch.randn(7, width, generator=generator, dtype=torch.float64)
    noise = torch.randn(2 * k, width, generator=generator, dtype=torch.float64)
    known = torch.rand(k, k, generator=generator) < 0.2
    embeddings = (2.0 * (centres[concepts] + 0.6 * noise)).requires_grad_()
    return embeddings, BatchLabels(concepts, torch.randint(labels, (k,), generator=generator), known)


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("kind", ["none", "diagonal", "full", "transe"])
@pytest.mark.parametrize("seed", range(3))
def test_losses_and_gradients_are_those_of_naive_loops(kind, is_masked, seed):
    embeddings, labels = make_batch(seed=seed)
    labels = labels if is_masked else labels._replace(known=None)
    relations = make_relations(kind, 3, 6, start="normal", seed=seed)
    relations = None if relations is None else relations.double()
    loss, (terms, parts) = CoderLoss(settings_for(kind), relations, 6)(embeddings, labels)

    k = len(embeddings) // 2
    concepts, everything = labels.concepts.tolist(), range(2 * k)
    cosine = torch.nn.functional.cosine_similarity
    same = [[j for j in everything if j != i and concepts[i] == concepts[j]] for i in everything]
    other = [[j for j in everything if concepts[i] != concepts[j]] for i in everything]
    between = torch.stack([cosine(embeddings[i], embeddings, dim=0 if embeddings.ndim == 1 else 1) for i in everything])
    expected_terms = naive_loss(between, same, other, 2.0, 50.0, 0.5, 0.1)
    expected = expected_terms
    if relations is not None:
        rows = []
        for i in range(k):
            weights = relations.weights[labels.relations[i]]
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
        wrong = [
            [j for j in range(k) if tails[i] != tails[j] and not (is_masked and labels.known[i, j])] for i in range(k)
        ]
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
    embeddings, labels = make_batch(k=8, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    others = (3.0 * torch.randn(8, 6, generator=generator, dtype=torch.float64)).requires_grad_()
    concepts = torch.cat([labels.concepts, torch.randint(7, (8,), generator=generator)])
    relations = make_relations("transe_margin", 3, 6, seed=seed).double()
    together = torch.cat([embeddings, others])
    loss, (terms, part) = CoderLoss(settings_for("transe_margin"), relations, 6)(
        together, labels._replace(concepts=concepts)
    )
    costs = []
    for i in range(8):
        moved = embeddings[i] + relations.weights[labels.relations[i]]
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


def test_a_diagonal_is_a_full_matrix_with_nothing_beside_it():
    embeddings, labels = make_batch()
    heads, tails = embeddings.chunk(2)
    vectors = torch.randn(3, 6, dtype=torch.float64)
    diagonal, full = DiagonalRelations(vectors), FullRelations(torch.diag_embed(vectors))
    first, second = (relations(heads, labels.relations, tails) for relations in (diagonal, full))
    torch.testing.assert_close(first, second)
    costs = torch.randn(first.shape, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((costs * s).sum(), [relations.weights, embeddings], retain_graph=True)
        for s, relations in ((first, diagonal), (second, full))
    ]
    torch.testing.assert_close(gradients[0][0], gradients[1][0].diagonal(dim1=1, dim2=2))
    torch.testing.assert_close(gradients[0][1], gradients[1][1])


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
    assert lengths.mean().item() == pytest.approx(
        -resolve(settings_for("transe").relations, "transe", 768)[2], rel=0.02
    )
    lengths = (make_relations("full", 2, 300, start="normal").weights @ torch.ones(300)).norm(dim=1)
    assert lengths.mean().item() == pytest.approx(300**0.5, rel=0.1)
    assert make_relations("none", 2, 6) is None


def test_constants_are_those_of_the_paper_unless_given():
    plain = settings_for("diagonal")
    assert resolve(plain.terms, "none", 768) == resolve(plain.relations, "diagonal", 768) == (2.0, 50.0, 0.5, 0.1)
    assert resolve(plain.relations, "transe", 768) == (0.2, 5.0, -28.0, 0.1)
    given = settings_for("transe", relations={"base": -3.0, "margin": 0.0}).relations
    assert resolve(given, "transe", 768) == (0.2, 5.0, -3.0, 0.0)


def test_matrices_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    # The paper's 923 labels and vectors of 768 numbers, with gradients and two moments.
    needed = 923 * 768 * 768 * 4 * 4
    monkeypatch.setattr(coder_loss, "find_available", lambda: needed - 1)
    with pytest.raises(MemoryError, match=r"923 relations, 768 x 768.*8\.7 GB.*cpu has 8\.7 GB.*0\.011 GB"):
        check_memory("full", 923, 768, torch.device("cpu"))
    check_memory("diagonal", 923, 768, torch.device("cpu"))
    monkeypatch.setattr(coder_loss, "find_available", lambda: needed)
    check_memory("full", 923, 768, torch.device("cpu"))
    # Where the system does not say, nothing is refused.
    monkeypatch.setattr(coder_loss, "find_available", lambda: None)
    check_memory("full", 923, 768, torch.device("cpu"))


def test_free_memory_of_a_gpu_counts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**12))
    with pytest.raises(MemoryError, match="cuda has 1.0 GB"):
        check_memory("full", 923, 768, torch.device("cuda"))


def test_the_estimate_is_that_of_the_optimizer():
    matrices = make_relations("full", 3, 4)
    optimizer = torch.optim.AdamW(matrices.parameters())
    matrices.weights.sum().backward()
    optimizer.step()
    held = [matrices.weights, matrices.weights.grad]
    held += [value for state in optimizer.state.values() for value in state.values() if value.ndim]
    size = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert size == 3 * 4 * 4 * coder_loss.FLOAT_BYTES * coder_loss.COPIES


def final_state(settings):
    return load_file(list_checkpoints_of(settings)[-1] / "state.safetensors")


def list_checkpoints_of(settings):
    return list_checkpoints(Path(settings.paths.output) / "checkpoints")


def losses(settings):
    return [entry["loss"] for entry in RunFolder(settings.paths.output).read_metrics()]


@pytest.mark.parametrize("kind", ["none", "diagonal", "full", "transe", "transe_margin"])
def test_a_run_goes_on_as_if_it_had_not_been_stopped_or_killed(make, monkeypatch, kind):
    whole, parts = make("whole", loss={"relations": kind}), make("parts", loss={"relations": kind})
    reports = [train(whole)]
    stopped = train(make("parts", loss={"relations": kind}, batch={"max_minutes": 1e-9}))
    assert stopped.training["ended"] == "max_minutes" and stopped.training["steps"] == 1
    take_step = TrainingLoop.take_step

    def fail(self, batch):
        if batch == 3:
            raise KeyboardInterrupt
        return take_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "take_step", fail)
        with pytest.raises(KeyboardInterrupt):
            train(parts)
    assert len(losses(parts)) == 3 and list_checkpoints_of(parts)[-1].name.endswith("2")
    reports.append(train(parts))
    assert [report.training["steps"] for report in reports] == [6, 6]
    assert losses(whole) == losses(parts) and len(losses(whole)) == 6
    first, second = final_state(whole), final_state(parts)
    assert set(first) == set(second) and all(torch.equal(first[name], second[name]) for name in first)
    assert reports[0].encoder["trained"] == reports[1].encoder["trained"]


def test_what_comes_out(make, folders, tmp_path):
    before = Terminology.from_disk(folders / "terminology").fingerprint
    settings = make(batch={"max_steps": 30}, optimizer={"schedule": "constant"})
    report = train(settings)
    assert report.to_dict() == json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf8"))
    data = report.data
    assert data["rare_labels"] == {"PAR r9": 1} and data["triples"] == 32 and data["triples_read"] == 33
    assert data["sha256"]["terminology"] == before and data["names_by_language"] == {"ENG": data["names"]}
    assert report.training["ended"] == "max_steps" and report.training["batches_drawn_per_second"] > 0
    entries = list(RunFolder(settings.paths.output).read_metrics())
    assert sum(losses(settings)[-5:]) < sum(losses(settings)[:5])
    for entry in entries:
        assert entry["loss"] == pytest.approx(entry["term_loss"] + entry["relation_loss"], rel=1e-5)
        assert 0.0 <= entry["term_mined"] <= 1.0 and 0.0 <= entry["relation_mined"] <= 1.0
        assert entry["triplets"] == 16
    encoder = EncoderShim({}, "fp32")
    encoder.load(tmp_path / "run" / "encoder")
    assert encoder.fingerprint == report.encoder["trained"] != report.encoder["base"]
    assert encoder.settings.max_length == 32
    relations, labels = load_relations(tmp_path / "run" / "relations.safetensors", encoder.fingerprint)
    assert isinstance(relations, DiagonalRelations) and labels == ["RO r0", "RO r1", "RO r2"]
    assert torch.equal(relations.weights, final_state(settings)["weights.relations.weights"])
    assert not torch.equal(relations.weights, torch.ones(3, 32))
    assert report.parameters["relations"] == 3 * 32
    with pytest.raises(ValueError, match="Give the encoder folder that the run has"):
        load_relations(tmp_path / "run" / "relations.safetensors", "0")
    (tmp_path / "bad.safetensors").write_bytes(b"{")
    with pytest.raises(ValueError, match="It was probably cut, or written by another"):
        load_relations(tmp_path / "bad.safetensors")
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        load_relations(tmp_path / "none.safetensors")


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


def test_biases_and_layer_normalisation_do_not_decay(encoder_folder, make):
    shim = EncoderShim({}, "fp32")
    shim.load(encoder_folder)
    model = CoderModel(shim.source.transformer, make_relations("diagonal", 2, 32))
    optimizer = make(optimizer={"relation_learning_rate": 1e-1}).optimizer
    decaying, others, relations = model.group_parameters(optimizer)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert all("LayerNorm" in names[id(p)] or names[id(p)].endswith("bias") for p in others["params"])
    assert all("LayerNorm" not in names[id(p)] and names[id(p)].endswith("weight") for p in decaying["params"])
    assert others["weight_decay"] == 0.0 and "weight_decay" not in decaying and relations["rate"] == pytest.approx(100)
    assert sum(len(group["params"]) for group in (decaying, others, relations)) == len(names)


def test_held_out_concepts_are_measured_and_not_trained(make, tmp_path):
    LinkingTask(["fever"], [["X1"]], ["febris", "cold"], ["X1", "X2"]).to_disk(tmp_path / "held_out.json")
    report = train(make(paths={"held_out": str(tmp_path / "held_out.json")}, run={"evaluation_steps": 3}))
    assert set(report.held_out) == {"before", "after"}
    card = (tmp_path / "run" / "encoder" / "README.md").read_text(encoding="utf8")
    assert "after CODER" in card and "- coder\n" in card and "32 triples" in card
    LinkingTask(["fever"], [["C01"]], ["febris"], ["C01"]).to_disk(tmp_path / "seen.json")
    with pytest.raises(ValueError, match="C01"):
        train(make("other", paths={"held_out": str(tmp_path / "seen.json")}))
    with pytest.raises(ValueError, match="C01"):
        export_run(tmp_path / "run", tmp_path / "seen", held_out=str(tmp_path / "seen.json"))


def test_a_share_of_the_base_is_that_of_its_weights(make, tmp_path):
    report = train(make())
    assert export_run(tmp_path / "run", tmp_path / "mixed", base_share=0.5, step=4).training["steps"] == 4
    base, mixed = EncoderShim({}, "fp32"), EncoderShim({}, "fp32")
    base.load(report.settings["paths"]["encoder"])
    mixed.load(tmp_path / "mixed")
    trained = load_file(tmp_path / "run" / "checkpoints" / "step-00000004" / "state.safetensors")
    ours, start = dict(mixed.source.transformer.named_parameters()), dict(base.source.transformer.named_parameters())
    for name, parameter in ours.items():
        mean = (trained[f"weights.transformer.{name}"] + start[name]) / 2
        torch.testing.assert_close(parameter.detach(), mean.detach(), rtol=1e-5, atol=1e-6, msg=name)


def test_whoever_interrupts_a_run_does_not_wait_for_its_scores(make, monkeypatch, tmp_path):
    LinkingTask(["fever"], [["X1"]], ["febris"], ["X1"]).to_disk(tmp_path / "held_out.json")
    settings = make(paths={"held_out": str(tmp_path / "held_out.json")})
    take_step = TrainingLoop.take_step

    def interrupt(self, batch):
        loss = take_step(self, batch)
        if batch == 2:
            signal.raise_signal(signal.SIGINT)
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "take_step", interrupt)
        report = train(settings)
    assert report.training["ended"] == "interrupted" and report.training["steps"] == 3
    assert report.held_out is None
    assert set(train(settings).held_out) == {"before", "after"}


def test_a_run_does_not_go_on_with_other_relations_or_settings(make, folders, tmp_path):
    train(make())
    with pytest.raises(ValueError, match=r"loss\.relations: 'diagonal', not 'full'"):
        train(make(loss={"relations": "full"}))
    with pytest.raises(ValueError, match=r"batch\.accumulation: 2, not 1"):
        train(make(batch={"accumulation": 1}))
    with pytest.raises(ValueError, match=r"data\.min_triples: 2, not 1"):
        train(make(data={"min_triples": 1}))
    write_graph(tmp_path / "other", [("RO", 5, head, tail) for head, tail in itertools.product(range(4), range(4, 12))])
    with pytest.raises(ValueError, match=r"data\.sha256\.triples"):
        train(make(graph=tmp_path / "other"))


def test_a_graph_with_one_tail_is_refused_where_relations_are_learned(make, tmp_path):
    write_graph(tmp_path / "one", [("RO", 0, head, 11) for head in range(8)])
    with pytest.raises(ValueError, match="All 8 triples.*C11"):
        train(make(graph=tmp_path / "one"))
    assert train(make(graph=tmp_path / "one", loss={"relations": "none"})).training["steps"] == 6


def test_a_loss_that_is_no_number_ends_the_run(make, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "training.methods.coder.loss.MultiSimilarityLoss.sum_up",
        lambda self, similarities, _: similarities.sum() * math.nan,
    )
    with pytest.raises(FloatingPointError, match="loss of step 1 "):
        train(make())
    data = json.loads((tmp_path / "run" / "failed_batch.json").read_text(encoding="utf8"))
    assert len(data["names"]) == 2 and len(data["names"][0]) == 16 and len(data["relations"][0]) == 8


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("batch", {"triplets": 127}, "batch.repetitions is 8.*For 127 triplets: none"),
        ("batch", {"triplets": 64, "repetitions": 16}, "For 64 triplets: 2, 4, 8"),
        ("batch", {"repetitions": 1}, "For 128 triplets: 2, 4, 8"),
        ("batch", {"max_steps": 0}, "batch.max_steps is 0"),
        ("batch", {"accumulation": 0}, "batch.accumulation"),
        ("data", {"languages": " "}, "data.languages"),
        ("loss", {"relations": "distmult"}, "relations.*'none', 'diagonal', 'full', 'transe' or 'transe_margin'"),
        ("relations", {"start": "zero"}, "relations.start"),
        ("terms", {"alpha": 0.0}, "terms.alpha"),
        ("optimizer", {"relation_learning_rate": 0.0}, "relation_learning_rate"),
        ("losses", {}, "losses.*no such setting"),
    ],
)
def test_settings_without_meaning_are_refused(section, values, message):
    paths = {"encoder": "", "terminology": "a", "triples": "b", "output": "c"}
    run = {"method": "coder"}
    with pytest.raises(ValueError, match=message):
        make_settings({"paths": paths, "run": run, section: values})
    assert make_settings({"paths": paths, "run": run}).encoder.max_length == 32


@pytest.mark.parametrize("kind", ["diagonal", "none"])
def test_the_command_trains_by_the_config(folders, encoder_folder, tmp_path, kind):
    paths = {"encoder": encoder_folder, "output": tmp_path / "run"}
    paths |= {name: folders / name for name in ("terminology", "triples")}
    batch = {"triplets": 16, "repetitions": 4, "max_steps": 3}
    values = {f"paths.{name}": path for name, path in paths.items()}
    values |= {f"batch.{name}": value for name, value in batch.items()}
    values |= {"optimizer.warmup_steps": 1, "loss.relations": kind}
    arguments = [part for name, value in values.items() for part in (f"--{name}", str(value))]
    result = CliRunner().invoke(app, ["train", "training/configs/coder_cpu.cfg", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "Training: 3 up" in result.stdout and "Data: 32 triples with 3 labels" in result.stdout
    assert (tmp_path / "run" / "relations.safetensors").is_file() == (kind == "diagonal")
    assert isinstance(make_relations("transe", 1, 2), TranslationRelations)
