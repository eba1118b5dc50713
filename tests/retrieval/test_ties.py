"""The order of concepts with equal scores."""

from spacy_sapbert.retrieval.retriever import TieBreaker
from spacy_sapbert.terminology import TerminologyBuilder


def build(*concepts):
    """Build a terminology of (id, canonical name, other names, parents)."""
    builder = TerminologyBuilder()
    for concept_id, canonical_name, names, parents in concepts:
        builder.add_concept(concept_id, canonical_name=canonical_name, parents=parents)
        for name in (canonical_name, *names):
            builder.add_name(concept_id, name)
    return builder.build()


def order(terminology, text, *found):
    """Order concepts that were found by (id, name, score), best first."""
    names = terminology.names.select("concept", "name").rows()
    concepts = [terminology.row(id_) for id_, _, _ in found]
    rows = [names.index((concept, name)) for concept, (_, name, _) in zip(concepts, found, strict=True)]
    preferred = terminology.names["preferred"].to_numpy()
    ties = TieBreaker(terminology, terminology.names["name"].__getitem__, preferred)
    places = ties.order(text, concepts, rows, [score for _, _, score in found])
    return [found[place][0] for place in places]


def test_scores_come_first():
    terminology = build(("A", "cold", (), ()), ("B", "cold", (), ()), ("C", "chill", (), ()))
    found = [("B", "cold", 0.95), ("C", "chill", 0.9), ("A", "cold", 0.5)]
    assert order(terminology, "cold", *found) == ["B", "C", "A"]
    # Equal vectors have scores that differ in the last digits.
    assert order(terminology, "cold", ("B", "cold", 0.9), ("A", "cold", 0.89999995)) == ["A", "B"]


def test_the_concept_whose_canonical_name_it_is_comes_first():
    terminology = build(("A", "Aniridia, type 2", ("ANIRIDIA",), ()), ("B", "Aniridia", (), ()))
    found = [("A", "ANIRIDIA", 1.0), ("B", "Aniridia", 1.0)]
    # In a heading too, where the other one is written in the same case.
    assert [order(terminology, text, *found) for text in ("aniridia", "Aniridia", "ANIRIDIA")] == [["B", "A"]] * 3
    # The name that was found need not be written like the canonical name.
    terminology = build(("A", "Aniridia, type 2", ("aniridia",), ()), ("B", "Aniridia", ("ANIRIDIA",), ()))
    assert order(terminology, "x", ("A", "aniridia", 1.0), ("B", "ANIRIDIA", 1.0)) == ["B", "A"]


def test_a_name_with_other_words_comes_later_even_if_it_is_canonical():
    # An encoder that adds up tokens gives both names the same vector.
    terminology = build(("A", "Heart racing", (), ()), ("B", "Tachycardia", ("racing heart",), ()))
    found = [("A", "Heart racing", 1.0), ("B", "racing heart", 1.0)]
    assert order(terminology, "Racing heart", *found) == ["B", "A"]
    assert order(terminology, "heart racing", *found) == ["A", "B"]


def test_the_same_case_decides_between_synonyms():
    terminology = build(("A", "common cold", ("cold",), ()), ("B", "obstructive lung disease", ("COLD",), ()))
    found = [("A", "cold", 1.0), ("B", "COLD", 1.0)]
    assert [order(terminology, text, *found)[0] for text in ("cold", "COLD", "Cold")] == ["A", "B", "A"]


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
    assert order(terminology, "same", *found) == order(terminology, "same", *found[::-1]) == list("CEBDFA")


def test_preferred_names_and_smaller_ids_decide_at_last():
    builder = TerminologyBuilder()
    for concept_id, preferred in (("A", False), ("B", True), ("C", True)):
        builder.add_concept(concept_id, canonical_name=f"concept {concept_id}")
        builder.add_name(concept_id, "same", preferred=preferred)
    found = [(id_, "same", 1.0) for id_ in "CBA"]
    assert order(builder.build(), "same", *found) == ["B", "C", "A"]
