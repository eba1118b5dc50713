"""Which concepts a terminology does not tell apart, and opposites."""

import itertools

import pytest
from pair_rows import build

from training.data.relatedness import Relatedness, find_opposites, find_slots


def find(names, **facts):
    return find_opposites(build(names, **facts))


@pytest.mark.parametrize(
    "left, right, kind",
    [
        ("Breast cancer, male", "breast cancer, female", "male/female"),
        ("Raised white cell count", "reduced white cell count", "increased/decreased"),
        ("acute leukaemia", "Chronic leukemias", "acute/chronic"),
        ("seizure with fever", "seizure without fever", "with/without"),
        ("Hypothyroidism", "hyperthyroidism", "hypo/hyper"),
        ("type I diabetes", "type 2 diabetes", "type 1/type 2"),
        ("ataxia type 2A", "ataxia type 2B", "numbered"),
        ("spinocerebellar ataxia 12", "spinocerebellar ataxia 13", "numbered"),
        ("hepatitis, group a", "hepatitis, group b", "numbered"),
    ],
)
def test_a_word_or_its_beginning_tells_a_name_from_that_of_the_opposite(left, right, kind):
    of_left, of_right = ({(slot[0], slot[1]) for slot in find_slots(name)} for name in (left, right))
    assert kind in {kind for kind, _ in of_left & of_right}
    synonyms = {"A": [left, "first synonym"], "B": [right, "second synonym"]}
    assert find(synonyms) == [("A", "B"), ("B", "A")]


@pytest.mark.parametrize(
    "left, right",
    [
        ("male", "female"),
        ("ataxia type 2", "ataxia type 2a"),
        ("2-methyl benzene", "3-methyl benzene"),
        ("factor x of blood", "factor y of blood"),
        ("hypoxy", "hyperxy"),
        ("left eye", "right ear"),
    ],
)
def test_other_names_are_no_opposites(left, right):
    assert find({"A": [left, "first synonym"], "B": [right, "second synonym"]}) == []


def test_concepts_that_may_be_the_same_or_overlap_are_no_opposites():
    names = {"A": ["acute pain", "sudden pain"], "B": ["chronic pain", "lasting pain"]}
    assert len(find(names)) == 2
    assert find({**names, "B": [*names["B"], "sudden pain"]}) == []
    assert find(names, A={"codes": ["X:1"]}, B={"codes": ["X:1"]}) == []
    assert find(names, B={"parents": ["A"]}) == []


def test_a_concept_without_a_name_in_other_words_has_no_opposite():
    names = {"A": ["acute pain", "Pain, acute", "acute pains", "sudden pain", "shared pain"], "B": ["chronic pain"]}
    assert find({**names, "C": ["shared pain"]}) == [("A", "B")]


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


def test_near_ancestors_and_names_in_common_relate_concepts():
    related = Relatedness(build(NAMES, **{id_: {"parents": parents} for id_, parents in PARENTS.items()}))
    line = "ABCDE"
    for left, right in itertools.combinations(NAMES, 2):
        is_line = left in line and right in line and line.index(right) - line.index(left) <= 3
        expected = is_line or (left, right) in {("A", "F"), ("F", "G")}
        assert related.is_related(left, right) == related.is_related(right, left) == expected, (left, right)
    assert not related.is_related("A", "not there") and not related.is_related("not there", "nor there")
