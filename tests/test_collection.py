"""The garbage collector rests while a batch is worked on, and is then as it was before."""

import gc
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from spacy_sapbert.forking import pause_collection


@pytest.fixture(autouse=True)
def enabled():
    gc.enable()
    yield
    gc.enable()


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_as_before(is_enabled, fails):
    if not is_enabled:
        gc.disable()
    try:
        with pause_collection():
            assert not gc.isenabled()
            assert not fails
    except AssertionError:
        assert fails
    assert gc.isenabled() == is_enabled


def test_threads_that_overlap_leave_it_enabled():
    barrier = Barrier(2)

    @pause_collection()
    def work(turn):
        barrier.wait(10)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(200):
            list(pool.map(work, range(2)))
    assert gc.isenabled()


def test_components_pause_it(make_nlp, monkeypatch):
    nlp = make_nlp()
    linker = nlp.get_pipe("sapbert_linker")
    seen = []
    retriever = type(linker._snapshot.retriever)
    find = retriever.find
    monkeypatch.setattr(retriever, "find", lambda *given: [seen.append(gc.isenabled()), find(*given)][1])
    linker.find(["any of these"])
    assert seen == [False] and gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_process_forked_meanwhile_collects():
    with pause_collection():
        child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(not gc.isenabled()))
        child.start()
        child.join(60)
    assert child.exitcode == 0
    gc.disable()
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(gc.isenabled()))
    child.start()
    child.join(60)
    assert child.exitcode == 0
