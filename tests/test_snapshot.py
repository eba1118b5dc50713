"""A linker changes as a whole: searches, edits and saves in other threads see it before or after, never half way."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest
import spacy
from conftest import CONCEPTS, build_terminology
from hypothesis import given, settings
from hypothesis import strategies as st
from linked import ids

from spacy_sapbert import building
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.forking import LRUCache
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.terminology import Terminology, edits

NAMES = sorted({name for _, names, _ in CONCEPTS.values() for name in names})
# No names.
TEXTS = ["heart atack", "hypertensive", "coryza", "sleepless"]


@pytest.fixture
def linker(make_nlp):
    return make_nlp(k=2).get_pipe("sapbert_linker")


def make_other_terminology():
    """The same names under other ids."""
    return build_terminology((f"X{row:02}", name) for row, name in enumerate(NAMES))


def find_ids(linker, text):
    return set(ids(linker.find([text])[0]))


def in_another_thread(action):
    """Call a function in another thread, and wait for its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result(timeout=60)


@pytest.fixture
def before_next(monkeypatch):
    """Return a function that lets something happen before the next call of a method."""

    def happen(owner, name, action):
        method = getattr(owner, name)

        def act_first(self, *args):
            monkeypatch.setattr(owner, name, method)
            action()
            return method(self, *args)

        monkeypatch.setattr(owner, name, act_first)

    return happen


def test_a_terminology_that_comes_during_a_search_leaves_no_old_answers_in_the_cache(linker, before_next):
    def initialize():
        in_another_thread(lambda: linker.initialize(terminology=make_other_terminology()))

    before_next(Retriever, "search", initialize)
    assert find_ids(linker, "cold") == {"C0009443", "C0009264"}
    assert f"X{NAMES.index('cold'):02}" in find_ids(linker, "cold")
    assert all(concept_id in linker.terminology for name in NAMES for concept_id in find_ids(linker, name))


def test_an_encoder_that_comes_during_a_search_does_not_change_its_answers(linker, before_next, other_encoder):
    expected = linker.find(TEXTS)
    linker.set_retriever(linker.retriever)  # nothing is cached
    found = []

    def initialize():
        # Searches go on with the old encoder until the new one is put in place.
        before_next(EncoderShim, "fixed", lambda: found.append(in_another_thread(lambda: linker.find(TEXTS))))
        in_another_thread(lambda: linker.initialize(encoder=str(other_encoder)))

    before_next(EncoderShim, "tokenize", initialize)
    assert linker.find(TEXTS) == expected
    assert found == [expected] and linker.find(TEXTS) != expected


def test_weights_that_are_loaded_during_a_search_do_not_change_its_answers_and_are_refused_by_the_next_and_by_saving(
    linker, before_next, encoder_folder, other_encoder, tmp_path
):
    linker.to_disk(tmp_path / "saved")
    expected = linker.find(TEXTS)
    linker.set_retriever(linker.retriever)  # nothing is cached
    before_next(EncoderShim, "tokenize", lambda: linker.encoder.load(other_encoder))
    assert linker.find(TEXTS) == expected
    for use in (lambda: linker.find(TEXTS), lambda: linker.to_disk(tmp_path / "saved"), linker.to_bytes):
        with pytest.raises(ValueError, match="built with another encoder"):
            use()
    twin = spacy.blank("xx").add_pipe("sapbert_linker", config={"k": 2}).from_disk(tmp_path / "saved")
    linker.encoder.load(encoder_folder)
    assert linker.find(TEXTS) == twin.find(TEXTS) == expected


@pytest.mark.parametrize("fails_at", ["terminology", "build", "sources"])
def test_an_initialize_that_fails_leaves_the_linker_as_it_was(linker, monkeypatch, other_encoder, fails_at):
    before, expected = linker.to_bytes(), linker.find(TEXTS)

    def fail(*args, **kwargs):
        raise RuntimeError("half-way")

    terminology = fail if fails_at == "terminology" else make_other_terminology()
    if fails_at == "build":
        monkeypatch.setattr(Retriever, "build", fail)
    if fails_at == "sources":
        monkeypatch.setattr("spacy_sapbert.terminology.licences.add_sources", fail)
    with pytest.raises(RuntimeError, match="half-way"):
        linker.initialize(nlp=spacy.blank("xx"), terminology=terminology, encoder=str(other_encoder))
    monkeypatch.undo()
    assert linker.find(TEXTS) == expected and linker.to_bytes() == before


def test_edits_of_several_threads_are_all_there(linker, monkeypatch):
    """All threads read the linker before any of them has changed it, if nothing stops them."""
    barrier, add = Barrier(4), edits.add_terminology

    def wait_for_others(*args):
        try:
            barrier.wait(timeout=0.2)
        except Exception:
            barrier.abort()
        return add(*args)

    monkeypatch.setattr("spacy_sapbert.retrieval.edits.add_terminology", wait_for_others)

    def add_names(thread):
        return sum(linker.add_names([(f"T{thread}{i}", f"odd name {thread} {i}")]) for i in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(add_names, range(4))) == [5] * 4
    added = {f"T{thread}{i}" for thread in range(4) for i in range(5)}
    assert set(linker.terminology.concepts["id"]) == set(CONCEPTS) | added
    assert ids(linker.find(["odd name 2 4"])[0])[:1] == ["T24"]


@pytest.mark.parametrize("change", ["load", "initialize"])
def test_loading_and_initialize_wait_for_edits(linker, monkeypatch, change):
    data, order, started = linker.to_bytes(), [], Event()

    def run():
        started.set()
        if change == "load":
            linker.from_bytes(data)
        else:
            linker.initialize(terminology=make_other_terminology())
        order.append("changed")

    add, thread = edits.add_terminology, Thread(target=run)

    def change_meanwhile(*args):
        thread.start()
        started.wait()
        thread.join(timeout=0.3)
        return add(*args)

    monkeypatch.setattr("spacy_sapbert.retrieval.edits.add_terminology", change_meanwhile)
    linker.add_names([("T1", "odd name")])
    order.append("added")
    thread.join(timeout=60)
    assert "T1" not in linker.terminology and sorted(order) == ["added", "changed"]


def test_a_folder_has_one_state_of_a_linker_that_is_edited_while_it_is_saved(linker, monkeypatch, tmp_path):
    before, names = linker.terminology, []

    def edit_before(owner, name):
        write = getattr(owner, name)

        def edit_and_write(*args):
            names.append(name)
            in_another_thread(lambda: linker.add_names([(f"T{len(names)}", f"odd name {len(names)}")]))
            return write(*args)

        monkeypatch.setattr(owner, name, edit_and_write)

    edit_before(building, "write_encoder")
    edit_before(building, "write_manifest")
    edit_before(Retriever, "to_disk")
    edit_before(Terminology, "to_disk")
    linker.to_disk(tmp_path / "saved")
    assert len(names) == 4 and len(linker.terminology) == len(before) + 4
    loaded = spacy.blank("xx").add_pipe("sapbert_linker").from_disk(tmp_path / "saved")
    assert loaded.terminology == before


def test_clearing_the_cache_forgets_filters_and_keeps_the_index(linker):
    expected = linker.find(TEXTS, ids=["C0009443"])
    retriever = linker.retriever
    assert retriever.allow.cache_info().currsize
    linker.clear_cache()
    assert linker.index is retriever.index and linker.terminology is retriever.terminology
    assert not linker.retriever.allow.cache_info().currsize
    assert linker.find(TEXTS, ids=["C0009443"]) == expected


operation = st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 6), st.integers())


@settings(deadline=None)
@given(st.integers(0, 5), st.lists(operation, max_size=60))
def test_the_cache_behaves_like_a_list_ordered_by_use(size, operations):
    cache = LRUCache(size)
    model: list[tuple[int, int]] = []  # least recently used first
    for kind, key, value in operations:
        held = dict(model)
        if kind == "get":
            assert cache.get(key) == held.get(key)
            if key in held:
                model = [pair for pair in model if pair[0] != key] + [(key, held[key])]
        else:
            cache.put(key, value)
            model = [pair for pair in model if pair[0] != key] + [(key, value)]
            model = model[-size:] if size else []
        assert len(cache._values) == len(model)
    for key, value in model:
        assert cache.get(key) == value
