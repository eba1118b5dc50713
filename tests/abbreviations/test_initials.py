"""Short forms that no document defines, and the names that they can stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.abbreviations.component import is_initialism

FITTING = [
    ("AMI", "acute myocardial infarction"),
    ("AMI", "Acute Myocardial Infarction"),
    ("AMIs", "acute myocardial infarction"),
    ("PD", "Parkinson's disease"),
    ("PD", "Parkinson Disease"),
    ("PD", "Disease, Parkinson"),
    ("HTN", "hypertension"),
    ("GERD", "gastroesophageal reflux disease"),
    ("GERD", "gastro-esophageal reflux disease"),
    ("COPD", "Chronic Obstructive Pulmonary Disease"),
    ("ROP", "retinopathy of prematurity"),
    ("T2D", "type 2 diabetes"),
    ("CHD", "congenital (heart) disease"),
    ("A-T", "ataxia telangiectasia"),
    ("ALL", "leukemia, acute lymphoblastic"),
]
OTHERS = [
    ("AMI", "acute infarction"),
    ("AMI", "acute anterior myocardial infarction"),
    ("AMI", "myocardial infarction"),
    ("PD", "pulmonary"),
    ("PD", "disease of Parkinson's"),
    ("PD", "Parkinson disease, late onset"),
    ("PD", "PD"),
    ("PD", "PD (disorder)"),
    ("pd", "Parkinson disease"),
    ("cold", "chronic obstructive lung disease"),
    ("Parkinson", "Parkinson disease"),
    ("P", "pain"),
    ("P D", "Parkinson disease"),
    ("ABCDEFGHIJK", "a b c d e f g h i j k"),
    ("", ""),
    ("AMI", ""),
    ("12", "1 2"),
]


@pytest.mark.parametrize("pairs, fits", [(FITTING, True), (OTHERS, False)])
def test_initials_fit_and_other_strings_do_not(pairs, fits):
    assert [pair for pair in pairs if is_initialism(*pair) != fits] == []


words = st.lists(st.text("abcdexyz", min_size=2, max_size=6), min_size=2, max_size=8)


@given(words)
def test_the_initials_of_any_words_fit(words):
    short = "".join(word[0] for word in words)
    assert is_initialism(short.upper(), " ".join(words)) == (short not in words)
