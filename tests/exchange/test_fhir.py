"""FHIR: CodeableConcepts that R4B and R5 accept, and what is missing in them by name and number."""

import json

import pytest
import spacy
from annotated_texts import annotated_texts, count_kinds, run, save, tokenize
from fhir.resources.codeableconcept import CodeableConcept
from fhir.resources.R4B.codeableconcept import CodeableConcept as CodeableConceptR4B
from fhir.resources.R4B.condition import Condition
from hypothesis import given
from spacy.tokens import Span

from spacy_sapbert.annotations import Match, register_extensions, write_match
from spacy_sapbert.exchange.documents import ExchangeReport, annotate, make_doc
from spacy_sapbert.exchange.fhir import CodeableConcepts, CodeFinder, export_concepts
from spacy_sapbert.terminology import TerminologyBuilder

nlp = spacy.blank("en")
UMLS = "http://www.nlm.nih.gov/research/umls"


@pytest.fixture(scope="module")
def terminology():
    builder = TerminologyBuilder()
    codes = ["MSH:D003139", "SNOMEDCT_US:82272006", "ICD10CM:J00", "SNOMEDCT_US:1", "FOO:1", "OMIM:100"]
    builder.add_concept("C0009443", canonical_name="Common Cold", codes=codes)
    builder.add_name("C0009443", "Cold", source="SNOMEDCT_US|MSH")
    builder.add_name("C0009443", "Cold, Common", source="MSH", preferred=True)
    builder.add_concept("HP:0001649", canonical_name="Tachycardia", codes=["HP:0001673", "UMLS:C0039231"])
    builder.add_name("HP:0001649", "Tachycardia", source="hp")
    return builder.build()


def make(kb_id, finder, **options):
    doc = nlp("a head cold")
    doc.ents = [Span(doc, 1, 3, "DISEASE", kb_id=kb_id)]
    report = ExchangeReport()
    [row] = CodeableConcepts(finder, report, **options).list_rows(annotate([doc], report))
    for model in (CodeableConcept, CodeableConceptR4B):
        model.model_validate(row["codeableConcept"])
    assert (row["start"], row["end"], row["codeableConcept"]["text"]) == (2, 11, "head cold")
    return row["codeableConcept"].get("coding", []), count_kinds(report)


def test_all_codes_of_a_concept(terminology):
    codings, counts = make("C0009443", CodeFinder(terminology), versions={"MESH": "2025"})
    assert codings == [
        {"system": UMLS, "code": "C0009443", "display": "Common Cold"},
        {"system": "https://www.nlm.nih.gov/mesh", "code": "D003139", "version": "2025", "display": "Cold, Common"},
        # SNOMED CT has two codes here, and nobody knows which of them is called "Cold".
        {"system": "http://snomed.info/sct", "code": "82272006"},
        {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": "J00"},
        {"system": "http://snomed.info/sct", "code": "1"},
        {"system": "https://www.omim.org", "code": "100"},
    ]
    assert counts == {"codes of FOO, whose URI is not known": 1}


def test_pieces_of_a_mention_are_beside_its_concept(terminology):
    doc = nlp("a head and chest cold")
    doc.ents = [Span(doc, 1, 5, "DISEASE", kb_id="C0009443")]
    match = Match(label="DISEASE", how="", pieces=[[0, 4], [15, 19]], terminology="", names=[], score=0.0)
    write_match(doc.ents[0], match)
    report = ExchangeReport()
    [row] = CodeableConcepts(CodeFinder(terminology), report).list_rows(annotate([doc], report))
    assert json.loads(json.dumps(row["pieces"])) == [[2, 6], [17, 21]]
    assert row["codeableConcept"]["text"] == "head and chest cold"


def test_sites_of_a_mention_are_beside_its_concept(terminology):
    doc = nlp("rash on her left arm and chest")
    doc.ents = [Span(doc, 0, 1, "DISEASE", kb_id="C0009443")]
    match = Match(label="DISEASE", how="exact", pieces=[], terminology="", names=[], score=1.0, trust=1.0)
    write_match(doc.ents[0], {**match, "sites": [[12, 20], [25, 30]]})
    register_extensions()
    assert doc.ents[0]._.body_site == [("left arm", 12, 20), ("chest", 25, 30)]
    report = ExchangeReport()
    [row] = CodeableConcepts(CodeFinder(terminology), report).list_rows(annotate([doc], report))
    assert row["bodySite"] == [{"text": "left arm"}, {"text": "chest"}]
    # A part of the document has the sites that are in it.
    assert [ent._.body_site for ent in doc[:6].as_doc(copy_user_data=True).ents] == [[("left arm", 12, 20)]]


@pytest.mark.parametrize(
    "text, side, severity",
    [
        ("severe left wheezing", "left", "severe"),
        ("mild to moderate chronic wheezing", "", "mild to moderate"),
        ("bilateral wheezing , left the clinic", "bilateral", ""),
        ("she left with wheezing", "", ""),
        ("left foot , severe wheezing", "", "severe"),
        ("severe cough and wheezing", "", ""),
        ("wheezing", "", ""),
    ],
)
def test_side_and_severity_right_before_a_mention_are_beside_its_concept(terminology, text, side, severity):
    doc = nlp(text)
    start = next(token.i for token in doc if token.text == "wheezing")
    doc.ents = [Span(doc, start, start + 1, "DISEASE", kb_id="C0009443")]
    report = ExchangeReport()
    [row] = CodeableConcepts(CodeFinder(terminology), report).list_rows(annotate([doc], report))
    assert [site["text"] for site in row.get("bodySite", [])] == [side] * bool(side)
    assert row.get("severity", {}).get("text", "") == severity
    said = {key: row[key] for key in ("bodySite", "severity") if key in row}
    Condition(**said, subject={"reference": "Patient/1"}, code=row["codeableConcept"])


def test_wanted_sources_in_their_order_and_what_is_missing(terminology):
    systems, sources = {"FOO": "urn:x"}, ["icd10cm", "LNC", "foo"]
    codings, counts = make("C0009443", CodeFinder(terminology), sources=sources, systems=systems)
    found = [(coding["system"], coding["code"]) for coding in codings]
    assert found == [("http://hl7.org/fhir/sid/icd-10-cm", "J00"), ("urn:x", "1")]
    assert counts == {"concepts without a code in LNC": 1}


def test_ids_and_what_is_none(terminology):
    assert make("HP:0001649", CodeFinder(terminology))[0] == [
        {"system": "http://human-phenotype-ontology.org", "code": "HP:0001649", "display": "Tachycardia"},
        {"system": UMLS, "code": "C0039231"},
    ]
    mesh = {"system": "https://www.nlm.nih.gov/mesh", "code": "D003139"}
    mondo = {"system": "http://purl.obolibrary.org/obo/mondo.owl", "code": "MONDO:0000001"}
    assert make("MESH:D003139|MONDO:0000001", CodeFinder())[0] == [mesh, mondo]
    assert make("D003139", CodeFinder(id_source="MESH"))[0] == [mesh]
    for id_, reason in (
        ("D003139", "ids whose source is not known"),
        ("LOCAL:1", "codes of LOCAL, whose URI is not known"),
        ("NIL", "mentions without a concept"),
        ("", "mentions without a concept"),
        ("MESH:D  1", "codes that FHIR does not allow"),
    ):
        assert make(id_, CodeFinder()) == ([], {reason: 1})


def test_codes_of_an_output_source(terminology):
    register_extensions()
    doc = nlp("cold")
    doc.ents = [Span(doc, 0, 1, "DISEASE", kb_id="82272006")]
    names = {"name": "Cold", "canonical_name": "Common Cold", "types": [], "mention": "cold"}
    doc.ents[0]._.kb_candidates = [{"id": "82272006", "concept_id": "C0009443", "score": 1.0, **names}]
    concepts = CodeableConcepts(CodeFinder(terminology), ExchangeReport(), sources=["SNOMEDCT_US", "UMLS"])
    assert [coding["code"] for coding in concepts.make(doc.ents[0], "d")["coding"]] == ["82272006", "1", "C0009443"]


def test_the_command_takes_sources_and_their_versions_and_unknown_ones_are_refused(tmp_path, terminology):
    doc = nlp("a head cold")
    doc.ents = [Span(doc, 1, 3, "DISEASE", kb_id="C0009443"), Span(doc, 0, 1, "OTHER", kb_id="NIL")]
    out = tmp_path / "out.jsonl"
    options = ["--source", "UMLS", "--source", "LNC", "--version", "UMLS=2025AB"]
    run("to-fhir", save(tmp_path / "docs.spacy", doc), out, *options)
    rows = [json.loads(line)["codeableConcept"] for line in out.read_text(encoding="utf8").splitlines()]
    coding = {"system": UMLS, "code": "C0009443", "version": "2025AB"}
    assert [row.get("coding") for row in rows] == [None, [coding]]
    report = json.loads((tmp_path / "out.jsonl.report.json").read_text(encoding="utf8"))
    assert report["left_out"]["concepts without a code in LNC"]["count"] == 1
    for options in ({"sources": ["FOO"]}, {"versions": {"FOO": "1"}}):
        with pytest.raises(ValueError, match="'FOO'.*known sources: ATC, CPT"):
            CodeableConcepts(CodeFinder(terminology), ExchangeReport(), **options)


@given(annotated_texts(characters="ab \n\t\x00\x1f😀\u2028", ids=("", "NIL", "C0009443", "MESH:D\x01", "C1|X:2")))
def test_any_mention_gives_what_fhir_accepts(tmp_path_factory, document):
    doc = make_doc(document, tokenize, ExchangeReport())
    report = ExchangeReport()
    rows = list(CodeableConcepts(CodeFinder(), report).list_rows(annotate([doc], report)))
    path = tmp_path_factory.mktemp("fhir") / "out.jsonl"
    export_concepts(annotate([doc], report), path, CodeableConcepts(CodeFinder(), ExchangeReport()))
    # Only \n ends a line: texts have other line breaks in them.
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == rows
    for row in rows:
        CodeableConcept.model_validate(row["codeableConcept"])
        assert 0 <= row["start"] < row["end"] <= len(document.text)
    left_out = count_kinds(report).get("mentions of white space, which are not a text in FHIR", 0)
    assert len(rows) == len(document.annotations) - left_out
