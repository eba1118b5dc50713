"""A retired id stands for the concept that took its place, wherever ids are looked up."""

import numpy as np
import pytest
import spacy
from conftest import build_terminology
from linked import make_doc
from rrf_files import rrf_line
from spacy.training import Example

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.exchange.fhir import CodeFinder
from spacy_sapbert.reranker.gold import GoldIds
from spacy_sapbert.retrieval.filters import FilterTable
from spacy_sapbert.scorer import linker_score
from spacy_sapbert.terminology import Terminology, TerminologyBuilder, merge, read_rrf
from spacy_sapbert.terminology.edits import add_terminology, remove_concepts, remove_names
from spacy_sapbert.terminology.knowledge_base import KnowledgeBase
from training.corpora.gold import KnownIds
from training.release.rrf import write_rrf

# Chains, a circle, an id that a concept has, one with two successors, one with none, and NIL.
RETIRED = {
    "NIL": (["X:1"], []),
    "X:3": (["X:4"], []),
    "X:4": (["X:1"], ["X:2"]),
    "X:5": (["X:6"], []),
    "X:6": (["X:5"], []),
    "X:2": (["X:1"], []),
    "X:7": (["X:1", "X:2"], []),
    "X:8": ([], ["X:1"]),
}


@pytest.fixture()
def changed():
    builder = TerminologyBuilder()
    for id_, parents in (("X:1", ()), ("X:2", ("X:3",)), ("X:9", ())):
        builder.add_concept(id_, parents=parents, codes=["MSH:D1"] if id_ == "X:1" else [])
        builder.add_name(id_, f"name of {id_}", source="X")
    for id_, (replaced_by, consider) in RETIRED.items():
        builder.add_retired(id_, replaced_by=replaced_by, consider=consider)
    return builder.build()


def list_found(terminology):
    return {id_: found for id_ in (*RETIRED, "X:1") if (found := terminology.find_id(id_))}


FOUND = {"X:1": "X:1", "X:2": "X:2", "X:3": "X:1", "X:4": "X:1"}


def test_ids_are_found_after_saving_merging_and_editing(changed, tmp_path):
    assert list_found(changed) == FOUND
    assert changed.retired["id"].to_list() == ["NIL", "X:3", "X:4", "X:5", "X:6", "X:7", "X:8"]
    assert dict(changed.retired.select("id", "consider").rows())["X:7"] == ["X:1", "X:2"]
    changed.to_disk(tmp_path / "saved")
    loaded = Terminology.from_disk(tmp_path / "saved")
    assert loaded == changed and loaded.fingerprint == changed.fingerprint and list_found(loaded) == FOUND
    bare = Terminology(changed.concepts, changed.names)
    assert bare != changed and bare.fingerprint != changed.fingerprint
    assert list_found(remove_concepts(changed, ["X:9"]).terminology) == FOUND
    with_cui = build_terminology({"C0000001": ["one"]}, codes={"C0000001": ["X:1"]})
    assert list_found(remove_names(merge([changed, with_cui]), [("C0000001", "name of X:1")]).terminology) == {
        **dict.fromkeys(["X:3", "X:4"], "C0000001"),
        "X:2": "X:2",
    }
    added = TerminologyBuilder()
    added.add_name("X:7", "alive again")
    added.add_retired("X:8", replaced_by=["X:7"])
    assert list_found(add_terminology(changed, added.build()).terminology) == {**FOUND, "X:7": "X:7", "X:8": "X:7"}


def test_a_concept_is_not_removed_by_an_id_that_it_took_the_place_of(changed):
    with pytest.raises(KeyError, match="'X:3' is retired, and 'X:1' took its place"):
        remove_concepts(changed, ["X:3"])


@pytest.mark.parametrize("cost", [0, 1 << 20])
def test_filters_find_them_one_by_one_and_many_at_once(changed, monkeypatch, cost):
    monkeypatch.setattr("spacy_sapbert.terminology.table.SEARCH_COST", cost)

    def match(**fields):
        rows = np.flatnonzero(FilterTable(changed).match(ConceptFilter(**fields)))
        return changed.concepts.to_polars("id")["id"].gather(changed.name_concept[rows]).to_list()

    assert match(ids=["X:4", "X:9"]) == ["X:1", "X:9"]
    assert match(below=["X:1"]) == match(below=["X:3"]) == ["X:1", "X:2"], "a parent may be retired, too"
    assert match(not_below=["X:4"]) == ["X:9"]
    with pytest.raises(ValueError, match="ids allows 'X:5'"):
        match(ids=["X:5", "X:1"])


def test_gold_ids_and_exported_ones_are_those_of_today(changed):
    gold = GoldIds(changed)
    assert gold.resolve("X:3") == gold.resolve("X:1") == {"X:1"} and gold.resolve("X:4|X:9") == {"X:1", "X:9"}
    assert gold.count_missing(["X:3", "X:5", "X:8"]) == {"X:5": 1, "X:8": 1}
    assert KnownIds(changed).resolve(["X:3", "X:8"]) == ["X:1"]
    assert KnowledgeBase(changed, find_names=lambda name: []).cui_to_entity["X:3"].concept_id == "X:1"
    doc = make_doc(spacy.blank("en").vocab, "toe", (0, 1))
    for finder, code in ((CodeFinder(changed), "1"), (CodeFinder(), "3")):
        doc.ents = [spacy.tokens.Span(doc, 0, 1, "A", kb_id="X:3")]
        assert finder.find(doc.ents[0])["X:3"][0][:2] == ("X", code)


def test_a_link_to_the_concept_of_today_is_right(changed):
    vocab = spacy.blank("en").vocab
    predicted, reference = (spacy.tokens.Doc(vocab, words=["toe"]) for _ in range(2))
    for id_, f in (("X:1", 1.0), ("X:2", 0.0)):
        predicted.ents = [spacy.tokens.Span(predicted, 0, 1, "A", kb_id=id_)]
        reference.ents = [spacy.tokens.Span(reference, 0, 1, "A", kb_id="X:3")]
        scores = linker_score([Example(predicted, reference)], find_id=changed.find_id)
        assert scores["nel_micro_f"] == f


def test_added_names_go_to_the_concept_of_today(make_nlp, changed):
    linker = make_nlp().get_pipe("sapbert_linker")
    linker.initialize(terminology=changed)
    assert linker.add_names([("X:3", "heart"), ("X:8", "cold")]) == 2
    assert linker.terminology["X:1"].names == ("name of X:1", "heart") and linker.terminology["X:8"].names == ("cold",)


def test_a_release_answers_for_the_ids_of_its_list_of_changes(tmp_path, changed):
    write_rrf(changed, tmp_path / "written")
    written = read_rrf(tmp_path / "written", languages=None, xrefs=True)
    assert list_found(written) == FOUND and written.retired.equals(changed.retired)
    rows = [("C2", "SY", "C1"), ("C3", "SY", "C2"), ("C4", "RB", "C1"), ("C4", "RO", "C2"), ("C5", "DEL", "")]
    lines = [rrf_line("MRCUI", CUI1=old, REL=relation, CUI2=new) for old, relation, new in (*rows, ("C1", "SY", "C9"))]
    (tmp_path / "MRCUI.RRF").write_text("".join(f"{line}\n" for line in lines))
    atom = rrf_line("MRCONSO", CUI="C1", LAT="ENG", TS="P", STT="PF", ISPREF="Y", SAB="S", TTY="PT", CODE="1", STR="a")
    (tmp_path / "MRCONSO.RRF").write_text(f"{atom}\n")
    with pytest.warns(UserWarning, match="no MRREL"):
        read = read_rrf(tmp_path)
    assert [read.find_id(id_) for id_ in ("C1", "C2", "C3", "C4", "C5")] == ["C1", "C1", "C1", None, None]
    with pytest.raises(KeyError, match="consider C1, C2"):
        read["C4"]
