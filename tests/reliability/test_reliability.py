"""Faults, kills and threads leave the old or the new. With --slow in their long form.

RELIABILITY_MINUTES, 10 by default, is the length of the long soak.
"""

import os
import random
import shutil
import threading
import time
from itertools import accumulate, pairwise

import pytest
from injection import count_operations, fault_at, limited_files
from linked import make_doc
from worlds import describe, describe_saved, list_unfinished, make_encoder, make_linker, make_name, make_terminology

from spacy_sapbert.retrieval import encoding

LOOSE = 2e-5


@pytest.fixture(scope="module")
def is_long(request):
    return request.config.getoption("--slow")


@pytest.fixture
def states(tmp_path):
    """An old and a new linker."""
    encoders = [make_encoder(tmp_path / f"encoder-{seed}", seed) for seed in (1, 2)]
    return [make_linker(terminology=make_terminology(p), encoder=e) for p, e in zip(("O", "N"), encoders, strict=True)]


def list_faults(n_operations, folder, is_long):
    """List contexts in which one operation fails, in which all fail from there on, or files are cut short."""
    for number in range(0, n_operations, 1 if is_long else 9):
        yield f"a fault at {number}", fault_at(number, folder)
        yield f"a kill at {number}", fault_at(number, folder, lasting=True)
    for size in (0, 100, 1000, 4000):
        yield f"files of at most {size} bytes", limited_files(size)


def run_with(fault, run):
    """Call a function during a fault, and return the error that it raises, if any."""
    try:
        with fault:
            run()
    except Exception as error:  # libraries turn failed writes into errors of their own
        return error
    return None


def test_saving_with_any_fault_leaves_the_old_or_the_new_pipeline(states, tmp_path, is_long):
    old, new = states
    good, folder = tmp_path / "good", tmp_path / "p"
    old.to_disk(good)
    shutil.copytree(good, folder)
    n_operations = count_operations(lambda: new.to_disk(folder), folder)
    outcomes = set()
    for name, fault in list_faults(n_operations, folder, is_long):
        shutil.rmtree(folder)
        shutil.copytree(good, folder)
        error = run_with(fault, lambda: new.to_disk(folder))
        found = [describe(old), describe(new)].index(describe_saved(folder))
        assert found == 1 or error is not None, name
        outcomes.add(found)
        new.to_disk(folder)
        assert not list_unfinished(folder) and describe_saved(folder) == describe(new), name
    assert outcomes == {0, 1} and n_operations > 80


@pytest.mark.parametrize("work", ["loading", "building"])
def test_loading_and_building_with_any_fault_leave_the_old_or_the_new_linker(
    states, tmp_path, is_long, work, monkeypatch
):
    # So that a build stores several files of vectors.
    monkeypatch.setattr(encoding, "CHUNK", 16)
    old, new = states
    folder, data, expected = tmp_path / work, old.to_bytes(), [describe(old), describe(new)]
    new.to_disk(folder)

    def run():
        if work == "loading":
            old.from_disk(folder)
        else:
            given = {"terminology": new.terminology, "encoder": str(tmp_path / "encoder-2")}
            old.initialize(vectors_path=folder / "vectors", **given)

    n_operations = count_operations(run, folder)
    for name, fault in list_faults(n_operations, folder, is_long):
        shutil.rmtree(folder / "vectors", ignore_errors=True)
        old = make_linker().from_bytes(data)
        error = run_with(fault, run)
        # What cannot be read may not matter; but then all the rest has to be there.
        assert describe(old) == expected[0 if error else 1], (name, error)
        stored = {path.name for path in (folder / "vectors").glob("vectors-*.npy")}
        run()
        assert stored <= {path.name for path in (folder / "vectors").glob("*")}, name
        assert describe(old) == expected[1] == describe_saved(folder), name


class World:
    """A linker that threads share, all that it was initialized with, and the right answers of each state."""

    def __init__(self, folder):
        rng = random.Random(0)
        self.encoders = [make_encoder(folder / f"encoder-{seed}", seed) for seed in (1, 2)]
        self.terminologies = [make_terminology(prefix) for prefix in "ABC"]
        self.probes = [f"{make_name(rng)} zz{number}" for number in range(20)]
        self.expected = {}
        for e, encoder in enumerate(self.encoders):
            for t, terminology in enumerate(self.terminologies):
                answers = make_linker(terminology=terminology, encoder=encoder).find(self.probes, k=99)
                right = [{c["id"]: c["score"] for c in found} for found in answers]
                self.expected[e, t] = dict(zip(self.probes, right, strict=True))
        self.linker = make_linker(terminology=self.terminologies[0], encoder=self.encoders[0])
        # Encoder, terminology, and how many terminologies there have been: edits last as long as that is the same. An
        # initialization is entered before it begins; `ended` follows.
        self.states, self.ended, self.counts = [(0, 0, 0)], 0, {}

    def check(self, answers, since):
        """All answers have to be those of one state that the linker was in since then."""
        states = dict.fromkeys(state[:2] for state in self.states[since:])
        assert any(self._fits(answers, self.expected[state]) for state in states), (answers, states)

    def _fits(self, answers, expected):
        for probe, candidates in answers.items():
            # Scores that differ in rounding only are ties, which names and ids break.
            scores = [round(c["score"], 5) for c in candidates]
            # Concepts that threads add may be there or not.
            own = [c for c in candidates if not c["id"].startswith("EDIT")]
            best = sorted(expected[probe].values(), reverse=True)[: len(own)]
            found = [expected[probe].get(c["id"], 9.0) for c in own]
            wrong = [a for c, a, b in zip(own, found, best, strict=True) if abs(a - b) + abs(c["score"] - a) > LOOSE]
            if wrong or scores != sorted(scores, reverse=True):
                return False
        return True

    def find(self, rng):
        since, probes = self.ended, rng.sample(self.probes, rng.randint(1, 8))
        self.check(dict(zip(probes, self.linker.find(probes), strict=True)), since)

    def link(self, rng):
        since, docs = self.ended, []
        for _ in range(4):
            probes = rng.sample(self.probes, 3)
            bounds = accumulate((len(probe.split()) for probe in probes), initial=0)
            docs.append(make_doc(self.linker.vocab, " ".join(probes), *pairwise(bounds)))
        for doc in self.linker.pipe(docs, batch_size=2):
            self.check({ent.text: ent._.kb_candidates for ent in doc.ents}, since)

    def edit(self, rng):
        since, concept_id = self.ended, f"EDIT{rng.random()}"
        self.linker.add_names([(concept_id, make_name(rng))])
        assert concept_id in self.linker.terminology or self._is_replaced(since)
        try:
            self.linker.remove_concepts([concept_id])
        except KeyError:
            assert self._is_replaced(since)
        assert concept_id not in self.linker.terminology

    def _is_replaced(self, since):
        return len({version for _, _, version in self.states[since:]}) > 1

    def initialize(self, rng):
        encoder, terminology, version = self.states[-1]
        given = {}
        if rng.random() < 0.7:
            encoder = given["encoder"] = 1 - encoder
        if rng.random() < 0.7 or not given:
            terminology = given["terminology"] = (terminology + 1) % 3
        self.states.append((encoder, terminology, version + ("terminology" in given)))
        named = {"encoder": self.encoders, "terminology": self.terminologies}
        self.linker.initialize(**{name: named[name][number] for name, number in given.items()})
        self.ended = len(self.states) - 1
        time.sleep(rng.choice((0.0, 0.1, 0.5)))

    def save(self, loaded, load, rng):
        since = self.ended
        load(loaded)
        self.check(dict(zip(self.probes, loaded.find(self.probes), strict=True)), since)


def test_threads_get_the_answers_of_one_state_and_lose_no_edit(tmp_path, is_long):
    world, folder = World(tmp_path), tmp_path / "saved"
    seconds = 60 * float(os.environ.get("RELIABILITY_MINUTES", "10")) if is_long else 2.5
    end, errors = time.monotonic() + seconds, []

    def save_to_disk(loaded):
        world.linker.to_disk(folder)
        loaded.from_disk(folder)

    def save_to_bytes(loaded):
        loaded.from_bytes(world.linker.to_bytes())

    def repeat(number, turn, *args):
        rng = random.Random(number)
        while not errors:
            try:
                turn(*args, rng)
                world.counts[turn.__name__] = world.counts.get(turn.__name__, 0) + 1
            except Exception as error:  # an edit must not make any other call fail
                errors.append(error)
            # Not before the first, which a busy machine may start late.
            if time.monotonic() >= end:
                return

    saves = [(world.save, make_linker(), save) for save in (save_to_disk, save_to_bytes)]
    turns = [(world.find,), (world.find,), (world.link,), (world.edit,), (world.edit,), (world.initialize,), *saves]
    threads = [threading.Thread(target=repeat, args=(n, *turn)) for n, turn in enumerate(turns)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert set(world.counts) == {"find", "link", "edit", "initialize", "save"}
