"""FHIR: measurements are Observations, which R4B and R5 accept; what is denied, or a relative's, is none."""

import json

import pytest
import spacy
from annotated_texts import run, save
from conftest import build_terminology
from fhir.resources.observation import Observation
from fhir.resources.R4B.observation import Observation as ObservationR4B
from spacy.tokens import DocBin

from spacy_sapbert.exchange.documents import ExchangeReport, annotate
from spacy_sapbert.exchange.fhir import CodeableConcepts, CodeFinder
from spacy_sapbert.measurements.attributes import SPANS_KEY
from spacy_sapbert.measurements.component import MeasurementReader

ELEMENTS = ("code", "valueQuantity", "valueRange", "component", "interpretation", "referenceRange", "note")


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    terminology = build_terminology({"HP:0002902": ["Hyponatremia"], "HP:0001903": ["Anemia"]})
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    assert isinstance(nlp.add_pipe("measurement_reader"), MeasurementReader)
    nlp.add_pipe("note_context")
    return nlp


def make_rows(nlp, text):
    report = ExchangeReport()
    doc = nlp(text)
    # A file gives tuples back for lists.
    saved = DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab)
    rows, again = (
        list(CodeableConcepts(CodeFinder(), report).list_rows(annotate(docs, report, [SPANS_KEY])))
        for docs in ([doc], saved)
    )
    names = [{key: value for key, value in row.items() if key != "document"} for row in rows]
    assert names == [{key: value for key, value in row.items() if key != "document"} for row in again]
    for row in rows:
        if row["resource"] == "Observation":
            elements = {key: row[key] for key in ELEMENTS if key in row}
            for model in (Observation, ObservationR4B):
                model(status="final", **elements)
    assert not report.left_out and not report.odd
    return rows


def test_a_low_value_with_its_range(nlp):
    [row] = make_rows(nlp, "Na 118 mmol/L (135-145)")
    assert row["resource"] == "Observation" and row["code"]["coding"] == [
        {"system": "http://loinc.org", "code": "2951-2"}
    ]
    unit = {"unit": "mmol/L", "system": "http://unitsofmeasure.org", "code": "mmol/L"}
    assert row["valueQuantity"] == {"value": 118, **unit}
    assert row["referenceRange"] == [{"low": {"value": 135, **unit}, "high": {"value": 145, **unit}}]
    assert row["interpretation"][0]["coding"][0]["code"] == "L"
    assert row["codeableConcept"]["coding"][0]["code"] == "HP:0002902"


@pytest.mark.parametrize(
    "text, key, value, code",
    [
        ("K 4.1", "valueQuantity", 4.1, "N"),
        ("eGFR > 90", "valueQuantity", 90, "N"),
        ("HR 110-120", "valueRange", 120, "H"),
        ("Hb 12.5", "valueQuantity", 12.5, None),
        ("OFC < 3rd centile", "valueQuantity", 3, "L"),
        ("height -2.8 SDS", "valueQuantity", -2.8, "L"),
        ("HbA1c 75 mmol/mol", "valueQuantity", 75, "H"),
        ("creat 25", "valueQuantity", 25, None),
    ],
)
def test_other_values(nlp, text, key, value, code):
    [row] = make_rows(nlp, text)
    quantity = row[key] if key == "valueQuantity" else row[key]["high"]
    assert quantity["value"] == value
    assert [one["coding"][0]["code"] for one in row.get("interpretation", [])] == ([code] if code else [])
    assert ("note" in row) == (code is None)


def test_centiles_have_no_code_of_the_height_itself(nlp):
    [row] = make_rows(nlp, "height on the 50th centile")
    assert row["code"] == {"text": "body height (centile)"}


def test_blood_pressure_has_two_components(nlp):
    [row] = make_rows(nlp, "BP 150-160/95")
    first, second = row["component"]
    assert row["code"]["coding"][0]["code"] == "85354-9"
    assert first["code"]["coding"][0]["code"] == "8480-6" and first["valueRange"]["high"]["value"] == 160
    assert second["code"]["coding"][0]["code"] == "8462-4"
    [row] = make_rows(nlp, "BP 120/70")
    assert [one["valueQuantity"]["value"] for one in row["component"]] == [120, 70]


def test_a_flag_alone_has_no_value(nlp):
    [row] = make_rows(nlp, "troponin elevated")
    assert "valueQuantity" not in row and row["interpretation"][0]["coding"][0]["code"] == "H"


def test_what_is_denied_or_of_a_relative_was_not_observed(nlp):
    rows = make_rows(nlp, "No low sodium. Her mother had Hb 6.2.")
    by_entity = {(row["codeableConcept"]["text"], row["resource"]) for row in rows if row["context"]}
    assert by_entity == {("low sodium", "Condition"), ("Hb 6.2", "FamilyMemberHistory")}


def test_the_command_writes_normal_values_too(nlp, tmp_path):
    save(tmp_path / "docs.spacy", nlp("Na 118, K 4.1"))
    run("to-fhir", tmp_path / "docs.spacy", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf8").splitlines()]
    assert [row["interpretation"][0]["coding"][0]["code"] for row in rows] == ["L", "N"]
