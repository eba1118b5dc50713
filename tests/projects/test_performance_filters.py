"""The measurement of filters in the performance project, on a tiny linker."""

import numpy as np
import polars as pl
import pytest
from project_scripts import import_scripts

from spacy_sapbert.terminology import Terminology, TerminologyBuilder


@pytest.fixture
def measure_filters():
    with import_scripts("performance"):
        import measure_filters

        yield measure_filters


def make_terminology():
    builder = TerminologyBuilder()
    for number in range(1, 7):
        builder.add_concept(f"C{number}", canonical_name=f"name {number}", types=["T184" if number == 1 else "T047"])
        builder.add_name(f"C{number}", f"name {number}", source="HPO" if number < 3 else "HPO|MSH", language="ENG")
    return builder.build()


def test_filters_are_made_for_what_a_terminology_has(measure_filters):
    terminology = make_terminology()
    filters = measure_filters.make_filters(terminology, 0)
    # All names have the same language, and so no filter by it.
    assert list(filters) == [
        "types: T047",
        "sources: HPO",
        "ids: 50.0% of concepts",
        "ids: 5.0% of concepts",
        "ids: 0.5% of concepts",
    ]
    assert filters["types: T047"] == {"types": ["T047"]}
    assert len(filters["ids: 50.0% of concepts"]["ids"]) == 3
    assert filters == measure_filters.make_filters(terminology, 0)


def test_filters_are_for_concepts_with_names(measure_filters):
    whole = make_terminology()
    some = Terminology(whole.concepts, whole.names.filter(pl.col("name").is_in(["name 1", "name 2"])))
    filters = measure_filters.make_filters(some, 0)
    ids = [arguments["ids"] for name, arguments in filters.items() if name.startswith("ids")]
    assert len(ids) == 3
    assert all(chosen and set(chosen) <= {"C1", "C2"} for chosen in ids)


def test_a_filter_is_measured(measure_filters, make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    texts = ["hypertensive", "insomnias", "cold", "heart attacks"]
    vectors = linker.encoder.encode(texts)
    measured = measure_filters.measure_filter(linker, texts, vectors, {"types": ["T184"]})
    assert measured["rows"] == 3
    assert measured["share"] == pytest.approx(3 / len(linker.index))
    assert measured["recall_at_1"] == 1.0
    assert measured["times_unfiltered"] > 0
    assert all(len(seconds) == measure_filters.TURNS for seconds in measured["seconds"].values())


def test_best_scores_are_those_of_a_loop_over_allowed_names(measure_filters, make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    vectors = linker.encoder.encode(["hypertensive", "insomnias"])
    allowed = measure_filters.ConceptFilter(types=["T184", "T070"])
    names = [
        name
        for concept_id in linker.terminology.concepts["id"]
        for name in linker.terminology[concept_id].names
        if set(linker.terminology[concept_id].types) & {"T184", "T070"}
    ]
    scores = [max(float(vector @ other) for other in linker.encoder.encode(names)) for vector in vectors]
    assert np.allclose(measure_filters.find_best_scores(linker.retriever, vectors, allowed), scores, atol=1e-5)
