"""The order of concepts with equal scores."""

import numpy as np
import pytest

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.retrieval.retriever import ColumnReader, TieBreaker
from spacy_sapbert.terminology import TerminologyBuilder
from spacy_sapbert.terminology.hierarchy import Hierarchy


def build(*concepts):
    """Build a terminology of (id, canonical name, other names, parents)."""
    builder = TerminologyBuilder()
    for concept_id, canonical_name, names, parents in concepts:
        builder.add_concept(concept_id, canonical_name=canonical_name, parents=parents)
        for name in (canonical_name, *names):
            builder.add_name(concept_id, name)
    return builder.build()


def make_ties(terminology):
    columns = (ColumnReader(terminology.names[key]) for key in ("name", "term_type", "source"))
    canonical_names = ColumnReader(terminology.concepts["canonical_name"])
    return TieBreaker(terminology, Hierarchy(terminology), canonical_names, *columns)


def order(terminology, text, *found):
    """Order concepts that were found by (id, name, score), best first."""
    names = terminology.names.select("concept", "name").rows()
    concepts = [terminology.row(id_) for id_, _, _ in found]
    rows = [names.index((concept, name)) for concept, (_, name, _) in zip(concepts, found, strict=True)]
    ties = make_ties(terminology)
    scores = [score for _, _, score in found]
    places = ties.order(text, concepts, rows, scores, ties.read(np.array(concepts), np.array(rows)))
    return "".join(found[place][0] for place in places)


COLD = ("A", "cold", (), ()), ("B", "cold", (), ()), ("C", "chill", (), ())
ANIRIDIA = ("A", "Aniridia, type 2", ("ANIRIDIA", "aniridia"), ()), ("B", "Aniridia", ("ANIRIDIA",), ())
# An encoder that adds up tokens gives both names the same vector.
RACING = ("A", "Heart racing", (), ()), ("B", "Tachycardia", ("racing heart",), ())
CASES = ("A", "common cold", ("cold",), ()), ("B", "obstructive lung disease", ("COLD",), ())


@pytest.mark.parametrize(
    "concepts, text, found, expected",
    [
        (COLD, "cold", [("B", "cold", 0.95), ("C", "chill", 0.9), ("A", "cold", 0.5)], "BCA"),
        # Equal vectors have scores that differ in the last digits.
        (COLD, "cold", [("B", "cold", 0.9), ("A", "cold", 0.89999995)], "AB"),
        # The concept whose canonical name it is comes first, in a heading too, where the other has the same case.
        *((ANIRIDIA, t, [("A", "ANIRIDIA", 1.0), ("B", "Aniridia", 1.0)], "BA") for t in ("Aniridia", "ANIRIDIA")),
        # The name that was found need not be written like the canonical name.
        (ANIRIDIA, "x", [("A", "aniridia", 1.0), ("B", "ANIRIDIA", 1.0)], "BA"),
        # A name with other words comes later even if it is canonical.
        (RACING, "Racing heart", [("A", "Heart racing", 1.0), ("B", "racing heart", 1.0)], "BA"),
        (RACING, "heart racing", [("A", "Heart racing", 1.0), ("B", "racing heart", 1.0)], "AB"),
        # The same case decides between synonyms.
        *((CASES, t, [("A", "cold", 1.0), ("B", "COLD", 1.0)], e) for t, e in (("COLD", "BA"), ("Cold", "AB"))),
    ],
)
def test_scores_come_first_and_then_the_writing_of_names(concepts, text, found, expected):
    assert order(build(*concepts), text, *found) == expected


def test_the_more_general_concept_comes_first_and_those_without_parents_last():
    terminology = build(
        ("A", "a", ("same",), ()),
        # An ancestor counts once, however many ways lead to it.
        ("B", "b", ("same",), ("E", "C")),
        ("C", "c", ("same",), ("root",)),
        ("D", "d", ("same",), ("B", "root", "unknown")),
        ("E", "e", ("same",), ("C", "unknown")),
        # A circle.
        ("F", "f", ("same",), ("G",)),
        ("G", "g", (), ("F", "D")),
        ("root", "root", (), ()),
    )
    found = [(id_, "same", 1.0) for id_ in "ABCDEF"]
    assert order(terminology, "same", *found) == order(terminology, "same", *found[::-1]) == "CEBDFA"


# By concept: name, whether it is preferred, term type and source.
RANKED = {
    "A": ("same", False, "RELATED", "S2"),
    "B": ("same", False, "EXACT layperson", "S2"),
    "C": ("same", False, "", "S1"),
    "D": ("same", False, "RELATED abbreviation", "S1|S3"),
    "E": ("same", True, "name", "S0"),
    "F": ("Same", False, "EXACT", "S2"),
    "G": ("SAME", False, "EXACT", "S2"),
    "H": ("same", False, "NARROW", "S4"),
}


@pytest.mark.parametrize(
    "text, sources, expected",
    [
        # Preferred ones, then others, then lesser scopes. Only the case of an acronym counts more.
        ("same", None, "ECBFDAHG"),
        ("Same", None, "EFCBDAHG"),
        ("SAME", None, "GEFCBDAH"),
        # Within these, the order of the sources counts; a name that several give has the first of them.
        ("same", ["S2", "S1"], "EBFCADHG"),
        ("same", ["S4", "S3", "S2", "S1"], "EBFCHDAG"),
        # A set has no order.
        ("same", {"S2", "S1"}, "ECBFDAHG"),
    ],
)
def test_scopes_and_the_order_of_sources_decide_before_the_alphabet(text, sources, expected):
    builder = TerminologyBuilder()
    for concept_id, (name, preferred, term_type, source) in RANKED.items():
        # Parents: of equal names, G is the most general one, and H has none.
        builder.add_concept(concept_id, canonical_name="another", parents=[*map(chr, range(ord(concept_id) + 1, 73))])
        builder.add_name(concept_id, name, preferred=preferred, term_type=term_type, source=source)
    terminology = builder.build()
    ties, rows = make_ties(terminology), np.arange(len(RANKED))
    read = ties.read(rows, rows, ConceptFilter(sources=sources))
    found = ties.order(text, rows.tolist(), rows.tolist(), [1.0] * len(rows), read)
    assert "".join("ABCDEFGH"[row] for row in found) == expected


def test_preferred_names_and_smaller_ids_decide_at_last():
    builder = TerminologyBuilder()
    for concept_id, preferred in (("A", False), ("B", True), ("C", True)):
        builder.add_concept(concept_id, canonical_name=f"concept {concept_id}")
        builder.add_name(concept_id, "same", preferred=preferred)
    assert order(builder.build(), "same", *((id_, "same", 1.0) for id_ in "CBA")) == "BCA"
