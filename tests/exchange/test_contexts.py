"""Negated mentions, and those of relatives, the past and mere possibility: no export makes findings of them."""

import csv
import json
from itertools import product

import pytest
import spacy
from annotated_texts import HEADER, load, run, save
from fhir.resources.condition import Condition
from fhir.resources.R4B.condition import Condition as ConditionR4B
from fhir.resources.R4B.familymemberhistory import FamilyMemberHistory
from spacy.tokens import Span

from spacy_sapbert.context import MentionContext, read_context, write_context
from spacy_sapbert.context.cues import read_cues
from spacy_sapbert.exchange.documents import DOC_ID, ExchangeReport, annotate, write_docs
from spacy_sapbert.exchange.fhir import RELATIONSHIPS, VERIFICATION, CodeableConcepts, CodeFinder
from spacy_sapbert.exchange.formats import FORMATS
from spacy_sapbert.exchange.names import WRITTEN

nlp = spacy.blank("en")
TEXT = "Fever, no cough, perhaps measles; mother had asthma and no stroke; past mumps; return if vertigo."
# Each mention's context, its resource and status in FHIR, and whether and when it exists in OMOP.
MENTIONS = {
    "Fever": (MentionContext(), "Condition", None, "Y", "present"),
    "cough": (MentionContext(negated=True), "Condition", "refuted", "N", "present"),
    "measles": (MentionContext(uncertain=True), "Condition", "unconfirmed", "Y", "present"),
    "asthma": (MentionContext(family=True, historical=True), "FamilyMemberHistory", None, "N", "past"),
    "stroke": (MentionContext(family=True, negated=True), None, None, "N", "present"),
    "mumps": (MentionContext(historical=True), "Condition", None, "Y", "past"),
    "vertigo": (MentionContext(hypothetical=True), None, None, "N", "present"),
}
CONTEXTS = {text: row[0] for text, row in MENTIONS.items()}


def make_note(contexts, name="1"):
    doc = nlp.make_doc(TEXT)
    doc.user_data[DOC_ID] = name
    tokens = [token for token in doc if token.text in CONTEXTS]
    doc.ents = [Span(doc, token.i, token.i + 1, "D", kb_id="C0009443") for token in tokens]
    for ent in doc.ents:
        if contexts:
            write_context(ent, contexts[ent.text])
    return doc


def export(tmp_path, command, *docs, options=()):
    """Return the rows, the report, and what is printed."""
    output = tmp_path / command
    concepts = []
    if command == "to-omop":
        (tmp_path / "CONCEPT.csv").write_text(HEADER + "1\tCold\tCondition\tSNOMED\tDisorder\tS\t1\n", encoding="utf8")
        concepts = ["--concepts", tmp_path / "CONCEPT.csv"]
    printed = run(command, save(tmp_path / "docs.spacy", *docs), output, *concepts, *options)
    with output.open(encoding="utf8", newline="") as file:
        rows = list(map(json.loads, file)) if command == "to-fhir" else list(csv.DictReader(file))
    return rows, json.loads((tmp_path / f"{command}.report.json").read_text(encoding="utf8")), printed


def test_fhir_says_what_a_mention_means_for_the_record(tmp_path):
    rows, report, printed = export(tmp_path, "to-fhir", make_note(CONTEXTS))
    for row, (text, (context, resource, code, *_)) in zip(rows, MENTIONS.items(), strict=True):
        assert (row["codeableConcept"]["text"], row["context"], row["resource"]) == (text, context.words, resource)
        coding = [{"system": VERIFICATION, "code": code, "display": code.title()}] if code else None
        assert row.get("verificationStatus", {}).get("coding") == coding
    assert report["counts"]["negated mentions"] == 2 and report["counts"]["hypothetical mentions"] == 1
    assert "note_context" not in printed and not report["odd"]


def test_fhir_accepts_what_any_context_gives():
    patient = {"reference": "Patient/1"}
    for flags in product([False, True], repeat=5):
        doc = nlp.make_doc("cold")
        doc.ents = [Span(doc, 0, 1, "D", kb_id="C0009443")]
        write_context(doc.ents[0], MentionContext(*flags))
        report = ExchangeReport()
        [row] = CodeableConcepts(CodeFinder(), report).list_rows(annotate([doc], report))
        status = {key: row[key] for key in ("verificationStatus",) if key in row}
        assert not status or row["resource"] == "Condition"
        # What is perhaps not so is not refuted.
        said = {coding["code"] for coding in status.get("verificationStatus", {}).get("coding", [])}
        assert ("refuted" in said) <= (flags[0] and "uncertain" not in row["context"])
        if row["resource"] == "Condition":
            assert not row["context"] or set(row["context"]) <= {"negated", "uncertain", "historical"}
            ConditionR4B(subject=patient, code=row["codeableConcept"], **status)
            clinical = {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/condition-clinical"}]}
            Condition(subject=patient, code=row["codeableConcept"], clinicalStatus=clinical, **status)
        elif row["resource"] == "FamilyMemberHistory":
            condition, relative = [{"code": row["codeableConcept"]}], {"text": "mother"}
            FamilyMemberHistory(patient=patient, status="partial", relationship=relative, condition=condition)


def test_a_note_becomes_resources_that_fhir_accepts():
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "D", "pattern": name, "id": "C0009443"} for name in CONTEXTS])
    pipeline.add_pipe("note_context")
    doc = pipeline(
        "Fever, no cough, perhaps measles. Her mother had asthma. A friend had a stroke. She had mumps as a child. "
        "Return if vertigo."
    )
    rows = list(CodeableConcepts(CodeFinder(), ExchangeReport()).list_rows(annotate([doc], ExchangeReport())))
    resources = {}
    for row in rows:
        patient, concept = {"reference": "Patient/1"}, row["codeableConcept"]
        status = {key: row[key] for key in ("verificationStatus", "clinicalStatus") if key in row}
        resource = row["resource"]
        if resource == "Condition":
            made = ConditionR4B(subject=patient, code=concept, **status)
        elif resource:
            relative = row["relationship"]
            made = FamilyMemberHistory(
                patient=patient, status="partial", relationship=relative, condition=[{"code": concept}]
            )
            status = {"relationship": relative}
            assert made.relationship.coding[0].system == "http://terminology.hl7.org/CodeSystem/v3-RoleCode"
        resources[concept["text"]] = resource, *(coded["coding"][0]["code"] for coded in status.values())
    assert resources == {
        "Fever": ("Condition",),
        "cough": ("Condition", "refuted"),
        "measles": ("Condition", "unconfirmed"),
        "asthma": ("FamilyMemberHistory", "MTH"),
        "stroke": (None,),
        "mumps": ("Condition", "inactive"),
        "vertigo": (None,),
    }


@pytest.mark.parametrize("person", RELATIONSHIPS)
def test_each_relative_of_the_cues_has_a_code(person):
    assert person in {"", *read_cues("en")["relatives"]} and RELATIONSHIPS[person].isupper()


def test_who_has_it_comes_back(tmp_path):
    doc = make_note({**CONTEXTS, "asthma": MentionContext(family=True, person="mother")})
    run("to", "prodigy", save(tmp_path / "docs.spacy", doc), tmp_path / "out.jsonl")
    line = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf8").splitlines()[0])
    assert [span["person"] for span in line["spans"] if "person" in span] == ["mother"]


def test_omop_says_whether_the_term_exists_and_when(tmp_path):
    # What has run over one document of a file has run over the others.
    rows, report, printed = export(tmp_path, "to-omop", make_note(CONTEXTS), make_note(None, "2"))
    reason = "unmapped=the concept has no code in a vocabulary of Athena"
    contexts = [(text, *MENTIONS[text]) for text in CONTEXTS]
    contexts += [(text, MentionContext(), None, None, "Y", "present") for text in CONTEXTS]
    for row, (text, context, *_, exists, when) in zip(rows, contexts, strict=True):
        found = row["lexical_variant"], row["term_exists"], row["term_temporal"]
        assert found == (text, exists, when)
        said = ["subject=family member" if word == "family" else f"{word}=true" for word in context.words]
        assert row["term_modifiers"] == ";".join([*said, reason])
    assert report["counts"]["rows whose term does not exist"] == 4 and "note_context" not in printed
    # Where only negation is known, time is not.
    rows, *_ = export(tmp_path, "to-omop", make_note({text: MentionContext(text == "cough") for text in CONTEXTS}))
    found = {(row["lexical_variant"] == "cough", row["term_exists"], row["term_temporal"]) for row in rows}
    assert found == {(True, "N", ""), (False, "Y", "")}


@pytest.mark.parametrize("command", ["to-fhir", "to-omop"])
def test_documents_that_say_nothing_are_named_once_and_attributes_of_ones_own_on_the_command_line(tmp_path, command):
    doc = make_note(None)
    rows, report, printed = export(tmp_path, command, doc, make_note(None, "2"))
    assert printed.count("add `note_context`") == 1
    [entry] = [entry for kind, entry in report["odd"].items() if "add `note_context`" in kind]
    assert entry["count"] == len(rows) == 14
    assert all(row["context"] is None if command == "to-fhir" else not row["term_exists"] for row in rows)
    for ent, value in zip(doc.ents, ["present", "absent", "possible", "family"], strict=False):
        doc.user_data["._.", "assertion", ent.start_char, ent.end_char] = value
    words = {"negated": "absent", "uncertain": "possible", "family": "family"}
    options = [part for word, value in words.items() for part in (f"--{word}", f"assertion={value}")]
    rows, report, _ = export(tmp_path, command, doc, options=[*options, "--historical", "is_pats"])
    if command == "to-fhir":
        assert [row["context"] for row in rows] == [[], ["negated"], ["uncertain"], ["family"], [], [], []]
    else:
        assert [row["term_exists"] for row in rows] == ["Y", "N", "Y", "N", "Y", "Y", "Y"]
    misspelt = report["odd"]["attributes that no mention has: they are misspelt, or true of none"]
    assert misspelt == {"count": 1, "first": ["is_pats"]}
    with pytest.raises(ValueError, match="assertion.*'present'"):
        export(tmp_path, command, doc, options=["--negated", "assertion"])


@pytest.mark.parametrize("name", WRITTEN)
def test_contexts_come_back_or_are_counted(tmp_path, name):
    printed = run("to", name, save(tmp_path / "docs.spacy", make_note(CONTEXTS)), tmp_path / "out")
    run("from", name, tmp_path / "out", tmp_path / "back.spacy")
    [doc] = load(tmp_path / "back.spacy")
    found = {ent.text: read_context(ent) for ent in doc.ents}
    if FORMATS[name].has_context:
        assert found == CONTEXTS
    else:
        assert found == dict.fromkeys(CONTEXTS)
        for word, n in {"negated": 2, "uncertain": 1, "family": 2, "historical": 2, "hypothetical": 1}.items():
            assert f"Odd: {n} {word} mentions, which {name} cannot mark as such" in printed
    if name == "brat":
        path = tmp_path / "out" / "1.ann"
        lines = path.read_text(encoding="utf8").splitlines()
        assert {"A1\tNegated T2", "A3\tFamily T4", "A4\tHistorical T4"} <= set(lines)
        path.write_text("\n".join([*lines, "A9\tNegated T99", "A10\tSeverity T1 high", "A11\tNegated T1 no"]))
        printed = run("from", "brat", tmp_path / "out", tmp_path / "back.spacy")
        assert "Left out: 1 attributes of no mention" in printed
        assert "Left out: 2 annotations that are neither mentions nor normalizations" in printed


def test_flags_of_tables_are_true_or_false(tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"document": "a", "text": "ab"}\n', encoding="utf8")
    head, row = "document,start,end,label,id,mention,negated", "a,0,2,D,C1,ab,"
    for written, negated in (("TRUE", True), ("false", False)):
        (tmp_path / "mentions.csv").write_text(f"{head}\n{row}{written}\n", encoding="utf8")
        run("from", "csv", tmp_path, tmp_path / "back.spacy")
        [doc] = load(tmp_path / "back.spacy")
        assert read_context(doc.ents[0]) == MentionContext(negated=negated)
    (tmp_path / "mentions.csv").write_text(f"{head}\n{row}yes\n", encoding="utf8")
    with pytest.raises(ValueError, match="row 2.*'yes'.*not all true or false"):
        run("from", "csv", tmp_path, tmp_path / "back.spacy")


NO_FILE_CAN_HOLD = {
    "a span": lambda doc: doc[0:1],
    "spans in a list": lambda doc: [1, {"a": (doc[0:1],)}],
    "an object": lambda doc: object(),
    "a function": lambda doc: len,
    "a large number": lambda doc: 1 << 70,
    "a list in itself": lambda doc: make_endless(),
    "a key": lambda doc: {doc[0:1]: 1},
}


def make_endless():
    endless = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize("kind", NO_FILE_CAN_HOLD)
@pytest.mark.parametrize("name", ["context_graph", "modifiers", "mine"])
def test_what_no_file_can_hold_is_left_out_and_counted(tmp_path, kind, name):
    docs, value = [make_note(CONTEXTS), make_note(None, "2")], NO_FILE_CAN_HOLD[kind]
    place = {"context_graph": (None, None), "modifiers": (0, 5)}.get(name)
    key = ("._.", name, *place) if place else name
    for doc in docs:
        doc.user_data[key] = value(doc)
    before = [dict(doc.user_data) for doc in docs]
    with pytest.warns(UserWarning, match=f"docs.spacy lacks values of `user_data` .*: 2 of {name}[.]"):
        write_docs(tmp_path / "docs.spacy", docs)
    assert all(doc.user_data.keys() == data.keys() for doc, data in zip(docs, before, strict=True))
    back = load(tmp_path / "docs.spacy")
    assert [doc.text for doc in back] == [TEXT, TEXT]
    # A graph says that ConText has run, even where it has found nothing.
    graph = {key: None} if name == "context_graph" else {}
    assert [doc.user_data for doc in back] == [{k: v for k, v in data.items() if k != key} | graph for data in before]
    of_second = MentionContext() if graph else None
    assert [[read_context(ent) for ent in doc.ents] for doc in back] == [
        [*CONTEXTS.values()],
        [of_second] * len(CONTEXTS),
    ]


def test_documents_of_the_real_medspacy_are_saved(tmp_path):
    pytest.importorskip("medspacy.context", reason="needs medspaCy, which asks for an older spaCy")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "D", "pattern": name} for name in ("fever", "asthma")])
    pipeline.add_pipe("medspacy_context")
    docs = list(pipeline.pipe(["No fever. Her mother had asthma.", "A fever."]))
    with pytest.raises(TypeError):
        save(tmp_path / "docs.spacy", *docs)
    with pytest.warns(UserWarning, match="2 of context_graph"):
        write_docs(tmp_path / "docs.spacy", docs)
    found = [[read_context(ent).words for ent in doc.ents] for doc in load(tmp_path / "docs.spacy")]
    assert found == [[["negated"], ["family"]], [[]]]
