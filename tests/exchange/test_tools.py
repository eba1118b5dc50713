"""What annotation tools export is read; what the chosen format can't read is named, with the way out."""

import json

import pytest
from annotated_texts import annotated, check_refused, count_kinds, in_pieces, load, run, ways, write_files
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.context import MentionContext
from spacy_sapbert.exchange.documents import Annotation, ExchangeReport
from spacy_sapbert.exchange.fields import read_identifiers
from spacy_sapbert.exchange.formats import import_docs

TEXT = "\U0001f600 Sore and wet toes"
LABEL_IDS, IN_UTF_16 = (
    "mentions with an id for a label",
    "documents with offsets in units of UTF-16, which are converted",
)


def make_lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def make_region(id_, first, last, *labels, **more):
    value = {"start": first, "end": last, "text": TEXT[first:last], "labels": list(labels), **more}
    return {"id": id_, "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def make_answer(id_, kind, answer):
    """Make what somebody has chosen or typed for a region."""
    return {"id": id_, "from_name": "concept", "type": kind, "value": {"start": 2, "end": 6, kind: answer}}


def make_typed(id_, *lines):
    return {"id": id_, "from_name": "concept", "type": "textarea", "value": {"text": list(lines)}}


def make_tasks(*annotations, data=None):
    return json.dumps([{"id": 7, "data": data or {"text": TEXT}, "annotations": list(annotations), "predictions": []}])


def make_medcat(*annotations):
    document = {"id": 3, "name": "note", "text": TEXT, "annotations": list(annotations)}
    return json.dumps({"projects": [{"name": "p", "documents": [document]}]}, indent=1)


def make_concept(start, end, cui="C1", **more):
    return {"start": start, "end": end, "cui": cui, "value": TEXT[start:end], "correct": True, "meta_anns": {}, **more}


def make_meta(**values):
    return {name: {"name": name, "value": value, "acc": 1} for name, value in values.items()}


def with_context(start, end, *words):
    return Annotation(start, end, "", "C1", context=MentionContext(**dict.fromkeys(words, True)))


DENOTED = {
    "text": TEXT,
    "sourcedb": "PubMed",
    "sourceid": 12,
    "denotations": [
        {"id": "T1", "span": {"begin": 2, "end": 6}, "obj": "Sign"},
        {"id": "T2", "span": [{"begin": 15, "end": 19}, {"begin": 2, "end": 6}], "obj": "X:HP_0000252"},
    ],
    "attributes": [
        {"id": "A1", "subj": "T1", "pred": "tao:has_database_id", "obj": "MESH:D003139"},
        {"id": "A2", "subj": "T1", "pred": "Negation", "obj": False},
        {"id": "A3", "subj": "T1", "pred": "status", "obj": "old"},
    ],
    "modifications": [{"id": "M1", "pred": "Speculation", "obj": "T1"}],
    "relations": [{"id": "R1", "pred": "of", "subj": "T1", "obj": "T2"}],
}
UNSURE = MentionContext(uncertain=True)
TRACKS = {"text": TEXT, "tracks": [{"denotations": [one]} for one in DENOTED["denotations"]]}
SORE = make_region("r1", 2, 6, "Sign")
MIN = {"id": 7, "note": TEXT, "annotator": 1, "lead_time": 2.5, "created_at": "2024-01-01T10:00:00.000000Z"}
MIN |= {"label": [SORE["value"], make_region("", 11, 14, "Sign")["value"]]}
MIN |= {"concept": [{"start": 2, "end": 6, "text": "Sore", "choices": ["C0234233"]}]}


@pytest.mark.parametrize(
    ("name", "file", "expected", "counts"),
    [
        (
            "doccano",
            make_lines({"id": 7, "text": TEXT, "label": [[2, 6, "Sign"]], "Comments": []}),
            [(2, 6, "Sign")],
            {},
        ),
        ("doccano", make_lines({"id": 7, "data": TEXT, "label": [[2, 6, "Sign"]]}), [(2, 6, "Sign")], {}),
        (
            "doccano",
            json.dumps([{"id": 7, "text": TEXT, "labels": [[2, 6, "HP:0000252"], [11, 14, "Sign"]]}], indent=1),
            [(2, 6, "", "HP:0000252"), (11, 14, "Sign")],
            {LABEL_IDS: 1},
        ),
        (
            "doccano",
            make_lines(
                {
                    **{
                        "id": 7,
                        "text": TEXT,
                        "Comments": ["odd"],
                        "relations": [{"from_id": 1, "to_id": 2, "type": "x"}],
                    },
                    "entities": [
                        {"id": 1, "label": "Sign", "start_offset": 2, "end_offset": 6},
                        {"id": 2, "label": "C0040357", "start_offset": 15, "end_offset": 19},
                    ],
                }
            ),
            [(2, 6, "Sign"), (15, 19, "", "C0040357")],
            {LABEL_IDS: 1, "relations": 1},
        ),
        (
            "doccano",
            make_lines({"id": 7, "text": TEXT, "annotations": [{"label": 3, "start_offset": 2, "end_offset": 6}]}),
            [(2, 6, "3")],
            {},
        ),
        *(
            (
                "pubannotation",
                dump(DENOTED),
                [
                    Annotation(2, 6, "Sign", "MESH:D003139", context=UNSURE),
                    in_pieces("", (2, 6), (15, 19), kb_id="HP_0000252"),
                ],
                {LABEL_IDS: 1, "attributes without an id": 1, "relations": 1},
            )
            for dump in (json.dumps, lambda one: json.dumps([one], indent=1), lambda one: make_lines(one)[:-1])
        ),
        (
            "pubannotation",
            json.dumps(TRACKS),
            [(2, 6, "Sign"), in_pieces("", (2, 6), (15, 19), kb_id="HP_0000252")],
            {LABEL_IDS: 1},
        ),
        (
            "label-studio",
            make_tasks(
                {
                    "result": [
                        *(SORE, make_answer("r1", "choices", ["Soreness (C0234233)"])),
                        *(
                            make_region("r2", 11, 14, "Sign", "C1234567"),
                            make_answer("r2", "taxonomy", [["A", "X:B12"]]),
                        ),
                        *(make_region("r3", 15, 19, "Part"), make_typed("r3", "C0040357, MESH:D014034", "big")),
                        *(make_region("r4", 7, 10, "Sign", "Part"), make_answer("r4", "choices", ["unsure"])),
                        *(make_answer("r9", "choices", ["C0234233"]), {"type": "relation", "from_id": "r1"}),
                    ]
                }
            ),
            [
                *((2, 6, "Sign", "C0234233"), (11, 14, "Sign", "C1234567|B12")),
                *((15, 19, "Part", "C0040357|MESH:D014034"), (7, 10, "Sign")),
            ],
            {
                **{LABEL_IDS: 1, "mentions with several labels, of which the first is read": 1},
                **{"answers without an id": 1, "answers to no region": 1, "relations": 1},
            },
        ),
        # Cancelled ones, and several annotators: the ground truth, or else what was changed last.
        (
            "label-studio",
            make_tasks(
                {"result": [make_region("a", 11, 14, "A")], "ground_truth": True, "updated_at": "2024-01-01"},
                {"result": [SORE], "updated_at": "2024-01-03"},
                {"result": [], "was_cancelled": True},
            ),
            [(11, 14, "A")],
            {
                "annotations that were cancelled": 1,
                "tasks with several annotations: the ground truth is read, or else the one that was changed last": 1,
            },
        ),
        (
            "label-studio",
            make_tasks(
                {"result": [SORE], "updated_at": "2024-01-03"},
                {"result": [], "updated_at": "2024-01-02"},
                # A project may name its text as it likes.
                data={"title": "A note with a longer title than its text", "note": TEXT},
            ),
            [(2, 6, "Sign")],
            {"tasks with several annotations: the ground truth is read, or else the one that was changed last": 1},
        ),
        ("label-studio", json.dumps([MIN]), [(2, 6, "Sign", "C0234233"), (11, 14, "Sign")], {}),
        (
            "label-studio",
            json.dumps([{**MIN, "label": [], "updated_at": "1"}, {**MIN, "concept": [], "updated_at": "2"}]),
            [(2, 6, "Sign"), (11, 14, "Sign")],
            {
                "tasks with several annotations: the ground truth is read, or else the one that was changed last": 1,
            },
        ),
        # Offsets of a browser.
        (
            "label-studio",
            make_tasks({"result": [make_region("a", 2, 6, "A", start=3, end=7)]}),
            [(2, 6, "A")],
            {IN_UTF_16: 1},
        ),
        (
            "medcattrainer",
            make_medcat(
                make_concept(2, 6),
                make_concept(2, 6, correct=False, alternative=True, meta_anns=make_meta(Presence="True", Time="Past")),
                make_concept(7, 10, meta_anns=[{"name": "Negation", "value": "Yes"}]),
                make_concept(7, 14, meta_anns=make_meta(Presence="Yes", Negation="No")),
                make_concept(11, 14, meta_anns=make_meta(Presence="False", Subject="Family", Status="Other")),
                make_concept(15, 19, meta_anns=make_meta(Experiencer="Patient", Temporality="Future")),
                *(make_concept(2, 6, **{flag: True}) for flag in ("deleted", "killed", "irrelevant")),
                *(make_concept(2, 6, correct=False), make_concept(2, 6, validated=False)),
            ),
            [
                *((2, 6, "", "C1"), with_context(2, 6, "historical"), with_context(7, 10, "negated")),
                with_context(7, 14),
                *(with_context(11, 14, "negated", "family"), with_context(15, 19)),
            ],
            {
                **{f"annotations that are {kind}": 1 for kind in ("deleted", "killed", "irrelevant")},
                **{"annotations that are not correct": 1, "annotations that are not validated": 1},
                **{"meta annotations Status: Other": 1, "meta annotations Temporality: Future": 1},
            },
        ),
    ],
)
def test_exports_of_tools_are_read(tmp_path, name, file, expected, counts):
    report, (read, _) = ExchangeReport(), ways(name)
    [document] = read(write_files(tmp_path, file), report, "X:")
    doc_id = {"pubannotation": "file-1" if "tracks" in file else "PubMed:12", "medcattrainer": "note"}.get(name, "7")
    assert document == annotated(doc_id, TEXT, *expected)
    assert count_kinds(report) == counts


# A document with one mention, in each format.
EXPORTS = {
    "doccano": lambda text, start, end: {"text": text, "label": [[start, end, "D"]]},
    "pubannotation": lambda text, start, end: {
        "text": text,
        "denotations": [{"id": "T1", "span": {"begin": start, "end": end}, "obj": "D"}],
    },
    "label-studio": lambda text, start, end: {
        "data": {"text": text},
        "annotations": [{"result": [{"value": {"start": start, "end": end, "labels": ["D"]}}]}],
    },
    "medcattrainer": lambda text, start, end: {
        "projects": [{"documents": [{"text": text, "annotations": [{"start": start, "end": end, "cui": "D"}]}]}]
    },
}


@pytest.mark.parametrize("name", EXPORTS)
@given(st.text("ab \n\U0001f600", min_size=1, max_size=9), st.data())
def test_offsets_count_code_points_and_are_within_the_text(tmp_path_factory, name, text, data):
    start, end = (data.draw(st.integers(-2, len(text) + 2)) for _ in range(2))
    path = write_files(tmp_path_factory.mktemp(name), json.dumps(EXPORTS[name](text, start, end)))
    report, (read, _) = ExchangeReport("skip"), ways(name)
    [document] = read(path, report)
    fits = 0 <= start < end <= len(text) and bool(text[start:end].strip())
    assert [(one.start, one.end) for one in document.annotations] == [(start, end)] * fits
    assert count_kinds(report) == ({} if fits else {"malformed": 1})


@pytest.mark.parametrize(
    ("name", "file", "fault"),
    [
        *((name, "{", "no valid JSON") for name in EXPORTS),
        *((name, "[1]", "document 1: not of this form") for name in EXPORTS),
        *(
            (name, '[{"title": 1}]', "document 1: not of this form")
            for name in ("doccano", "pubannotation", "medcattrainer")
        ),
        ("doccano", '{"text": 5, "label": []}', "5 in place of a text"),
        # Those of a project for classification.
        ("doccano", '{"text": "a cold", "label": ["positive"]}', "not of this form"),
        ("doccano", '{"text": "a cold", "label": [["2", "6", "D"]]}', "a span without a place"),
        ("label-studio", make_tasks({"result": [make_region("a", 2, 6, "A", text="Wet")]}), "mention is 'Wet'"),
        # A region of a dialogue, whose offsets are within a line.
        (
            "label-studio",
            make_tasks({"result": [make_region("a", 2, 6, "A", start="0", end="0")]}),
            "a span without a place",
        ),
        ("medcattrainer", make_medcat(make_concept(2, 6, value="Wet")), "document 1 .note.: the text from 2 to 6"),
        ("medcattrainer", make_medcat({"start": 2, "end": 6}), "not of this form .*cui"),
    ],
)
def test_faults_of_exports_are_refused_or_counted(tmp_path, name, file, fault):
    path, (read, _) = write_files(tmp_path, file), ways(name)
    found = check_refused(lambda report: list(read(path, report)), fault)
    assert not [annotation for document in found for annotation in document.annotations]


def test_tasks_that_nobody_has_annotated_are_left_out(tmp_path):
    file = json.dumps([{"data": {"text": TEXT}, "annotations": []}, json.loads(make_tasks({"result": [SORE]}))[0]])
    path, (read, _), report = write_files(tmp_path, file), ways("label-studio"), ExchangeReport()
    assert [document.doc_id for document in read(path, report)] == ["7"]
    assert count_kinds(report) == {"tasks that nobody has annotated": 1}


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        *(
            (id_, id_)
            for id_ in ("C0009443", "HP:0001250", "HP_0000252", "MESH:D003139", "D003139", "22298006", "R07.4")
        ),
        *((id_, id_) for id_ in ("http://purl.obolibrary.org/obo/HP_0000252", "NIL", "CUI-less", "ICD10:I10")),
        ("C0000001 C0000002, C0000003", "C0000001|C0000002|C0000003"),
        *(
            (label, "")
            for label in ("", "Disease", "T047", "Grade 3", "COVID-19", "see C0009443", "Drug:Dose", "B-DIS")
        ),
        *((label, "") for label in ("Stage:2", "2019", "1.5", "Disease or Syndrome", "nil", "PER")),
    ],
)
def test_labels_and_notes_are_ids_if_each_word_is_one(written, ids):
    assert read_identifiers(written) == ids


DOCCANO = make_lines({"id": 1, "text": "a cold", "label": [[2, 6, "D"]]})
PUBANNOTATION = json.dumps({"text": "a cold", "denotations": []})
WEBANNO = "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.X|y\n\n#Text=a cold\n1-1\t0-1\ta\t_\n"
XMI = '<?xml version="1.0"?>\n<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore"/>'
OTHER_KEYS = json.dumps([{"text": "a cold", "ner": [[2, 6, "D"]], "meta": {"spans_of": "\\"}}])
LINES = make_lines({"text": "a cold", "ents": []}, {"text": "b", "note": '"spans": 1'})
CAS = {"a.json": json.dumps({"%FEATURE_STRUCTURES": []})}


@pytest.mark.parametrize("errors", ["raise", "skip"])
@pytest.mark.parametrize(
    ("name", "files", "fault"),
    [
        ("prodigy", DOCCANO, "looks like doccano, not prodigy. Read it with `from doccano`"),
        ("prodigy-choice", make_lines({"text": "a", "entities": [{"start_offset": 0}]}), "looks like doccano"),
        ("prodigy", PUBANNOTATION, "looks like pubannotation"),
        ("bioc", PUBANNOTATION, "looks like pubannotation"),
        ("prodigy", make_tasks({"result": [], "was_cancelled": False}), "looks like label-studio"),
        ("bioc", make_tasks({"result": [SORE]}), "looks like label-studio"),
        ("doccano", json.dumps([MIN]), "looks like label-studio"),
        ("prodigy", make_medcat(make_concept(2, 6)), "looks like medcattrainer"),
        ("inception", {"a.json": DOCCANO}, "a.json looks like doccano"),
        ("doccano", make_lines({"text": "a cold", "spans": [{"start": 2, "end": 6}]}), "looks like prodigy"),
        ("pubannotation", '{"id": 1, "passages": [{"offset": 0, "text": "a"}]}', "looks like bioc"),
        ("prodigy", CAS["a.json"], "looks like inception"),
        *(
            (name, WEBANNO, "is WebAnno TSV.*as UIMA CAS JSON, and read their folder as inception")
            for name in ("tsv", "pubtator")
        ),
        *((name, {"a.tsv": WEBANNO}, "a.tsv is WebAnno TSV") for name in ("tsv", "csv", "inception", "brat")),
        *((name, XMI, "is UIMA XMI.*as UIMA CAS JSON") for name in ("bioc", "inception", "prodigy")),
        ("inception", {"TypeSystem.xml": "<a/>", "a.xmi": XMI}, "a.xmi is UIMA XMI"),
        ("doccano", b"PK\x03\x04\xff", "a ZIP archive.*Unpack it"),
        # A fault of its own stays what it is, whatever lies beside it.
        ("csv", {"a.json": DOCCANO, "mentions.csv": "document\n", "texts.jsonl": ""}, "no column start"),
        # Nothing shows what it is.
        (
            "prodigy",
            OTHER_KEYS[1:-1],
            "nothing below 'spans' or .* keys are: text, ner, meta, spans_of. .*form of prodigy is",
        ),
        ("prodigy", LINES, "Its keys are: text, ents, note"),
        ("doccano", OTHER_KEYS, "nothing below 'label' or 'labels'.* keys are: text, ner, meta"),
        ("pubannotation", LINES, "nothing below 'denotations' or 'tracks'"),
        (
            "bioc",
            '{"id": "1", "passages": [{"offset": 0, "text": "a", "mentions": []}]}',
            "keys are: id, passages, offset",
        ),
    ],
)
def test_files_of_another_format_are_named(tmp_path, name, files, fault, errors):
    (tmp_path / "in").mkdir()
    path = write_files(tmp_path / "in", files)
    with pytest.raises(ValueError, match=fault):
        import_docs(name, path, tmp_path / "a.spacy", ExchangeReport(errors))
    assert not (tmp_path / "a.spacy").exists()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("prodigy", make_lines({"text": "a cold", "spans": []})),
        ("prodigy", make_lines({"text": "a cold", "answer": "accept", "_task_hash": 1})),
        ("doccano", make_lines({"text": "a cold", "label": []})),
        ("pubannotation", PUBANNOTATION),
        ("label-studio", make_tasks({"result": []})),
        ("medcattrainer", make_medcat()),
    ],
)
def test_documents_in_which_nothing_is_marked_are_documents(tmp_path, name, file):
    import_docs(name, write_files(tmp_path, file), tmp_path / "a.spacy", ExchangeReport())
    assert [len(doc.ents) for doc in load(tmp_path / "a.spacy")] == [0]


def test_an_export_becomes_documents_with_ids(tmp_path):
    path = write_files(tmp_path, make_tasks({"result": [SORE, make_answer("r1", "choices", ["X:C0234233"])]}))
    assert "1 documents, 1 mentions, 0 mentions without an id" in run(
        "from", "label-studio", path, tmp_path / "a.spacy", "--prefix", "X:"
    )
    [doc] = load(tmp_path / "a.spacy")
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [("Sore", "Sign", "C0234233")]
