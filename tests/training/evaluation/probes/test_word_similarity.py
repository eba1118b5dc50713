"""Word similarity: the files of all sets, and Spearman's coefficient of known and of all pairs."""

import math

import numpy as np
import pytest
import srsly
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from spacy.vectors import Vectors
from spacy.vocab import Vocab
from typer.testing import CliRunner

from training.cli import app
from training.evaluation.probes.word_similarity import correlate, measure_word_similarity, read_rated_pairs
from training.evaluation.systems.concept_vectors import ConceptVectors
from training.evaluation.systems.word_vectors import WordVectorSystem

MAYO = """Mean,CUI1,CUI2,TERM1,TERM2
9.5,C1,C2,heart,myocardium
4.25,C1,C3,heart,"pain, chest"
1,C2,C3,Myocardium,pain
"""
MINI_MAYO = "Physicians,Coders,CUI1,CUI2,TERM1,TERM2\n4,3.5,C1,C2,heart,myocardium\n1,2,C1,C3,heart,pain\n"
UMNSRS = "Mean,Stdev,Term1,Term2,CUI1,CUI2\r\n1200.5,10,heart,myocardium,C1,C2\r\n800,20,myocardium,heart,C2,C1\r\n"


def read(tmp_path, text, name="set.csv"):
    (tmp_path / name).write_text(text)
    return read_rated_pairs(tmp_path / name)


def make_words(table):
    vocab = Vocab()
    data = np.array(list(table.values()), dtype=np.float32)
    vocab.vectors = Vectors(strings=vocab.strings, data=data, keys=list(table))
    return WordVectorSystem(vocab)


def at_angle(degrees):
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def test_the_files_of_all_sets_are_read(tmp_path):
    mayo = read(tmp_path, MAYO, "MayoSRS.csv")
    assert mayo.name == "MayoSRS" and mayo.ratings == {"mean": [9.5, 4.25, 1]}
    assert mayo.terms == [("heart", "myocardium"), ("heart", "pain, chest"), ("Myocardium", "pain")]
    assert mayo.concepts == [("C1", "C2"), ("C1", "C3"), ("C2", "C3")]
    assert read(tmp_path, MINI_MAYO).ratings == {"physicians": [4, 1], "coders": [3.5, 2]}
    umnsrs = read(tmp_path, UMNSRS)
    assert umnsrs.ratings == {"mean": [1200.5, 800]} and umnsrs.concepts == [("C1", "C2"), ("C2", "C1")]
    assert read(tmp_path, "TERM2,mean,TERM1\nb,1,a\n").terms == [("a", "b")]


@pytest.mark.parametrize(
    "text, message",
    [
        ("Mean,TERM1\n1,a\n", "E775.*line 1: the header has no TERM2"),
        ("TERM1,TERM2\na,b\n", "E775.*line 1: the header has no rating"),
        ("Mean,TERM1,TERM2,TERM1\n1,a,b,c\n", "E775.*TERM1 twice"),
        ("Mean,TERM1,TERM2\n1,a\n", "E775.*line 2: 2 fields for 3 columns"),
        ("Mean,TERM1,TERM2\n1,a,b\n1,a,\n", "E775.*line 3: TERM2: it is empty"),
        ("Mean,TERM1,TERM2\nhigh,a,b\n", "E775.*line 2: the rating 'high' is not a finite"),
        ("Mean,TERM1,TERM2\nnan,a,b\n", "E775.*'nan'"),
        ("Mean,TERM1,TERM2\n,a,b\n", "E775.*line 2: the rating ''"),
        ('Mean,TERM1,TERM2\n1,a,"b\n', "E775.*line 2"),
        ("Mean,TERM1,TERM2\n", "E775.*there is no pair"),
        ("", "E775.*there is no pair"),
    ],
)
def test_malformed_files_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_text_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "set.csv").write_bytes(b"Mean,TERM1,TERM2\n1,a\xe9,b\n")
    with pytest.raises(ValueError, match="E775.*line 2: TERM1: the byte 0xe9"):
        read_rated_pairs(tmp_path / "set.csv")


def test_unknown_pairs_are_left_out_or_count_0(tmp_path):
    text = "Mean,TERM1,TERM2\n4,a,b\n3,a,c\n2,a,d\n1,a,xyz\n"
    words = make_words({"a": at_angle(0), "b": at_angle(10), "c": at_angle(20), "d": at_angle(120)})
    result = measure_word_similarity(words, read(tmp_path, text))
    assert result["ratings"]["mean"]["spearman"] == pytest.approx(1)
    # The cosine with d is below 0, the similarity of the pair that is not known.
    assert result["ratings"]["mean"]["spearman_of_all"] == pytest.approx(0.8)
    assert (result["pairs"], result["known"], result["coverage"], result["repeated"]) == (4, 3, 0.75, 0)


def test_tables_are_asked_for_cuis(tmp_path):
    vectors = np.array([at_angle(0), at_angle(30), at_angle(100)], dtype=np.float32)
    table = ConceptVectors(["C1", "C2", "C3"], vectors, fingerprint="x")
    result = measure_word_similarity(table, read(tmp_path, MAYO))
    assert result["known"] == 3 and result["ratings"]["mean"]["spearman"] == pytest.approx(0.5)
    assert measure_word_similarity(table, read(tmp_path, UMNSRS))["repeated"] == 1
    with pytest.raises(ValueError, match="E774.*have no CUIs|E774.*no CUIs"):
        measure_word_similarity(table, read(tmp_path, "Mean,TERM1,TERM2\n1,a,b\n"))


def test_nothing_known_is_refused_and_what_is_not_defined_is_none(tmp_path):
    with pytest.raises(ValueError, match="E774.*heart, myocardium"):
        measure_word_similarity(make_words({"a": [1, 0]}), read(tmp_path, MAYO))
    result = measure_word_similarity(make_words({"heart": [1, 0], "myocardium": [0, 1]}), read(tmp_path, UMNSRS))
    assert result["ratings"]["mean"] == {"spearman": None, "spearman_of_all": None}


NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9)


@settings(deadline=None)
@given(NUMBERS)
def test_the_coefficient_is_that_of_ranks(pairs):
    left, right = np.array(pairs, dtype=float).T
    found = correlate(left, right)
    ranks = [[np.mean(np.flatnonzero(np.sort(side) == value)) for value in side] for side in (left, right)]
    if found is None:
        assert min(len(set(left)), len(set(right))) == 1
    else:
        assert found == pytest.approx(np.corrcoef(*ranks)[0, 1]) == pytest.approx(spearmanr(left, right)[0])


def test_the_command_measures_all_sets(tmp_path, encoder_folder):
    for name, text in (("MayoSRS.csv", MAYO), ("MiniMayoSRS.csv", MINI_MAYO)):
        (tmp_path / name).write_text(text)
    words = "\n".join(["heart 1 0", "myocardium 1 1", "pain 0 1"])
    (tmp_path / "words.txt").write_text(words)
    files = ",".join(str(tmp_path / name) for name in ("MayoSRS.csv", "MiniMayoSRS.csv"))
    arguments = ["word-similarity", str(encoder_folder), files, str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, "--word-vectors", str(tmp_path / "words.txt")])
    assert not result.exit_code, result.exception
    kept = srsly.read_json(tmp_path / "out" / "word_similarity.json")
    assert [entry["figures"]["set"] for entry in kept["results"]] == ["MayoSRS", "MiniMayoSRS"] * 2
    assert {"mean", "physicians", "coders"} == {
        rating for entry in kept["results"] for rating in entry["figures"]["ratings"]
    }
    assert result.output.count("MiniMayoSRS\t") == 4
