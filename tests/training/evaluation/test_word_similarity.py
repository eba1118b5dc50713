"""Word similarity: the files of all sets, and Spearman's coefficient of known and of all pairs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from training.evaluation.settings import Limits
from training.evaluation.systems.vectors import ConceptVectors, VectorTable, WordVectorSystem
from training.evaluation.word_similarity import WordSimilaritySettings, WordSimilarityTask, correlate, read_rated_pairs

MAYO = """Mean,CUI1,CUI2,TERM1,TERM2
9.5,C1,C2,heart,myocardium
4.25,C1,C3,heart,"pain, chest"
1,C2,C3,Myocardium,pain
"""
MINI_MAYO = "Physicians,Coders,CUI1,CUI2,TERM1,TERM2\n4,3.5,C1,C2,heart,myocardium\n1,2,C1,C3,heart,pain\n"
UMNSRS = "Mean,Stdev,Term1,Term2,CUI1,CUI2\r\n1200.5,10,heart,myocardium,C1,C2\r\n800,20,myocardium,heart,C2,C1\r\n"


def read(tmp_path, text, name="set.csv"):
    (tmp_path / name).write_text(text, errors="surrogateescape")
    return read_rated_pairs(tmp_path / name)


def measure(vectors, pairs):
    """Measure, and return values by metric, and the other facts."""
    measured = WordSimilarityTask("similarity", "set", pairs, "").measure(vectors)
    return {figure.metric: figure.value for figure in measured.figures} | measured.details


def make_words(table):
    return WordVectorSystem.of(VectorTable(list(table), np.array(list(table.values()), dtype=np.float32)))


def at_angle(degrees):
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def test_the_files_of_all_sets_are_read(tmp_path):
    mayo = read(tmp_path, MAYO)
    assert mayo["mean"].to_list() == [9.5, 4.25, 1]
    assert mayo.select("term1", "term2").row(1) == ("heart", "pain, chest")
    assert mayo.select("cui1", "cui2").rows() == [("C1", "C2"), ("C1", "C3"), ("C2", "C3")]
    mini = read(tmp_path, MINI_MAYO)
    assert mini["physicians"].to_list() == [4, 1] and mini["coders"].to_list() == [3.5, 2]
    umnsrs = read(tmp_path, UMNSRS)
    assert umnsrs["mean"].to_list() == [1200.5, 800] and umnsrs["cui2"].to_list() == ["C2", "C1"]
    assert read(tmp_path, "TERM2,mean,TERM1\nb,1,a\n").select("term1", "term2").rows() == [("a", "b")]


@pytest.mark.parametrize(
    "text, message",
    [
        ("Mean,TERM1\n1,a\n", "term2"),
        ("TERM1,TERM2\na,b\n", "the header has no rating"),
        ("Mean,TERM1,TERM2\n1,a\n", "pair 1 has an empty term"),
        ("Mean,TERM1,TERM2\n1,a,b,c\n", "more fields"),
        ("Mean,TERM1,TERM2\n1,a,b\n1,a,\n", "pair 2 has an empty term"),
        ("Mean,TERM1,TERM2\nhigh,a,b\n", "high"),
        ("Mean,TERM1,TERM2\nnan,a,b\n", "not a finite number.*nan"),
        ("Mean,TERM1,TERM2\n,a,b\n", "pair 1"),
        ("Mean,TERM1,TERM2\n1,a,\udce9\n", "utf-?8"),
        ("Mean,TERM1,TERM2\n", "there is no pair"),
        ("", "empty"),
    ],
)
def test_malformed_files_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_unknown_pairs_are_left_out_or_count_0(tmp_path):
    text = "Mean,TERM1,TERM2\n4,a,b\n3,a,c\n2,a,d\n1,a,xyz\n"
    words = make_words({"a": at_angle(0), "b": at_angle(10), "c": at_angle(20), "d": at_angle(120)})
    result = measure(words, read(tmp_path, text))
    assert result["spearman.mean"] == pytest.approx(1)
    # The cosine with d is below 0, the similarity of the pair that is not known.
    assert result["spearman_of_all.mean"] == pytest.approx(0.8)
    assert (result["known"], result["coverage"]) == (3, 0.75)


def test_tables_are_asked_for_cuis(tmp_path):
    vectors = np.array([at_angle(0), at_angle(30), at_angle(100)], dtype=np.float32)
    table = ConceptVectors.of(VectorTable(["C1", "C2", "C3"], vectors))
    result = measure(table, read(tmp_path, MAYO))
    assert result["known"] == 3 and result["spearman.mean"] == pytest.approx(0.5)
    assert WordSimilarityTask("x", "set", read(tmp_path, UMNSRS), "").describe()["counts"] == {
        "pairs": 2,
        "repeated": 1,
    }
    with pytest.raises(ValueError, match="have no CUIs"):
        measure(table, read(tmp_path, "Mean,TERM1,TERM2\n1,a,b\n"))


def test_nothing_known_is_refused_and_what_is_not_defined_is_nan(tmp_path):
    with pytest.raises(ValueError, match="none of the 3 pairs.*heart and myocardium"):
        measure(make_words({"a": [1, 0]}), read(tmp_path, MAYO))
    result = measure(make_words({"heart": [1, 0], "myocardium": [0, 1]}), read(tmp_path, UMNSRS))
    assert math.isnan(result["spearman.mean"]) and math.isnan(result["spearman_of_all.mean"])


NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9)


@given(NUMBERS)
def test_the_coefficient_is_that_of_ranks(pairs):
    left, right = np.array(pairs, dtype=float).T
    found = correlate(left, right)
    ranks = [[np.mean(np.flatnonzero(np.sort(side) == value)) for value in side] for side in (left, right)]
    if math.isnan(found):
        assert min(len(set(left)), len(set(right))) == 1
    else:
        assert found == pytest.approx(np.corrcoef(*ranks)[0, 1]) == pytest.approx(spearmanr(left, right)[0])


def test_each_file_is_a_task(tmp_path):
    files = [tmp_path / name for name in ("MayoSRS.csv", "MiniMayoSRS.csv")]
    for file, text in zip(files, (MAYO, MINI_MAYO), strict=True):
        file.write_text(text)
    mayo, mini = WordSimilaritySettings(files=",".join(map(str, files))).make("similarity", Limits())
    assert (mayo.name, mini.name) == ("similarity.MayoSRS", "similarity.MiniMayoSRS") and mayo.hash() != mini.hash()
    measured = mini.measure(make_words({"heart": [1, 0], "myocardium": [0, 1], "pain": [1, 1]}))
    metrics = [figure.metric for figure in measured.figures]
    assert metrics == ["spearman.physicians", "spearman_of_all.physicians", "spearman.coders", "spearman_of_all.coders"]
