"""Runs on pairs of names: groups of similar concepts, and names in other writing."""

import numpy as np
import pytest
from accelerate import Accelerator
from small_runs import assert_same, final_weights, make, pairs, terminology

from spacy_sapbert.terminology import TerminologyBuilder
from training.data.alterations import alter_writing
from training.data.relatedness import Relatedness
from training.data.tokens import tokenise
from training.encoders.bases import load_base
from training.engine.loop import TrainingLoop
from training.engine.run import train
from training.methods.registry import METHODS

# Fixtures.
__all__ = ["make", "pairs", "terminology"]

OWN = {"sapbert": {}, "static": {"table": {"width": 8, "words": 3}, "batch": {"chunk_names": 64}}}


@pytest.fixture(params=list(OWN))
def make_grouped(make, terminology, request, tmp_path):
    """Make settings of a run whose batches have neighbours and names in other writing."""
    terminology.to_disk(tmp_path / "terminology")

    def make_run(output="run", **batch):
        own = dict(OWN[request.param])
        groups = {"neighbours": 1, "neighbour_pool": 4, "altered": 0.5, **own.pop("batch", {}), **batch}
        paths = {"terminology": str(tmp_path / "terminology")}
        return make(output, run={"method": request.param}, batch=groups, paths=paths, **own)

    return make_run


def load(settings):
    """Load the data of a run, as the runner does."""
    base = load_base(settings.paths.encoder, settings.encoder)
    method = METHODS[settings.run.method](settings, base, Accelerator(cpu=True))
    method.learned = method.load()
    return method


def test_a_grouped_run_that_was_stopped_goes_on_bit_for_bit(make_grouped, monkeypatch):
    whole, stopped = make_grouped("whole"), make_grouped("stopped")
    train(whole)
    take_step = TrainingLoop.take_step

    def fail(self, batch):
        if self.step == 5:
            raise KeyboardInterrupt
        return take_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "take_step", fail)
        with pytest.raises(KeyboardInterrupt):
            train(stopped)
    train(stopped)
    assert_same(final_weights(whole), final_weights(stopped))


def test_a_run_is_refused_whose_terminology_is_another(make_grouped, tmp_path):
    train(make_grouped())
    builder = TerminologyBuilder()
    builder.add_name("C000", "heart")
    builder.build().to_disk(tmp_path / "terminology")
    with pytest.raises(ValueError, match="E631.*terminology"):
        train(make_grouped(max_steps=8))


def test_groups_are_a_pair_and_one_of_its_pool(make_grouped, terminology):
    method = load(make_grouped(pairs=8, epochs=3))
    method.order = method.order_pairs()
    pool, related = method.order.neighbours, Relatedness(terminology)
    ids = method.data.concepts.to_list()
    assert pool.shape == (len(ids), 4)
    assert not any(related.is_related(ids[row], ids[other]) for row, found in enumerate(pool) for other in found)
    for rows in method.order.iterate():
        concepts = set(method.data.labels[rows].tolist())
        with_neighbour = [concept for concept in concepts if concepts & set(pool[concept].tolist())]
        # Four pairs are drawn, and each brings one; some are drawn twice.
        assert len(rows) <= 8 and len(with_neighbour) >= len(concepts) / 2


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_names_is_in_other_writing(make_grouped, share):
    method = load(make_grouped(altered=share))
    method.tokenise(method.base)
    names = np.repeat(np.arange(len(method.data.names)), 20)
    found = method.take_tokens(names)
    same = tokenise(method.data.names, method.base)
    other = tokenise(alter_writing(method.data.names, seed=0), method.base)
    is_altered = []
    for name, tokens in zip(names.tolist(), found, strict=True):
        forms = [same[name].tolist(), other[name].tolist()]
        assert tokens.tolist() in forms
        if forms[0] != forms[1]:
            is_altered.append(tokens.tolist() == forms[1])
    assert len(is_altered) > 300 and np.mean(is_altered) == pytest.approx(share, abs=0.1)
    again = method.take_tokens(names)
    assert all(np.array_equal(one, two) for one, two in zip(found, again, strict=True))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"neighbours": 0, "neighbour_pool": 0}, "paths.terminology"),
        ({"neighbours": 0}, "batch.neighbour_pool"),
        ({"neighbours": 5}, "batch.neighbour_pool"),
        ({"neighbours": 8, "neighbour_pool": 8, "pairs": 8}, "batch.neighbours"),
        ({"altered": 1.5}, "batch.altered"),
    ],
)
def test_settings_that_do_not_fit_are_refused(make_grouped, batch, message):
    with pytest.raises(ValueError, match=message):
        make_grouped(**batch)
