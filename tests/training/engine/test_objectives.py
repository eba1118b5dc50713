"""Miner and losses against pytorch-metric-learning and against plain loops: values and gradients."""

import math

import pytest
import torch
from pytorch_metric_learning import losses as pml_losses
from pytorch_metric_learning import miners as pml_miners
from small_runs import find_violating_pairs

from training.engine.objectives import (
    LOSSES,
    MultiSimilarityLoss,
    PairMiner,
    cosines_between,
    list_pairs,
    make_loss,
    make_miner,
)

# Losses that are written here with some of their constants, and what the library computes in more memory.
OWN = [
    ("triplet", {}, pml_losses.TripletMarginLoss(margin=0.2)),
    ("triplet", {"margin": 0.05}, pml_losses.TripletMarginLoss(margin=0.05)),
    ("lifted_structure", {}, pml_losses.LiftedStructureLoss(neg_margin=0.5)),
    ("lifted_structure", {"margin": 1.0}, pml_losses.LiftedStructureLoss(neg_margin=1)),
    ("info_nce", {}, pml_losses.NTXentLoss(temperature=0.07)),
]


def batch(seed=0, n=24, width=6, labels=9, spread=0.6):
    generator = torch.Generator().manual_seed(seed)
    concepts = torch.randint(labels, (n,), generator=generator)
    centres = torch.randn(labels, width, generator=generator)
    embeddings = 3.0 * (centres[concepts] + spread * torch.randn(n, width, generator=generator))
    return embeddings.double().requires_grad_(), concepts


def as_set(mask):
    return {tuple(pair) for pair in mask.nonzero().tolist()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("margin, metric", [(0.2, "euclidean"), (0.1, "cosine"), (0.0, "euclidean"), (5.0, "cosine")])
def test_miner_keeps_the_pairs_of_violating_triplets(seed, margin, metric):
    embeddings, labels = batch(seed)
    mined = PairMiner(margin, metric)(embeddings, list_pairs(labels))
    assert (as_set(mined.positives), as_set(mined.negatives)) == find_violating_pairs(
        embeddings, labels, margin, metric
    )
    if (margin, metric) == (0.1, "cosine"):
        # CODER's: the library's miner of the Multi-Similarity loss, with strict signs, which rounding does not tell
        # apart here.
        pairs = pml_miners.MultiSimilarityMiner(epsilon=0.1)(embeddings.detach().float(), labels)
        assert as_set(mined.positives) == set(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
        assert as_set(mined.negatives) == set(zip(pairs[2].tolist(), pairs[3].tolist(), strict=True))


@pytest.mark.parametrize("mining", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name, constants, reference", OWN)
def test_own_losses_agree_with_pytorch_metric_learning(name, constants, reference, seed, mining):
    embeddings, labels = batch(seed)
    pairs = list_pairs(labels)
    if mining:
        pairs = make_miner("sapbert")(embeddings, pairs)
    loss = make_loss(name, **constants)(embeddings, labels, pairs)
    (gradient,) = torch.autograd.grad(loss, embeddings)
    chosen = (*pairs.positives.nonzero(as_tuple=True), *pairs.negatives.nonzero(as_tuple=True))
    theirs = embeddings.detach().float().requires_grad_()
    expected = reference(theirs, labels, chosen)
    (expected_gradient,) = torch.autograd.grad(expected, theirs)
    torch.testing.assert_close(loss.double(), expected.double(), rtol=2e-4, atol=1e-5)
    torch.testing.assert_close(gradient.double(), expected_gradient.double(), rtol=2e-3, atol=2e-5)


def naive(name, unit, pairs):
    """Each loss as its formula says, with loops."""
    n = len(unit)
    s = unit @ unit.T
    d = torch.cdist(unit, unit)
    pos = [[j for j in range(n) if pairs.positives[i, j]] for i in range(n)]
    neg = [[j for j in range(n) if pairs.negatives[i, j]] for i in range(n)]

    def mean(costs):
        costs = list(costs)
        return sum(costs) / len(costs) if costs else 0.0

    if name == "multi_similarity":
        pull = [math.log1p(sum(math.exp(-2 * (s[i, p] - 0.5)) for p in pos[i])) / 2 for i in range(n)]
        push = [math.log1p(sum(math.exp(50 * (s[i, k] - 0.5)) for k in neg[i])) / 50 for i in range(n)]
        return mean(pull) + mean(push)
    if name == "cosine":
        return mean(c for i in range(n) for p in pos[i] if (c := 1 - s[i, p].item()) > 0) + mean(
            c for i in range(n) for k in neg[i] if (c := s[i, k].item()) > 0
        )
    if name == "triplet":
        return mean(c for i in range(n) for p in pos[i] for k in neg[i] if (c := (d[i, p] - d[i, k]).item() + 0.2) > 0)
    if name == "info_nce":
        return mean(
            -math.log(
                math.exp(s[i, p] / 0.07) / (math.exp(s[i, p] / 0.07) + sum(math.exp(s[i, k] / 0.07) for k in neg[i]))
            )
            for i in range(n)
            for p in pos[i]
        )
    if name == "lifted_structure":
        return mean(
            max(0.0, math.log(sum(math.exp(0.5 - d[m, k]) for m in (i, p) for k in neg[m])) + d[i, p].item()) ** 2 / 2
            for i in range(n)
            for p in pos[i]
        )
    if name == "circle":
        return mean(
            math.log1p(
                sum(math.exp(-256 * max(0, 1.25 - s[i, p].item()) * (s[i, p].item() - 0.75)) for p in pos[i])
                * sum(math.exp(256 * max(0, s[i, k].item() + 0.25) * (s[i, k].item() - 0.25)) for k in neg[i])
            )
            for i in range(n)
            if pos[i] and neg[i]
        )
    assert name == "nca", f"the formula of {name} is missing here"
    costs, chosen = [], pairs.positives | pairs.negatives
    parts = [chosen[i].sum().item() + chosen[:, i].sum().item() if chosen.any() else 1.0 for i in range(n)]
    for i in range(n):
        weights = {j: math.exp(-20 * d[i, j] ** 2) for j in range(n) if j != i}
        same = sum(weight for j, weight in weights.items() if pairs.same[i, j])
        if same:
            costs.append(-math.log(same / sum(weights.values())) * parts[i] / max(parts))
    return mean(costs)


# With others, the miner keeps no pairs.
@pytest.mark.parametrize("seed", [2, 3, 5])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_their_formulas(name, seed):
    embeddings, labels = batch(seed, n=10, labels=4, spread=0.3)
    pairs = make_miner("sapbert")(embeddings, list_pairs(labels))
    assert pairs.positives.any() and pairs.negatives.any()
    unit = torch.nn.functional.normalize(embeddings.detach(), dim=1)
    expected = pytest.approx(float(naive(name, unit, pairs)), rel=1e-3, abs=1e-5)
    assert make_loss(name)(embeddings, labels, pairs).item() == expected
    if name == "multi_similarity":
        # Also of given similarities.
        assert MultiSimilarityLoss().sum_up(cosines_between(embeddings, embeddings), pairs).item() == expected


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2], [0], [0, 0, 1]])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("empty", [True, False])
def test_batches_without_some_kind_of_pair_have_finite_gradients(name, labels, empty):
    embeddings = torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pairs = list_pairs(torch.tensor(labels))
    if empty:
        pairs = pairs._replace(positives=torch.zeros_like(pairs.positives), negatives=torch.zeros_like(pairs.negatives))
    else:
        pairs = make_miner("sapbert")(embeddings, pairs)
    loss = make_loss(name)(embeddings, torch.tensor(labels), pairs)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(embeddings.grad).all()
    if empty and name != "nca":
        assert loss == 0 and not embeddings.grad.any()


@pytest.mark.parametrize("name", LOSSES)
def test_equal_and_opposite_names_overflow_nothing(name):
    embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]).half().requires_grad_()
    labels = torch.tensor([0, 0, 0, 1])
    loss = make_loss(name)(embeddings, labels, list_pairs(labels))
    loss.backward()
    assert loss.dtype == torch.float32 and torch.isfinite(loss) and torch.isfinite(embeddings.grad).all()


def test_homonyms_are_no_negatives_if_asked():
    labels, names = torch.tensor([0, 0, 1, 1]), torch.tensor([7, 8, 7, 9])
    assert as_set(list_pairs(labels, names).negatives) == as_set(list_pairs(labels).negatives) - {(0, 2), (2, 0)}
    assert as_set(list_pairs(labels, names).positives) == {(0, 1), (1, 0), (2, 3), (3, 2)}
