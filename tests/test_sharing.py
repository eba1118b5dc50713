"""Components that pipelines share: each works with the linker beside it, or says that it can't tell which to use."""

import copy
import gc
import json
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import spacy
from conftest import build_terminology
from spacy.tokens import Span
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_sapbert import matcher, snapshot
from spacy_sapbert.reranker import component
from spacy_sapbert.sharing import list_rivals, list_users

TEXT = "A cold, gout and insomnia."
PARTS = ("terminology_matcher", "sapbert_linker", "sapbert_reranker")
# What a pipeline takes from the first one, which has another terminology; the linker always comes from the second one.
SOURCED = [("terminology_matcher",), ("sapbert_reranker",), ("terminology_matcher", "sapbert_reranker")]


@pytest.fixture
def make(static_folder):
    """Return a function that makes a pipeline for a terminology whose ids have a prefix."""

    def make_pipeline(prefix, *more):
        names = enumerate(["cold", "insomnia", *more])
        terminology = build_terminology((f"{prefix}{number}", name) for number, name in names)
        nlp = spacy.blank("xx")
        for name in PARTS:
            nlp.add_pipe(name)
        nlp.get_pipe("sapbert_linker").initialize(terminology=terminology, encoder=static_folder)
        return nlp

    return make_pipeline


def source(first, second, sourced, **options):
    nlp = spacy.blank("xx", **options)
    for name in PARTS:
        nlp.add_pipe(name, source=first if name in sourced else second)
    return nlp


def source_by_config(first, second, sourced, path):
    sections = ["[nlp]", 'lang = "xx"', f"pipeline = {json.dumps(PARTS)}", "[components]"]
    for name, nlp in (("first", first), ("second", second)):
        nlp.to_disk(path / name)
    for name in PARTS:
        sections += [f"[components.{name}]", f'source = "{path / ("first" if name in sourced else "second")}"']
    return load_model_from_config(Config().from_str("\n".join(sections)), auto_fill=True)


def source_and_save(first, second, sourced, path):
    source(first, second, sourced).to_disk(path / "pipeline")
    return spacy.load(path / "pipeline")


def source_with_vocab(first, second, sourced, path):
    # Without the first one, only one pipeline with that vocabulary is left.
    return source(copy.deepcopy(first), second, sourced, vocab=copy.deepcopy(first.vocab))


WAYS = {
    "add_pipe": lambda first, second, sourced, path: source(first, second, sourced),
    "vocab": source_with_vocab,
    "config": source_by_config,
    "saved": source_and_save,
    "deepcopy": lambda first, second, sourced, path: copy.deepcopy(source(first, second, sourced)),
    "pickle": lambda first, second, sourced, path: pickle.loads(pickle.dumps(source(first, second, sourced))),
}


def read_ids(doc):
    return [(ent.text, ent.kb_id_, ent._.kb_candidates[0]["id"], ent._.match) for ent in doc.ents]


@pytest.mark.parametrize("sourced", SOURCED, ids="+".join)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_sourced_component_works_with_the_linker_beside_it(make, tmp_path, way, sourced):
    first, second = make("A:"), make("B:", "gout")
    nlp = way(first, second, sourced, tmp_path)
    expected = read_ids(second(TEXT))
    assert [ids[1] for ids in expected] == ["B:0", "B:2", "B:1"]
    for _ in range(2):
        assert read_ids(nlp(TEXT)) == read_ids(next(nlp.pipe([TEXT]))) == expected
        # Called one after another, on a document of its own vocabulary.
        doc = nlp.make_doc(TEXT)
        for _, part in nlp.pipeline:
            doc = part(doc)
        assert read_ids(doc) == expected
        assert [ids[1] for ids in read_ids(first(TEXT))] == ["A:0", "A:1"]
    with nlp.select_pipes(disable="sapbert_linker"):
        assert read_ids(nlp(TEXT)) == expected


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_sourced_component_works_with_the_linker_beside_it_in_other_processes(make, monkeypatch, start):
    nlp = source(make("A:"), second := make("B:", "gout"), SOURCED[-1])
    monkeypatch.setattr("spacy.language.mp", __import__("multiprocessing").get_context(start))
    assert [*map(read_ids, nlp.pipe([TEXT] * 3, n_process=2, batch_size=1))] == [read_ids(second(TEXT))] * 3


def test_pipelines_that_share_components_can_be_used_by_threads_at_once(make):
    first = make("A:")
    pipelines = [first, source(first, make("B:", "gout"), SOURCED[-1])]
    expected = [read_ids(nlp(TEXT)) for nlp in pipelines]
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda n: read_ids(pipelines[n % 2](TEXT)), range(16))]
    assert found == expected * 8 and expected[0] != expected[1]


def test_what_is_made_of_a_terminology_is_made_once_whoever_takes_turns(make, monkeypatch):
    made = []

    def count(module, name):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **kwargs: made.append(name) or function(*args, **kwargs))

    for module, name in ((matcher, "FixedMatcher"), (component, "CandidateTable"), (snapshot, "_make_filters")):
        count(module, name)
    first = make("A:")
    pipelines = [first, source(first, make("B:", "gout"), SOURCED[-1])]
    for nlp in pipelines:
        nlp.get_pipe("sapbert_linker").ids = [f"{'AB'[nlp is not first]}:{n}" for n in range(2)]
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(lambda n: pipelines[n % 2](TEXT), range(16))]
    assert sorted(made) == sorted(["FixedMatcher", "CandidateTable", "_make_filters"] * 2)
    # Memory is free, and everything is made again.
    first.get_pipe("sapbert_linker").clear_cache()
    assert [ids[1] for ids in read_ids(first(TEXT))] == ["A:0", "A:1"] and len(made) == 9


@pytest.mark.parametrize("name", SOURCED[-1])
def test_where_nothing_tells_which_linker_is_meant_both_are_named(make, name):
    first, second = make("A:"), make("B:", "gout")
    nlp = source(first, second, [name], vocab=first.vocab)
    told = r"is in 2 pipelines, with different linkers called 'sapbert_linker' \(with 2 concepts, 3 concepts\)"
    with pytest.raises(ValueError, match=f"'{name}' {told}.*Give each pipeline a"):
        nlp(TEXT)
    # Documents of the first one come from the pipeline that it was made in.
    assert [ids[1] for ids in read_ids(first(TEXT))] == ["A:0", "A:1"]
    if name == "sapbert_reranker":
        with pytest.raises(ValueError, match=told):
            nlp.get_pipe(name).find(["cold"])
        assert nlp.get_pipe(name).initialize(nlp=nlp) is None
    # A saved pipeline has components of its own, and the first one is right again when nothing has the second one.
    copied = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert read_ids(copied(TEXT)) == read_ids(second(TEXT))
    del nlp
    assert [ids[1] for ids in read_ids(first(TEXT))] == ["A:0", "A:1"]


def test_a_reranker_alone_keeps_its_linker(make):
    first, second = make("A:"), make("B:")
    reranker = first.get_pipe("sapbert_reranker")
    del first
    assert reranker.find(["cold"])[0][0]["id"] == "A:0"
    shared = source(make("C:"), second, ())
    reranker = shared.get_pipe("sapbert_reranker")
    assert reranker.find(["cold"])[0][0]["id"] == "B:0"
    del shared, second
    assert reranker.find(["cold"])[0][0]["id"] == "B:0"
    reranker.linker = "other"
    with pytest.raises(ValueError, match="'sapbert_reranker' has lost its pipeline"):
        reranker.find(["cold"])


def test_a_linker_finds_the_same_whatever_other_pipelines_ask_of_it(make, tmp_path):
    nlp = make("A:", "gout")
    alone = spacy.blank("xx")
    for name in PARTS[:2]:
        alone.add_pipe(name, source=nlp)
    alone.to_disk(tmp_path / "alone")
    loaded = spacy.load(tmp_path / "alone")
    for pipeline in (alone, loaded, nlp):
        linker = pipeline.get_pipe("sapbert_linker")
        assert [len(linker.get_candidates(ent)) for ent in pipeline(TEXT).ents] == [1, 1, 1]
    assert [len(ent._.kb_candidates) for ent in nlp(TEXT).ents] == [3, 3, 3]


def test_a_pipeline_that_was_only_a_source_is_gone_at_once(make):
    first = make("A:")
    nlp = source(first, make("B:", "gout"), SOURCED[-1])
    weak = [weakref.ref(one) for one in (first, first.get_pipe("sapbert_linker"))]
    gc.disable()
    try:
        del first
        assert [one() for one in weak] == [None, None]
    finally:
        gc.enable()
    # Nothing but the second linker is left.
    assert nlp.get_pipe("sapbert_reranker").find(["cold"])[0][0]["id"] == "B:0"


@pytest.mark.parametrize("name", PARTS)
def test_what_is_all_sourced_from_a_pipeline_outlives_it(make, name):
    first = make("A:")
    nlp = source(first, first, PARTS)
    nlp.rename_pipe(name, "other")
    nlp.rename_pipe("other", name)
    with nlp.select_pipes(disable=name):
        nlp.add_pipe("sentencizer")
    del first
    assert [ids[1] for ids in read_ids(nlp(TEXT))] == ["A:0", "A:1"]
    linker, reranker = nlp.get_pipe(PARTS[1]), nlp.get_pipe(PARTS[2])
    assert list_users(linker) == [nlp.get_pipe(PARTS[0]), reranker]
    assert list_rivals(reranker, [nlp.make_doc("a")]) == {PARTS[1]} and not list_rivals(linker, [])


def test_a_linker_that_was_replaced_or_removed_is_not_used_even_if_someone_has_it(make):
    nlp, other = make("A:"), make("B:")
    old = nlp.get_pipe("sapbert_linker")
    nlp.replace_pipe("sapbert_linker", "sapbert_linker")
    nlp.get_pipe("sapbert_linker").initialize(terminology=other.get_pipe("sapbert_linker").terminology)
    reranker = nlp.get_pipe("sapbert_reranker")
    assert reranker.find(["cold"])[0][0]["id"] == "B:0" and nlp(TEXT).ents[0].kb_id_ == "B:0"
    nlp.remove_pipe("sapbert_linker")
    for call in (lambda: nlp(TEXT), lambda: reranker.find(["cold"])):
        with pytest.raises(ValueError, match="finds no linker 'sapbert_linker' in its pipeline, which has term"):
            call()
    assert not list_users(old)


def test_a_component_of_three_pipelines_never_takes_the_linker_of_another(make):
    first, second = make("A:"), make("B:", "gout")
    mixed, alike = source(first, second, PARTS[:1]), source(first, first, PARTS)
    assert [ids[1] for ids in read_ids(mixed(TEXT))] == ["B:0", "B:2", "B:1"]
    assert [ids[1] for ids in read_ids(first(TEXT))] == ["A:0", "A:1"]
    # Of these, nothing tells from which they come.
    with pytest.raises(ValueError, match="can't tell which one to use here"):
        alike(TEXT)
    # With a part of its own, a pipeline is known.
    alike.replace_pipe("sapbert_reranker", "sapbert_reranker")
    assert [ids[1] for ids in read_ids(alike(TEXT))] == ["A:0", "A:1"]


def test_a_reranker_in_front_of_its_linker_is_told_where_all_is_sourced(make):
    first, second, nlp = make("A:"), make("B:"), spacy.blank("xx")
    for name in PARTS[::-1]:
        nlp.add_pipe(name, source=second if name == PARTS[1] else first)
    doc = nlp.make_doc(TEXT)
    doc.ents = [Span(doc, 1, 2, "X")]
    with pytest.raises(ValueError, match="stands in front of its linker 'sapbert_linker'"):
        nlp.get_pipe("sapbert_reranker")(doc)
