"""The JSONL reader."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_sapbert.terminology.readers.jsonl import make_jsonl_reader, read_jsonl
from spacy_sapbert.text import normalize_name

GOOD = {"concept_id": "C1", "canonical_name": "Asthma", "aliases": ["asthma", "Asthma"], "types": ["T047"]}


def write(path, *records):
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_reads_scispacy_form(tmp_path):
    second = {"concept_id": "C0", "canonical_name": "Cough", "aliases": [], "definition": "A\u2028sound.", "x": 1}
    path = write(tmp_path / "kb.jsonl", GOOD, b"", second)
    terminology = make_jsonl_reader(str(path), source="UMLS", language="GER")()
    assert terminology["C1"].names == ("Asthma", "asthma")
    assert terminology["C1"].types == ("T047",) and terminology["C1"].definition is None
    assert terminology["C0"].definition == "A\u2028sound."
    assert terminology.names.select("language", "source", "preferred").rows() == [
        ("GER", "UMLS", True),
        ("GER", "UMLS", True),
        ("GER", "UMLS", False),
    ]
    report = terminology.report
    assert report["read"] == {"records": 2} and report["ignored_keys"] == {"x": 1}
    assert report["dropped"]["duplicate_names"] == 1


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
records = st.dictionaries(
    st.text("C0123456789", min_size=1, max_size=5),
    st.fixed_dictionaries(
        {"canonical_name": text.filter(normalize_name), "aliases": st.lists(text), "types": st.lists(text)},
        optional={"definition": st.none() | text},
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records, st.booleans())
def test_what_goes_in_comes_out(tmp_path, records, ascii_only):
    path = tmp_path / "kb.jsonl"
    lines = [json.dumps({"concept_id": i, **r}, ensure_ascii=ascii_only) + "\n" for i, r in records.items()]
    path.write_bytes("".join(lines).encode())
    terminology = read_jsonl(path)
    assert len(terminology) == len(records)
    for concept_id, record in records.items():
        concept = terminology[concept_id]
        names = [normalize_name(name) for name in (record["canonical_name"], *record["aliases"])]
        assert concept.canonical_name == names[0]
        assert concept.names == tuple(dict.fromkeys(filter(None, names)))
        assert concept.types == tuple(dict.fromkeys(filter(None, record["types"])))
        assert concept.definition == ((record.get("definition") or "").strip() or None)


MALFORMED = [
    (b'{"concept_id": "C2"', "Invalid JSON"),
    (b"[" * 100_000, "Invalid JSON"),
    (b'["C2"]', "should be an object"),
    (b'"\xff"', "0xff"),
    ({"concept_id": "C2", "canonical_name": "a"}, "aliases: Field required"),
    ({**GOOD, "concept_id": 2}, "concept_id: Input should be a valid string, not 2"),
    ({**GOOD, "concept_id": "C2", "aliases": ["a", None]}, "aliases.1: Input should be a valid string"),
    ({**GOOD, "concept_id": "C2", "types": "T047"}, "types: Input should be a valid array"),
    ({**GOOD, "concept_id": "C 2"}, "as the id of a concept"),
    ({**GOOD, "concept_id": ""}, "as the id of a concept"),
    ({**GOOD, "concept_id": "C2", "aliases": ["fine", "\ud83d"]}, "Invalid JSON"),
    ({**GOOD, "concept_id": "C1", "aliases": ["lost"]}, "on line 1 already"),
]


@pytest.mark.parametrize("record, reason", MALFORMED)
def test_malformed_records_raise_or_are_counted(tmp_path, record, reason):
    path = write(tmp_path / "kb.jsonl", GOOD, b"", record, {**GOOD, "concept_id": "C3"})
    with pytest.raises(ValueError, match=rf"kb\.jsonl, line 3: .*{reason}"):
        read_jsonl(path)
    with pytest.warns(UserWarning, match="1 malformed"):
        terminology = read_jsonl(path, errors="skip")
    assert terminology.concepts["id"].to_list() == ["C1", "C3"]
    assert terminology["C1"].names == ("Asthma", "asthma")
    assert terminology.report["dropped"]["malformed"] == 1
    assert terminology.report["read"] == {"records": 3}
    (example,) = terminology.report["malformed_examples"]
    assert example.startswith("kb.jsonl:3: ") and reason in example


def test_only_the_first_malformed_records_are_kept_as_examples_and_an_empty_file_is_refused(tmp_path):
    path = write(tmp_path / "kb.jsonl", GOOD, *[b"{}"] * 30)
    with pytest.warns(UserWarning, match="30 malformed"):
        report = read_jsonl(path, errors="skip").report
    assert report["dropped"]["malformed"] == 30 and len(report["malformed_examples"]) == 20
    with pytest.raises(ValueError, match=r"The terminology is empty: kb\.jsonl"):
        read_jsonl(write(path, b""))
