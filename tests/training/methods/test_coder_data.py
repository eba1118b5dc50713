"""CODER's data: what can't be used is counted by name; batches hold what they promise, whatever comes before."""

import re
import warnings
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology import Terminology, TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.edits import remove_concepts
from training.data.triples import write_triples
from training.methods.coder.data import TripletSampler, choose_names, load_graph

NAMES = {
    "C1": [("ENG", "Aspirin"), ("ENG", "aspirin"), ("ENG", "ASA"), ("GER", "Aspirin"), ("GER", "Acetylsalicylsäure")],
    "C2": [("ENG", "headache"), ("ENG", "cephalgia"), ("ENG", "head pain"), ("GER", "Kopfschmerz")],
    "C3": [("ENG", "pain")],
    "C4": [("GER", "Fieber")],
    "C5": [("ENG", "ibuprofen"), ("ENG", "brufen"), ("GER", "Ibuprofen")],
}
# (label, head, tail): the second concept of a row is the head.
TRIPLES = [
    ("RO may_treat", "C1", "C2"),
    ("RO may_treat", "C1", "C3"),
    ("RO may_treat", "C5", "C2"),
    ("RO may_treat", "C5", "C3"),
    ("RO may_treat", "C1", "C4"),
    ("PAR", "C2", "C3"),
    ("RB", "C4", "C1"),
    ("RB", "C1", "C5"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph")
    release = write_release(
        path / "rrf",
        MRCONSO=[atom(cui, name, LAT=language) for cui, names in NAMES.items() for language, name in names],
        MRREL=[
            rrf_line("MRREL", CUI1=tail, REL=label.split()[0], RELA=" ".join(label.split()[1:]), CUI2=head)
            for label, head, tail in TRIPLES
        ],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        terminology = read_rrf(release, languages=None, tradenames="off")
        write_triples(release, terminology, path / "triples")
    terminology.to_disk(path / "terminology")
    return path


def load(folders, terminology="terminology", **options):
    return load_graph(folders / terminology, folders / "triples", **options)


def as_triples(graph):
    ids = graph.concepts.to_list()
    rows = zip(graph.relations.tolist(), graph.heads.tolist(), graph.tails.tolist(), strict=True)
    return {(graph.labels[relation], ids[head], ids[tail]) for relation, head, tail in rows}


def names_of(graph, concept):
    rows = graph.name_rows[graph.offsets[concept] : graph.offsets[concept + 1]]
    return graph.names.gather(rows).to_list()


def test_all_languages_and_labels(folders):
    graph = load(folders, min_triples=1)
    assert as_triples(graph) == set(TRIPLES) and len(graph) == len(TRIPLES)
    assert names_of(graph, 0) == ["acetylsalicylsäure", "asa", "aspirin"]
    assert graph.report["names_by_language"] == {"ENG": 8, "GER": 5}
    assert graph.report["labels"] == {"PAR": 1, "RB": 2, "RO may_treat": 5}
    assert names_of(load(folders, min_triples=1, lower_case=False), 0) == [
        "ASA",
        "Acetylsalicylsäure",
        "Aspirin",
        "aspirin",
    ]


def test_what_can_not_be_used_is_counted(folders):
    graph = load(folders, languages=["ENG"], min_triples=2)
    assert as_triples(graph) == {triple for triple in TRIPLES if triple[0] == "RO may_treat" and "C4" not in triple}
    report = graph.report
    assert (report["head_without_names"], report["tail_without_names"], report["unknown_concept"]) == (1, 1, 0)
    assert report["rare_labels"] == {"PAR": 1, "RB": 1}
    assert report["triples_read"] == 8 and report["triples"] == 4
    assert "C4" not in graph.concepts and "fieber" not in graph.names


def test_concepts_that_were_held_out_are_counted(folders):
    terminology = read_terminology(folders)
    remove_concepts(terminology, ["C5"]).terminology.to_disk(folders / "without")
    graph = load(folders, "without", languages=["ENG"], min_triples=1)
    assert graph.report["unknown_concept"] == 3 and "C5" not in graph.concepts


def read_terminology(folders):
    return Terminology.from_disk(folders / "terminology")


def test_what_leaves_nothing_is_refused(folders):
    with pytest.raises(ValueError, match="no names in FRE, XX; it has names in ENG, GER"):
        load(folders, languages=["FRE", "ENG", "XX"])
    with pytest.raises(ValueError, match="None of the 8 triples.*rare_labels"):
        load(folders, min_triples=6)
    remove_concepts(read_terminology(folders), ["C1", "C2", "C5"]).terminology.to_disk(folders / "little")
    with pytest.raises(ValueError, match="'unknown_concept': 8"):
        load(folders, "little")
    with pytest.raises(ValueError, match="There are 4 triples.*8 distinct"):
        TripletSampler(load(folders, languages=["ENG"]), 16, 2)


def test_one_language_where_all_are_wanted_is_told(folders):
    terminology = remove_concepts(read_terminology(folders), ["C4"]).terminology
    names = terminology.names.filter(pl.col("language") == "ENG")
    Terminology(terminology.concepts, names).to_disk(folders / "english")
    with pytest.warns(UserWarning, match="all in ENG"):
        load(folders, "english")


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("k, m", [(8, 2), (16, 4), (9, 3)])
def test_batches_hold_what_they_promise(folders, k, m, balance):
    graph = load(folders, min_triples=1)
    sampler = TripletSampler(graph, k, m, seed=3, label_balance=balance)
    for number in range(40):
        batch = sampler.draw(number)
        assert set(Counter(batch.triples.tolist()).values()) == {m} and len(set(batch.triples.tolist())) == k // m
        heads, tails = np.split(batch.concepts, 2)
        assert (heads == graph.heads[batch.triples]).all() and (tails == graph.tails[batch.triples]).all()
        assert (batch.relations == graph.relations[batch.triples]).all()
        for names, concepts in zip(np.split(batch.names, 2), (heads, tails), strict=True):
            for start in range(0, k, m):
                drawn = graph.names.gather(names[start : start + m]).to_list()
                own = names_of(graph, concepts[start])
                # Each name at least once, or no name twice: none comes again before the others have come.
                counts = Counter(drawn)
                assert set(counts) <= set(own) and max(counts.values()) - min(counts[name] for name in own) <= 1


def test_random_concepts_are_others_than_the_tails(folders):
    graph = load(folders, min_triples=1)
    sampler, plain = (TripletSampler(graph, 8, 2, random_concepts=wanted) for wanted in (True, False))
    drawn = Counter()
    for number in range(200):
        batch = sampler.draw(number)
        _, tails, others = np.split(batch.concepts, 3)
        assert (others != tails).all()
        for name, concept in zip(batch.names[16:].tolist(), others.tolist(), strict=True):
            assert graph.names[name] in names_of(graph, concept)
        assert (batch.names[:16] == plain.draw(number).names).all()
        assert (sampler.find_known(batch) == plain.find_known(batch)).all()
        drawn.update(others.tolist())
    assert set(drawn) == set(range(len(graph.concepts)))


def test_a_batch_depends_on_seed_and_number_alone(folders):
    graph = load(folders, min_triples=1)
    first, second = (TripletSampler(graph, 8, 2, seed=1) for _ in range(2))
    in_order = [first.draw(number) for number in range(10)]
    for number in (7, 2, 9):
        assert all((a == b).all() for a, b in zip(second.draw(number), in_order[number], strict=True))
    # Another batch and another seed see other names.
    assert any((in_order[0].names != batch.names).any() for batch in in_order[1:])
    assert any((TripletSampler(graph, 8, 2, seed=2).draw(n).names != in_order[n].names).any() for n in range(10))


def test_triples_are_drawn_alike_or_labels_are(folders):
    graph = load(folders, min_triples=1)
    for balance, expected in ((0.0, [1 / 8, 2 / 8, 5 / 8]), (1.0, [1 / 3] * 3)):
        # One distinct triple in a batch, so that draws do not depend on each other.
        sampler = TripletSampler(graph, 2, 2, label_balance=balance)
        drawn = np.bincount([sampler.draw(number).relations[0] for number in range(3000)]) / 3000
        np.testing.assert_allclose(drawn, expected, atol=0.04)


def test_all_names_are_drawn_in_time(folders):
    graph = load(folders, min_triples=1)
    sampler = TripletSampler(graph, 16, 4)
    drawn = {name for number in range(30) for name in sampler.draw(number).names.tolist()}
    assert drawn == set(range(len(graph.names)))


def test_known_triples_are_those_of_a_naive_loop(folders):
    graph = load(folders, min_triples=1)
    triples = set(zip(graph.heads.tolist(), graph.relations.tolist(), graph.tails.tolist(), strict=True))
    sampler = TripletSampler(graph, 16, 4)
    for number in range(10):
        batch = sampler.draw(number)
        heads, tails = np.split(batch.concepts, 2)
        expected = [
            [(head, relation, tail) in triples for tail in tails.tolist()]
            for head, relation in zip(heads.tolist(), batch.relations.tolist(), strict=True)
        ]
        assert sampler.find_known(batch).tolist() == expected
        assert sampler.find_known(batch).diagonal().all()


def clean_naively(name):
    """Clean one name, step by step, as the released code does (pretrain/load_umls.py)."""
    name = f" {name.lower()} ".replace(" nos ", " ")
    name = re.sub(r"\(.*?\)", "", name)
    return " ".join(name.replace("-", " ").split())


@given(st.lists(st.text("()-aNOSnos ", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=8))
def test_names_are_cleaned_step_by_step(names):
    builder = TerminologyBuilder()
    for name in names:
        builder.add_name("C1", name, language="ENG")
    terminology = builder.build()
    kept, n_empty = choose_names(terminology, ["ENG"], True, "terminology", clean=True)
    cleaned = [clean_naively(name) for name in terminology.names["name"]]
    assert kept["name"].to_list() == sorted({name for name in cleaned if name})
    assert len(kept) + n_empty <= len(terminology.names) and (n_empty > 0) == ("" in cleaned)


def test_empty_names_are_counted_and_left_out():
    builder = TerminologyBuilder()
    for concept, name in [("C1", "Cold (disease)"), ("C1", "cold"), ("C1", "(finding)"), ("C2", "pain NOS")]:
        builder.add_name(concept, name, language="ENG")
    names, n_empty = choose_names(builder.build(), ["ENG"], True, "terminology", clean=True)
    assert names["name"].to_list() == ["cold", "pain"] and n_empty == 1
    names, n_empty = choose_names(builder.build(), ["ENG"], True, "terminology")
    assert len(names) == 4 and n_empty == 0
