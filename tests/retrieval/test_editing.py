"""Edited linkers against linkers that were built from scratch."""

import pickle
import shutil
from functools import partial

import numpy as np
import pytest
import spacy
from conftest import CONCEPTS, build_terminology
from found_rows import ExactEncoder, list_hits
from hypothesis import given, settings
from hypothesis import strategies as st
from linked import ids
from spacy.tokens import Doc, Span

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.files import pack_with, unpack_with
from spacy_sapbert.index import Index, ScannIndex
from spacy_sapbert.retrieval.edits import with_names, with_removed
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.edits import collect_names, remove_concepts, remove_names

WORDS = ["heart", "cold", "acute", "a", "b"]
NAMES = [f"{first}{blank}{second}" for first in WORDS for second in WORDS for blank in (" ", "  ")] + ["Heart", "感冒"]
PAIRS = st.tuples(st.sampled_from([f"C{i}" for i in range(12)]), st.sampled_from(NAMES))
ADDING = st.tuples(st.just("add"), st.lists(PAIRS, min_size=1, max_size=12))
REMOVING = st.tuples(st.sampled_from(["remove", "remove names"]), st.lists(st.integers(0, 11), max_size=4))
COPYING = st.tuples(st.sampled_from(["disk", "bytes", "pickle"]), st.none())


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    shim = ExactEncoder({}, "fp32")
    shim.load(encoder_folder)
    return shim


def without_concepts(retriever, ids):
    return with_removed(retriever, remove_concepts(retriever.terminology, ids))


def copy_retriever(retriever, how, folder):
    if how == "pickle":
        return pickle.loads(pickle.dumps(retriever))
    if how == "bytes":
        terminology = Terminology.from_bytes(retriever.terminology.to_bytes())
        read = partial(Retriever.from_disk, terminology=terminology, memory_map=False)
        return unpack_with(read, pack_with(retriever.to_disk))
    # Over the folder that it is mapped from, if it comes from there.
    retriever.terminology.to_disk(folder / "terminology")
    retriever.to_disk(folder / "retriever")
    return Retriever.from_disk(folder / "retriever", Terminology.from_disk(folder / "terminology"))


def described_hits(retriever, encoder, texts, k, allowed=None):
    """Say what is found, and of each name only what decides between names with equal scores."""
    names = retriever.terminology.names
    found = list_hits(retriever.search(texts, encoder.encode(texts), k, allowed))
    return [
        [(hit.concept, hit.score, names["name"][hit.name] == text, names["concept"][hit.name]) for hit in hits]
        for text, hits in zip(texts, found, strict=True)
    ]


def assert_like_from_scratch(retriever, encoder):
    scratch = Retriever.build(retriever.terminology, encoder, Index())
    texts = [*NAMES[::7], "heart", "b b", "zzz"]
    for k in (1, 3, 20):
        assert described_hits(retriever, encoder, texts, k) == described_hits(scratch, encoder, texts, k)
    named = [*NAMES, *texts]
    assert list_hits(retriever.find_named(named)) == list_hits(scratch.find_named(named))
    some = ConceptFilter(ids=frozenset(retriever.terminology.concepts["id"].to_list()[::2]))
    assert described_hits(retriever, encoder, texts, 3, some) == described_hits(scratch, encoder, texts, 3, some)
    used = np.diff(retriever.offsets) > 0
    assert used.sum() == len(scratch.index)
    assert sorted(retriever.keys[used].tolist()) == sorted(scratch.keys.tolist())
    assert len(retriever.keys) == len(retriever.index) == len(retriever.index.vectors)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=20)
@given(
    st.lists(PAIRS, max_size=15),
    st.lists(st.one_of(ADDING, REMOVING, COPYING), min_size=1, max_size=7),
    st.sampled_from([0.0, 0.25, 1.0]),
)
def test_any_edits_give_what_building_from_scratch_gives(encoder, tmp_path_factory, pairs, steps, unused_share):
    folder = tmp_path_factory.mktemp("edits")
    pairs = [("C0", "heart"), *pairs]
    retriever = Retriever.build(build_terminology(pairs), encoder, Index())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spacy_sapbert.index.base.UNUSED_SHARE", unused_share)
        for what, argument in steps:
            before = retriever, retriever.terminology, retriever.index, len(retriever.index)
            if what == "add":
                pairs += argument
                retriever = with_names(retriever, encoder, collect_names(argument))
            elif what == "remove":
                known = sorted({concept_id for concept_id, _ in pairs})
                # Never the first one, whose name can always be found.
                ids = {known[i % len(known)] for i in argument} - {"C0"}
                pairs = [pair for pair in pairs if pair[0] not in ids]
                retriever = without_concepts(retriever, ids)
            elif what == "remove names":
                known = sorted({(id_, " ".join(name.split())) for id_, name in pairs if id_ != "C0"})
                gone = {known[i % len(known)] for i in argument if known}
                # No concept may lose all its names.
                left = {id_ for id_, name in known if (id_, name) not in gone}
                gone = {(id_, name) for id_, name in gone if id_ in left}
                pairs = [(id_, name) for id_, name in pairs if (id_, " ".join(name.split())) not in gone]
                retriever = with_removed(retriever, remove_names(retriever.terminology, sorted(gone)))
            else:
                retriever = copy_retriever(retriever, what, folder)
            assert before == (before[0], before[0].terminology, before[0].index, len(before[0].index))
            assert retriever.terminology == build_terminology(pairs)
            assert retriever.terminology.fingerprint == build_terminology(pairs).fingerprint
    assert_like_from_scratch(retriever, encoder)
    shutil.rmtree(folder)


def test_names_with_known_tokens_are_not_encoded_and_unused_rows_hide_nothing(encoder, monkeypatch):
    monkeypatch.setattr("spacy_sapbert.index.base.UNUSED_SHARE", 1.0)
    pairs = [(f"X{a}{b}", f"{a} {b}") for a in "cdefghijklmnop" for b in "abcdefghijklmnop"]
    retriever = Retriever.build(build_terminology([*pairs, ("C1", "heart"), ("C2", "cold")]), encoder, Index())
    n_rows = len(retriever.index)
    retriever = without_concepts(retriever, [concept_id for concept_id, _ in pairs])
    assert len(retriever.index) == n_rows == len(pairs) + 2
    assert_like_from_scratch(retriever, encoder)
    encoder.encoded = 0
    edited = with_names(retriever, encoder, collect_names([("C2", "HEART"), ("C3", "hea rt"), ("C3", "hea  rt")]))
    assert encoder.encoded == 1 and len(edited.index) == n_rows + 1
    again = with_names(without_concepts(edited, ["C3"]), encoder, collect_names([("C4", "Hea Rt")]))
    assert encoder.encoded == 1 and len(again.index) == n_rows + 1
    assert_like_from_scratch(again, encoder)


def test_a_small_edit_copies_no_mapped_vectors_and_rows_without_names_are_dropped_when_they_are_many(encoder, tmp_path):
    retriever = Retriever.build(build_terminology([(f"C{i}", f"a {i}") for i in range(9)]), encoder, Index())
    loaded = copy_retriever(retriever, "disk", tmp_path)
    edited = without_concepts(with_names(loaded, encoder, collect_names([("C1", "b")])), ["C0"])
    assert isinstance(loaded.index.vectors.base, np.memmap) and edited.index._built is loaded.index.vectors
    retriever = without_concepts(retriever, ["C0", "C1"])
    assert len(retriever.index) == 9
    retriever = without_concepts(retriever, ["C2"])
    assert len(retriever.index) == 6 and retriever.index.fingerprint == encoder.fingerprint
    assert_like_from_scratch(retriever, encoder)


def test_many_added_names_are_arranged_with_scann(encoder, monkeypatch):
    pytest.importorskip("scann")
    monkeypatch.setattr("spacy_sapbert.index.approximate.EXACT_BELOW", 1000)
    monkeypatch.setattr("spacy_sapbert.index.approximate.ADDED_LIMIT", 300)
    monkeypatch.setattr("spacy_sapbert.index.leaves.BUDGETS", ((1000, 1000),))
    pairs = [(f"C{i}", f"a {i}") for i in range(1600)]
    retriever = Retriever.build(build_terminology(pairs[:1000]), encoder, ScannIndex())
    edited = with_names(retriever, encoder, collect_names(pairs[1000:1300]))
    assert edited.index._structure is retriever.index._structure and len(edited.index._built) == 1000
    assert_like_from_scratch(without_concepts(edited, [f"C{i}" for i in range(5, 200)]), encoder)
    edited = with_names(edited, encoder, collect_names(pairs[1300:]))
    assert len(edited.index._built) == len(edited.index) == 1600
    assert edited.index.configuration["scoring"] == "leaves"
    assert_like_from_scratch(edited, encoder)


@pytest.fixture(scope="module")
def linker(make_nlp):
    """One that no test may change."""
    return make_nlp().get_pipe("sapbert_linker")


def link(linker, text):
    doc = Doc(linker.vocab, words=text.split())
    doc.ents = [Span(doc, 0, len(doc), label="X")]
    return [(c["id"], c["name"]) for c in linker(doc).ents[0]._.kb_candidates]


def assert_refused(linker, call, error, match):
    before = linker.retriever, linker.terminology, linker.index, linker.retriever.row_of_name.tolist()
    with pytest.raises(error, match=match):
        call()
    assert before == (linker.retriever, linker.terminology, linker.index, linker.retriever.row_of_name.tolist())


@pytest.mark.parametrize(
    "edit, given, error, match",
    [
        ("add_names", [("C1", "a"), ("C 2", "b")], ValueError, "as the id of a concept"),
        ("add_names", [("C1", "a"), ("C2", "\ud800")], ValueError, "as a text"),
        ("add_names", [("C1", "a"), ("C2", None)], TypeError, "Item 1"),
        ("add_names", {"C1": "a"}, TypeError, "Item 0"),
        ("add_names", "C1", TypeError, "Item 0"),
        ("add_names", None, TypeError, "None was given, but names have to be"),
        ("remove_concepts", ["C0009443", "C1"], KeyError, "No concept with the id.*C1"),
        ("remove_concepts", [None], KeyError, "No concept with the id.*None"),
        ("remove_concepts", ["C0009443", 5], KeyError, "No concept with the id.*5"),
        ("remove_concepts", "C0009443", TypeError, "Pass a list for a single one as well"),
        ("remove_concepts", None, TypeError, "None was given"),
        ("remove_concepts", 5, TypeError, "5 was given"),
        ("remove_concepts", CONCEPTS, ValueError, "Can't remove these.*6 concepts"),
        ("remove_names", [("C0009264", "warm")], KeyError, "to remove"),
        ("remove_names", [("C2", "cold")], KeyError, "No concept with"),
        ("remove_names", [("C0009264", name) for name in CONCEPTS["C0009264"][1]], ValueError, "without names"),
        ("remove_names", "cold", TypeError, "takes a Terminology"),
        ("remove_names", ["cold"], TypeError, "takes a Terminology"),
    ],
)
def test_refused_edits_change_nothing(linker, edit, given, error, match):
    assert_refused(linker, lambda: getattr(linker, edit)(given), error, match)


def test_edits_of_an_empty_linker_and_of_one_with_another_encoder_are_refused(make_nlp, encoder_folder):
    empty, other = spacy.blank("en").add_pipe("sapbert_linker"), make_nlp().get_pipe("sapbert_linker")
    other.encoder.requested = {"pooling": "mean"}
    other.encoder.load(encoder_folder)
    for linker, match in ((empty, "has no concepts yet"), (other, "built with another encoder")):
        for edit, values in (("add_names", [("C1", "a")]), ("remove_concepts", ["C0009443"])):
            with pytest.raises(ValueError, match=match):
                getattr(linker, edit)(values)


@pytest.mark.parametrize(
    "where",
    [
        "spacy_sapbert.retrieval.edits.encode_groups",
        "spacy_sapbert.retrieval.edits.make_row_table",
        "spacy_sapbert.index.base.Index.extended",
        "spacy_sapbert.linker.SapbertLinker.set_retriever",
    ],
)
def test_an_edit_that_fails_half_way_changes_nothing(linker, monkeypatch, where):
    def fail(*args, **kwargs):
        raise KeyboardInterrupt("half-way")

    monkeypatch.setattr(where, fail)
    assert_refused(linker, lambda: linker.add_names([("C1", "odd sniffles")]), KeyboardInterrupt, "half-way")
    assert link(linker, "cold")[0] == ("C0009264", "cold")


def test_empty_duplicate_and_unsayable_names_are_counted(make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    assert linker.add_names([]) == 0
    assert linker.add_names([("C1", " "), ("C1", "")]) == 0
    assert linker.add_names([("C0009443", "cold"), ("C1", "new"), ("C1", "new"), ("C1", "")]) == 1
    with pytest.warns(UserWarning, match="1 of 2 names have no vector"):
        assert linker.add_names([("C0009443", "感冒"), ("C0009443", "chill")]) == 2
    counts = {"concepts_added": 1, "names_added": 3, "duplicate_names": 2, "empty_names": 3, "normalized_names": 0}
    assert linker.terminology.report["edits"] == counts
    assert "感冒" in linker.terminology["C0009443"].names
    linker.remove_names([("C0009443", name) for name in linker.terminology["C0009443"].names if name != "感冒"])
    found = [id_ for id_ in linker.terminology.concepts["id"] if id_ != "C0009443"]
    linker.remove_concepts(found)
    assert len(linker.index) == 0 and [ids(of_text) for of_text in linker.find(["感冒", "cold"])] == [["C0009443"], []]
