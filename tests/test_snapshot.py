"""A linker changes as a whole: searches, edits and saves in other threads see it before or after, never half way."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest
import spacy
from conftest import CONCEPTS, make_encoder_folder

from spacy_sapbert.encoder.shim import EncoderShim, make_huggingface_loader
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.terminology import TerminologyBuilder, edits

NAMES = [name for _, names, _ in CONCEPTS.values() for name in names]


@pytest.fixture(scope="module")
def other_encoder(tmp_path_factory):
    return make_encoder_folder(tmp_path_factory.mktemp("other"), seed=7)


@pytest.fixture
def linker(make_nlp):
    return make_nlp(k=2).get_pipe("sapbert_linker")


def make_other_terminology():
    """The same names under other ids."""
    builder = TerminologyBuilder()
    for row, name in enumerate(sorted(set(NAMES))):
        builder.add_name(f"X{row:02}", name)
    return builder.build()


def ids(linker, text):
    return {candidate["concept_id"] for candidate in linker.find([text])[0]}


def in_another_thread(action):
    """Call a function in another thread, and wait for its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result(timeout=60)


def test_a_terminology_that_comes_during_a_search_leaves_no_old_answers_in_the_cache(linker, monkeypatch):
    search = Retriever.search

    def initialize_meanwhile(self, *args):
        monkeypatch.setattr(Retriever, "search", search)
        in_another_thread(lambda: linker.initialize(terminology=make_other_terminology()))
        return search(self, *args)

    monkeypatch.setattr(Retriever, "search", initialize_meanwhile)
    assert ids(linker, "cold") == {"C0009443", "C0009264"}
    assert f"X{sorted(set(NAMES)).index('cold'):02}" in ids(linker, "cold")
    assert all(concept_id in linker.terminology for name in NAMES for concept_id in ids(linker, name))


def test_an_encoder_that_comes_during_a_search_does_not_change_its_answers(linker, monkeypatch, other_encoder):
    texts = ["heart atack", "hypertensive", "coryza", "sleepless"]
    expected = linker.find(texts)
    linker.set_retriever(linker.retriever)  # nothing is cached
    tokenize = EncoderShim.tokenize

    def initialize_meanwhile(self, *args):
        monkeypatch.setattr(EncoderShim, "tokenize", tokenize)
        in_another_thread(lambda: linker.initialize(encoder=str(other_encoder)))
        return tokenize(self, *args)

    monkeypatch.setattr(EncoderShim, "tokenize", initialize_meanwhile)
    assert linker.find(texts) == expected
    assert linker.find(texts) != expected


def test_searches_go_on_with_the_old_encoder_while_a_new_one_is_put_in_place(linker, monkeypatch, other_encoder):
    build = Retriever.build.__func__
    expected = linker.find(["heart atack", "coryza"])
    linker.set_retriever(linker.retriever)
    found = []

    def search_meanwhile(cls, *args, **kwargs):
        found.append(in_another_thread(lambda: linker.find(["heart atack", "coryza"])))
        return build(cls, *args, **kwargs)

    monkeypatch.setattr(Retriever, "build", classmethod(search_meanwhile))
    linker.initialize(encoder=make_huggingface_loader(str(other_encoder)))
    assert found == [expected] and linker.find(["heart atack", "coryza"]) != expected


def test_weights_that_are_loaded_into_the_encoder_during_a_search_do_not_change_its_answers(
    linker, monkeypatch, other_encoder
):
    texts = ["heart atack", "hypertensive"]
    expected = linker.find(texts)
    linker.set_retriever(linker.retriever)
    tokenize = EncoderShim.tokenize

    def load_meanwhile(self, *args):
        monkeypatch.setattr(EncoderShim, "tokenize", tokenize)
        linker.encoder.load(other_encoder)
        return tokenize(self, *args)

    monkeypatch.setattr(EncoderShim, "tokenize", load_meanwhile)
    assert linker.find(texts) == expected
    with pytest.raises(ValueError, match="built with another encoder"):
        linker.find(texts)


@pytest.mark.parametrize("fails_at", ["terminology", "build", "sources"])
def test_an_initialize_that_fails_leaves_the_linker_as_it_was(linker, monkeypatch, other_encoder, tmp_path, fails_at):
    before, expected = linker.to_bytes(), linker.find(["heart atack"])

    def fail(*args, **kwargs):
        raise RuntimeError("half-way")

    terminology = fail if fails_at == "terminology" else make_other_terminology()
    if fails_at == "build":
        monkeypatch.setattr(Retriever, "build", fail)
    if fails_at == "sources":
        monkeypatch.setattr("spacy_sapbert.terminology.licences.add_sources", fail)
    with pytest.raises(RuntimeError, match="half-way"):
        linker.initialize(nlp=spacy.blank("en"), terminology=terminology, encoder=str(other_encoder))
    monkeypatch.undo()
    assert linker.find(["heart atack"]) == expected and linker.to_bytes() == before
    linker.to_disk(tmp_path / "saved")
    twin = spacy.blank("en").add_pipe("sapbert_linker", config={"k": 2}).from_disk(tmp_path / "saved")
    assert twin.find(["heart atack"]) == expected


def test_edits_of_several_threads_are_all_there(linker, monkeypatch):
    """All threads read the linker before any of them has changed it, if nothing stops them."""
    barrier = Barrier(4)
    add = edits.add_terminology

    def wait_for_others(*args):
        try:
            barrier.wait(timeout=0.2)
        except Exception:
            barrier.abort()
        return add(*args)

    monkeypatch.setattr("spacy_sapbert.retrieval.edits.add_terminology", wait_for_others)

    def add_names(thread):
        return sum(linker.add_names([(f"T{thread}{i:02}", f"odd name {thread} {i}")]) for i in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(add_names, range(4))) == [20] * 4
    added = {f"T{thread}{i:02}" for thread in range(4) for i in range(20)}
    assert set(linker.terminology.concepts["id"]) == set(CONCEPTS) | added
    assert [candidate["id"] for candidate in linker.find(["odd name 2 17"])[0]][:1] == ["T217"]


def test_loading_and_initialize_wait_for_edits(linker, monkeypatch):
    data = linker.to_bytes()
    order = []
    for change in (lambda: linker.from_bytes(data), lambda: linker.initialize(terminology=make_other_terminology())):
        add, threads, started = edits.add_terminology, [], Event()

        def run(change=change, started=started):
            started.set()
            change()
            order.append("changed")

        def change_meanwhile(*args, add=add, run=run, threads=threads, started=started):
            monkeypatch.setattr("spacy_sapbert.retrieval.edits.add_terminology", add)
            threads.append(Thread(target=run))
            threads[0].start()
            started.wait()
            threads[0].join(timeout=0.5)
            return add(*args)

        monkeypatch.setattr("spacy_sapbert.retrieval.edits.add_terminology", change_meanwhile)
        linker.add_names([("T1", "odd name")])
        order.append("added")
        threads[0].join(timeout=60)
        assert "T1" not in linker.terminology
    assert order in (["added", "changed"] * 2, ["changed", "added"] * 2)


def test_a_folder_has_one_state_of_a_linker_that_is_edited_while_it_is_saved(linker, monkeypatch, tmp_path):
    """Names come before each part is written."""
    from spacy_sapbert import saving

    count = 0

    def edited(write):
        def edit_and_write(*args):
            nonlocal count
            count += 1
            in_another_thread(lambda: linker.add_names([(f"T{count}", f"odd name {count}")]))
            return write(*args)

        return edit_and_write

    for owner, name in ((saving, "write_encoder"), (Retriever, "to_disk"), (saving, "write_manifest")):
        monkeypatch.setattr(owner, name, edited(getattr(owner, name)))
    monkeypatch.setattr("spacy_sapbert.terminology.Terminology.to_disk", edited(type(linker.terminology).to_disk))
    before = linker.terminology
    linker.to_disk(tmp_path / "saved")
    assert count == 4 and len(linker.terminology) == len(before) + 4
    loaded = spacy.blank("en").add_pipe("sapbert_linker").from_disk(tmp_path / "saved")
    assert loaded.terminology == before


def test_an_exchanged_encoder_is_not_saved_beside_an_index_of_another(linker, other_encoder, tmp_path):
    linker.to_disk(tmp_path / "saved")
    expected = linker.find(["coryza"])
    linker.encoder.load(other_encoder)
    for save in (lambda: linker.to_disk(tmp_path / "saved"), linker.to_bytes):
        with pytest.raises(ValueError, match=r"built with another encoder"):
            save()
    loaded = spacy.blank("en").add_pipe("sapbert_linker", config={"k": 2}).from_disk(tmp_path / "saved")
    assert loaded.find(["coryza"]) == expected
