"""The page of a review: its data, and the decisions that come back."""

import json
import re
from datetime import date

import polars as pl
import pytest
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from sssom_rules import check_rules

from spacy_sapbert.tables.mapping import APPROVED, MANUAL, NO_TERM, REJECTED, MappingSet, complete_frame, split_others
from spacy_sapbert.tables.review import (
    SHOWN,
    ReviewDecision,
    apply_decisions,
    hash_rows,
    read_decisions,
    write_review,
)
from spacy_sapbert.tables.sssom import read_sssom, write_sssom

HOSTILE = "</script><script>alert(1)</script>\u2028'\"&<!--\t\\"
ROWS = [
    ("my:1", "Seizures", "skos:exactMatch", "HP:0000001", "Seizure", "1.0", "name", None),
    (
        "my:2",
        HOSTILE,
        "skos:closeMatch",
        "HP:0000002",
        HOSTILE,
        "0.5",
        "vectors",
        "HP:0000003 Cold; wet; HP:0000001 Seizure",
    ),
    ("my:3", "Cold", "skos:exactMatch", NO_TERM, None, None, "no name", "HP:0000003 Cold"),
    (None, "Fits", "skos:exactMatch", NO_TERM, None, None, "no name", None),
]
NAMES = ("subject_id", "subject_label", "predicate_id", "object_id", "object_label", "confidence", "linked_how")
DAY = "2026-03-01"


def make_set(rows=ROWS):
    frame = pl.DataFrame(rows, dict.fromkeys((*NAMES, "linked_others"), pl.String), orient="row")
    return MappingSet(complete_frame(frame), {"curie_map": {"my": "https://example.org/my/"}})


def read_data(page):
    return json.loads(re.search('id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_has_one_script_and_all_data_is_escaped(tmp_path):
    write_review(make_set(), path := tmp_path / "review.html", "a <b> & c")
    page = path.read_text(encoding="utf8")
    assert page.count("<script") == page.count("</script>") == 2 and page.isprintable() is False
    assert "\u2028" not in page and "default-src 'none'" in page and "http" not in page.replace('http-equiv="', "")
    data = read_data(page)
    rows = [dict(zip(SHOWN, row, strict=True)) for row in data["rows"]]
    assert [row["subject_label"] for row in rows] == make_set().frame["subject_label"].to_list()
    assert data["title"] == "a <b> & c" and data["digits"] == {"HP": 7}
    assert rows[1]["others"] == [["HP:0000003", "Cold; wet", ""], ["HP:0000001", "Seizure", ""]]
    assert [row["confidence"] for row in rows] == [1.0, 0.5, None, None]


def test_the_second_concept_comes_first_among_the_others_with_why_it_was_not_taken(tmp_path):
    second = {"linked_second": "HP:0000003 Cold; wet", "linked_second_why": "score 0.40", "row": "theirs"}
    mapping = make_set()
    frame = mapping.frame.with_columns(pl.lit(text).alias(name) for name, text in second.items())
    write_review(mapping._replace(frame=frame), path := tmp_path / "review.html", "a")
    rows = [dict(zip(SHOWN, row, strict=True)) for row in read_data(path.read_text(encoding="utf8"))["rows"]]
    assert rows[1]["others"] == [["HP:0000003", "Cold; wet", "score 0.40"], ["HP:0000001", "Seizure", ""]]
    # A column of the file's own with a name of the page's.
    assert [row["row"] for row in rows] == [1, 2, 3, 4]


@given(st.lists(st.tuples(st.from_regex("[A-Z]{1,3}:[0-9]{1,5}", fullmatch=True), st.text("ab; ,.")), max_size=4))
def test_others_are_split_where_an_id_begins(others):
    text = "; ".join(f"{id_} {name}" for id_, name in others)
    assert split_others(text) == list(dict.fromkeys(others)) or "; " in "".join(f"{name}; " for _, name in others)[:-2]


def make_decision(row, decision, mapping=None, **more):
    subject_id, subject_label, object_id = (
        (mapping or make_set()).frame.select("subject_id", "subject_label", "object_id").row(row - 1)
    )
    given = {"subject_id": subject_id, "subject_label": subject_label, "object_id": object_id, "date": DAY}
    return ReviewDecision.model_validate({"row": row, "decision": decision, "reviewer": "Ann", **given, **more})


def test_decisions_are_written_into_the_mapping(tmp_path):
    decisions = [
        make_decision(1, "accept", comment="sure"),
        make_decision(2, "reject"),
        make_decision(3, "change", new_id="HP:0000003", new_label="Cold", predicate_id="skos:broadMatch"),
        make_decision(4, "none"),
    ]
    mapping = apply_decisions(make_set(), decisions)
    columns = ("predicate_id", "predicate_modifier", "object_id", "object_label", "confidence", "mapping_status")
    assert mapping.frame.select(columns).rows() == [
        ("skos:exactMatch", None, "HP:0000001", "Seizure", "1.0", APPROVED),
        ("skos:closeMatch", "Not", "HP:0000002", make_set().frame["object_label"][1], None, REJECTED),
        ("skos:broadMatch", None, "HP:0000003", "Cold", None, APPROVED),
        ("skos:exactMatch", None, NO_TERM, None, None, APPROVED),
    ]
    # How the concept before was found says nothing of another one.
    assert mapping.frame["linked_how"].to_list() == ["name", "vectors", None, None]
    assert set(mapping.frame["mapping_justification"]) == {MANUAL} and mapping.frame["comment"][0] == "sure"
    assert set(mapping.frame["reviewer_label"]) == {"Ann"} and set(mapping.frame["review_date"]) == {DAY}
    write_sssom(mapping, path := tmp_path / "a.sssom.tsv")
    check_rules(path)
    assert read_sssom(path).frame["subject_label"].to_list() == make_set().frame["subject_label"].to_list()
    named = apply_decisions(make_set(), decisions, reviewer="orcid:0000-0002-1825-0097").frame
    assert set(named["reviewer_id"]) == {"orcid:0000-0002-1825-0097"} and named["reviewer_label"].null_count() == 4


def test_a_comment_alone_decides_nothing():
    frame = apply_decisions(make_set(), [make_decision(1, "", comment="look again", reviewer="")]).frame
    assert frame["comment"][0] == "look again" and frame["mapping_justification"][0] is None


def test_new_ids_are_looked_up_where_a_terminology_is_given():
    terminology = build_terminology([("HP:0000003", "Common cold"), ("C0009443", "Cold")])
    change = make_decision(3, "change", new_id="HP:0000003", new_label="anything")
    frame = apply_decisions(make_set(), [change], terminology=terminology).frame
    assert frame.select("object_id", "object_label").row(2) == ("HP:0000003", "Common cold")
    cui = make_decision(3, "change", new_id="C0009443")
    assert apply_decisions(make_set(), [cui], terminology=terminology).frame["object_id"][2] == "UMLS:C0009443"
    with pytest.raises(ValueError, match="'HP:0000404' of row 3 is not in the terminology"):
        apply_decisions(make_set(), [make_decision(3, "change", new_id="HP:0000404")], terminology=terminology)


OTHER = {"subject_label": "another"}
REFUSED = {
    "another row": ([make_decision(1, "accept", **OTHER)], "about .*another.*Give the file of which"),
    "a row that is not there": ([make_decision(1, "accept").model_copy(update={"row": 9})], "row 9"),
    "the row 0": ([make_decision(4, "none").model_copy(update={"row": 0})], "row 0"),
    "two decisions on a row": ([make_decision(1, "accept"), make_decision(1, "reject")], "two decisions on row 1"),
    "nothing to accept": ([make_decision(3, "accept")], "no concept to accept"),
    "nobody": ([make_decision(1, "accept", reviewer="")], "--reviewer"),
    "an id without a source": ([make_decision(3, "change", new_id="cold")], "--object-prefix"),
    "a predicate that is none": ([make_decision(1, "accept", predicate_id="same as")], "has to be a CURIE"),
}


@pytest.mark.parametrize("decisions, message", REFUSED.values(), ids=REFUSED)
def test_decisions_that_do_not_fit_are_refused(decisions, message):
    with pytest.raises(ValueError, match=message):
        apply_decisions(make_set(), decisions)


def write_json(path, *rows, mapping=None):
    listed = [row.model_dump(mode="json") for row in rows]
    path.write_text(json.dumps({"fingerprint": hash_rows(mapping or make_set()), "decisions": listed}))
    return path


def test_decisions_are_read_as_json_and_as_csv(tmp_path):
    decision = make_decision(2, "change", new_id="HP:0000003", comment="=x")
    assert read_decisions(write_json(tmp_path / "a.json", decision), make_set()) == [decision]
    cells = {name: "" if value is None else str(value) for name, value in decision.model_dump().items()}
    cells["comment"] = "'=x"
    pl.DataFrame([cells]).write_csv(tmp_path / "a.csv")
    assert read_decisions(tmp_path / "a.csv", make_set()) == [decision] and decision.date == date(2026, 3, 1)
    other = make_set(ROWS[:2])
    with pytest.raises(ValueError, match="decisions on another mapping"):
        read_decisions(tmp_path / "a.json", other)


BAD = {
    "a.json": ("{", "no decisions of a review page"),
    "b.json": ("[]", "no decisions of a review page"),
    "c.json": ('{"fingerprint": "", "decisions": [{"row": "x"}]}', "row: Input should be a valid integer"),
    "d.json": ('{"fingerprint": "", "decisions": [{"row": 1, "date": "2026-01-01", "evil": 1}]}', "evil"),
    "e.csv": ("", "no decisions of a review page"),
    "f.csv": ("row,date,decision\n1,2026-01-01,delete\n", "'delete', not one of accept"),
    "g.csv": ("row,date,decision\n1,soon,accept\n", "date: Input should be a valid date"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_no_page_has_written_is_refused(tmp_path, name):
    text, message = BAD[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_decisions(tmp_path / name, make_set())
