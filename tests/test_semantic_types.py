"""Semantic types by identifier and by name."""

from spacy_sapbert.semantic_types import IDS, NAMES, find_kind, find_types, name_type


def test_types_are_found_in_the_form_that_the_terminology_has(make_nlp):
    # As many as the Semantic Network has.
    assert len(NAMES) == len(IDS) == 127
    assert name_type("T047") == "Disease or Syndrome" and name_type("phenotype") == "phenotype"
    assert find_types(["Disease or Syndrome", "T184"], {"T047", "T184"}) == {"T047", "T184"}
    assert find_types(["T047", "other"], {"Disease or Syndrome"}) == {"Disease or Syndrome", "other"}
    # A terminology may use such a name in its own sense.
    assert find_types(["Food"], {"Food", "T168"}) == {"Food"}
    assert find_kind(["finding"]) == find_kind(["disorder"]) == find_kind(["T047"]) != find_kind(["procedure"])
    nlp = make_nlp(label_types={"DISORDER": ["Sign or Symptom"]})
    linker = nlp.get_pipe("sapbert_linker")
    assert linker.find(["cold"], types=["Disease or Syndrome"]) == linker.find(["cold"], types=["T047"]) != [[]]
    assert [ent.kb_id_ for ent in nlp("insomnia").ents] == ["C0917801"]
