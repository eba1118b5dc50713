"""Labels and drug strings with what they say, and how answers are judged."""

import pytest
from project_scripts import import_scripts

from spacy_sapbert import TerminologyBuilder

with import_scripts("benchmarks") as folder:
    import tables

FILES = folder.parent / "tables"


@pytest.fixture(scope="module")
def ancestors():
    builder = TerminologyBuilder()
    for id_, name, parents in [("D", "disease", ()), ("K", "kidney disease", ("D",)), ("R", "renal mass", ("K",))]:
        builder.add_concept(id_, canonical_name=name, parents=parents)
        builder.add_name(id_, name)
    return tables.Ancestors(builder.build())


@pytest.mark.parametrize(
    "concepts, context, answer, said, result",
    [
        ("renal mass", "", {"R"}, "", "right"),
        ("renal mass", "", {"K"}, "", "too general"),
        ("renal mass", "", {"D", "K"}, "", "too general"),
        ("renal mass", "", {"R", "X"}, "", "wrong"),
        ("kidney disease", "", {"R"}, "", "wrong"),
        ("renal mass", "", set(), "", "missed"),
        ("renal mass; disease", "", {"R"}, "", "partly"),
        ("renal mass; disease", "", {"R", "D"}, "", "right"),
        ("no such name; renal mass", "", {"R"}, "", "right"),
        ("no such name", "", {"R"}, "", "unreachable"),
        ("-", "", {"R"}, "", "wrong"),
        ("-", "", set(), "", "right, none"),
        ("renal mass", "family", set(), "family", "context"),
        ("renal mass", "family", {"R"}, "family", "context missed"),
        ("renal mass", "family", set(), "negated", "context missed"),
    ],
)
def test_answers_are_judged_by_all_concepts_of_a_label(ancestors, concepts, context, answer, said, result):
    known = {"renal mass": {"R"}, "kidney disease": {"K"}, "disease": {"D"}}
    gold = [known.get(name, set()) for name in concepts.split("; ")]
    row = {"concepts": concepts, "context": context}
    assert tables.judge(row, gold, answer, said, ancestors) == result


@pytest.mark.parametrize("kind", ["labels", "drugs"])
def test_both_halves_have_the_same_kinds_and_no_line_in_common(kind):
    halves = [tables.read(FILES / f"{kind}_{half}.tsv") for half in ("dev", "test")]
    texts = [{next(iter(row.values())).lower() for row in half} for half in halves]
    kinds = [sorted(row["kind"] for row in half) for half in halves]
    assert [len(half) for half in halves] == [200, 200] == [len(of) for of in texts]
    assert texts[0].isdisjoint(texts[1]) and {*kinds[0]} == {*kinds[1]}
