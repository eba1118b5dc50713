"""The garbage collector rests while a batch is worked on, and is then as it was before."""

import gc
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from spacy.tokens import Span

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


@pytest.mark.parametrize("name", ["sapbert_linker", "sapbert_reranker"])
@pytest.mark.parametrize("call", ["find", "decide", "decide_spans", "link_spans", "predict"])
def test_components_pause_it(make_nlp, monkeypatch, name, call):
    nlp = make_nlp()
    nlp.add_pipe("sapbert_reranker")
    component = nlp.get_pipe(name)
    ask = getattr(component, call, None)
    if ask is None:
        pytest.skip("only linkers have it")
    doc = nlp.make_doc("any of these")
    doc.ents = [Span(doc, 0, 3, "FINDING")]
    given = {"predict": [doc], "decide_spans": [doc[:]], "link_spans": [doc[:]]}.get(call, ["any of these"])
    seen = []
    retriever = type(nlp.get_pipe("sapbert_linker").retriever)
    for step in ("find", "describe"):
        original = getattr(retriever, step)
        monkeypatch.setattr(retriever, step, _note(seen, original))
    ask(given)
    assert seen == [False, False] and gc.isenabled()


def _note(seen, function):
    def call(*given):
        seen.append(gc.isenabled())
        return function(*given)

    return call


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
