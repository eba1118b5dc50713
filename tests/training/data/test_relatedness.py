"""Which concepts a terminology does not tell apart."""

import itertools

import pytest

from spacy_sapbert.terminology import TerminologyBuilder
from training.data.relatedness import Relatedness

NAMES = {
    "A": ["kidney disease"],
    "B": ["chronic kidney disease"],
    "C": ["diabetic nephropathy"],
    "D": ["type 1 diabetic nephropathy"],
    "E": ["early type 1 diabetic nephropathy"],
    "F": ["tumors of the kidney", "renal tumour"],
    "G": ["kidney, tumours of the"],
    "H": ["heart disease"],
}
PARENTS = {"B": ["A"], "C": ["B"], "D": ["C"], "E": ["D"], "F": ["A"]}


@pytest.fixture
def terminology():
    builder = TerminologyBuilder()
    for id_, names in NAMES.items():
        builder.add_concept(id_, parents=PARENTS.get(id_, []))
        for name in names:
            builder.add_name(id_, name)
    return builder.build()


@pytest.mark.parametrize("steps", [1, 3, 9])
def test_ancestors_and_names_in_common_relate_concepts(terminology, steps):
    related = Relatedness(terminology, steps=steps)
    lines = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4}
    for left, right in itertools.combinations(NAMES, 2):
        is_line = left in lines and right in lines and lines[right] - lines[left] <= steps
        expected = is_line or (left, right) in {("A", "F"), ("F", "G")}
        assert related.is_related(left, right) == related.is_related(right, left) == expected, (left, right)


def test_siblings_and_unknown_concepts_are_told_apart(terminology):
    related = Relatedness(terminology)
    assert not related.is_related("B", "F")
    assert not related.is_related("A", "not there")
    assert not related.is_related("not there", "nor there")
