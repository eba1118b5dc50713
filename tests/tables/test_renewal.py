"""An older mapping against a new release of its terminology, and against new labels."""

import json

import polars as pl
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from obo_files import make_obo
from sssom_rules import check_rules

from spacy_sapbert import link_table, read_obo
from spacy_sapbert.tables.mapping import MANUAL, NO_TERM, MappingSet, complete_frame, make_mapping
from spacy_sapbert.tables.renewal import (
    ADDED,
    FILLED,
    FOREIGN,
    GONE,
    OPEN,
    OTHER_NAME,
    RELABELLED,
    REPLACED,
    REPORT_COLUMNS,
    UNKNOWN,
    WITHDRAWN,
    MappedTarget,
    read_targets,
    read_today,
    renew_mapping,
    write_findings,
)
from spacy_sapbert.tables.sssom import write_sssom

EXAMPLE = {"my": "https://example.org/my/"}
OLD = [(f"HP:{i}", name) for i, name in enumerate(["Seizure", "Ataxia", "Tremor", "Fever", "Cough"], 1)]
NEW = [
    ("HP:11", "Epileptic seizure", "alt_id: HP:1", 'synonym: "Seizure" EXACT []'),
    ("HP:22", "Ataxia", "xref: OTHER:9"),
    ("HP:3", "Old tremor", "is_obsolete: true", "consider: HP:22"),
    ("HP:5", "Bark"),
    ("HP:6", "Headache"),
]


def make_nlp(folder, terms, *header):
    (path := folder / "terms.obo").write_text(make_obo(terms, *header), encoding="utf8")
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker").initialize(terminology=read_obo(path))
    return nlp


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return make_nlp(tmp_path_factory.mktemp("new"), NEW, "data-version: hp/2026-02-01")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A mapping of seven labels over the old terminology, of which nobody has decided anything."""
    nlp = make_nlp(tmp_path_factory.mktemp("old"), OLD)
    labels = ["Seizures", "Ataxia", "Tremor", "Fever", "Cough", "zzz", "Headache"]
    linked = link_table(nlp, pl.DataFrame({"code": [*"1234567"], "label": labels}))
    mapping = make_mapping(linked, id_column="code", subject_prefix="my", curie_map=EXAMPLE)
    return MappingSet(mapping.frame.with_columns(extra=pl.lit("kept")), mapping.metadata)


def list_findings(renewal):
    return set(renewal.report.select("row", "found").iter_rows())


def decide(mapping, *rows):
    """Say that a person has decided rows."""
    is_row = pl.int_range(pl.len()).is_in([row - 1 for row in rows])
    justification = pl.when(is_row).then(pl.lit(MANUAL)).otherwise("mapping_justification")
    return mapping._replace(frame=mapping.frame.with_columns(mapping_justification=justification))


def test_targets_are_replaced_listed_and_filled(new, old, tmp_path):
    renewal = renew_mapping(new, old)
    expected = {(1, REPLACED), (2, UNKNOWN), (2, FILLED), (3, WITHDRAWN), (3, OPEN), (4, UNKNOWN), (4, OPEN)}
    assert list_findings(renewal) == expected | {(5, OTHER_NAME), (6, OPEN), (7, FILLED)}
    frame = renewal.mapping.frame
    assert frame["object_id"].to_list() == ["HP:11", "HP:22", NO_TERM, NO_TERM, "HP:5", NO_TERM, "HP:6"]
    assert frame["object_label"].to_list() == ["Epileptic seizure", "Ataxia", None, None, "Cough", None, "Headache"]
    assert frame["comment"][0] == "was HP:1 (replaced)" and frame["comment"][2] == "was HP:3 (withdrawn)"
    assert frame["linked_others"][2].startswith("HP:22 Ataxia") and set(frame["extra"]) == {"kept"}
    assert frame["object_source_version"].to_list()[1] == "hp/2026-02-01"
    # What was not touched is as it was.
    same = [name for name in old.frame.columns if name != "linked_others"]
    assert frame.select(same)[[4, 5]].equals(old.frame.select(same)[[4, 5]])
    write_sssom(renewal.mapping, path := tmp_path / "new.sssom.tsv")
    check_rules(path)
    # The second time, nothing is left to be done but what is open.
    again = renew_mapping(new, renewal.mapping)
    assert list_findings(again) == {(3, OPEN), (4, OPEN), (5, OTHER_NAME), (6, OPEN)}
    assert again.mapping.frame.drop("linked_others").equals(frame.drop("linked_others"))


def test_what_persons_decided_stays_but_for_retired_targets(new, old):
    decided = decide(old, *range(1, 8))
    renewal = renew_mapping(new, decided)
    assert list_findings(renewal) == {(1, REPLACED), (2, UNKNOWN), (3, WITHDRAWN), (4, UNKNOWN), (5, OTHER_NAME)}
    assert renewal.report["decided"].all()
    frame = renewal.mapping.frame
    assert frame["object_id"].to_list() == ["HP:11", "HP:2", "HP:3", "HP:4", "HP:5", NO_TERM, NO_TERM]
    assert set(frame["mapping_justification"]) == {MANUAL}
    # What would be linked today is there for the next review.
    assert frame["linked_others"][1].startswith("HP:22 Ataxia; ")


def test_new_labels_and_new_subjects_are_linked(new, old):
    today = pl.DataFrame({"code": [*"124578"], "label": ["SEIZURES ", "Headache", "Fever", "Bark", "zzz", "Barks"]})
    labels = read_today(today, "label", "code", "my", old)
    renewal = renew_mapping(new, decide(old, 4), labels)
    found = list_findings(renewal)
    assert {(2, RELABELLED), (2, FILLED), (3, GONE), (5, RELABELLED), (5, FILLED), (6, GONE)} <= found
    assert {(7, RELABELLED), (7, OPEN), (8, ADDED)} <= found and (1, RELABELLED) not in found
    # A subject that is gone is not linked anew, and one that a person mapped to what is gone stays.
    assert (3, OPEN) not in found and (3, FILLED) not in found and renewal.mapping.frame["object_id"][3] == "HP:4"
    frame = renewal.mapping.frame
    assert frame.select("subject_id", "subject_label", "object_id", "subject_type").row(7) == (
        "my:8",
        "Barks",
        "HP:5",
        None,
    )
    assert frame["subject_label"][1] == "Headache" and "label was Ataxia" in frame["comment"][1]
    with pytest.raises(ValueError, match="--id-column"):
        read_today(today, "label", None, "", old)


def make_set(*rows):
    names = ("subject_id", "subject_label", "predicate_modifier", "object_id", "object_label", "mapping_justification")
    frame = complete_frame(pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row"))
    return MappingSet(frame.with_columns(predicate_id=pl.lit("skos:exactMatch")), {})


def test_a_subject_with_a_target_is_not_linked_anew_and_a_rejected_target_not_taken_again(new):
    mapping = make_set(
        ("my:1", "Ataxia", None, "HP:5", "Bark", None),
        ("my:1", "Ataxia", None, "HP:404", "Gone", None),
        ("my:2", "Headache", "Not", "HP:6", "Headache", MANUAL),
        ("my:2", "Headache", None, NO_TERM, None, None),
        ("my:3", "Headache", None, NO_TERM, None, MANUAL),
        ("my:3", "Headache", None, None, None, None),
        (None, "Headache", None, None, None, None),
        (None, "Headache", None, None, None, None),
    )
    renewal = renew_mapping(new, mapping)
    assert list_findings(renewal) == {(2, UNKNOWN), (4, OPEN), (7, FILLED)}
    kept = ["HP:5", "HP:404", "HP:6", NO_TERM, NO_TERM, None, "HP:6", None]
    assert renewal.mapping.frame["object_id"].to_list() == kept


def test_ids_are_found_with_and_without_their_prefix_and_as_codes(new, tmp_path):
    terminology = new.get_pipe("sapbert_linker").terminology
    targets = read_targets(terminology, ["HP:6", "X:HP:6", "OTHER:9", "HP:3", "HP:1", "HP:404"])
    assert targets["HP:6"] == MappedTarget("current", "HP:6", "HP:6", "Headache", None)
    assert targets["X:HP:6"].now_id == "X:HP:6" and targets["OTHER:9"][:3] == ("current", "OTHER:9", "HP:22")
    assert targets["HP:3"] == MappedTarget(WITHDRAWN, None, None, None, "HP:22 Ataxia")
    assert targets["HP:1"][:3] == (REPLACED, "HP:11", "HP:11") and targets["HP:404"].status == UNKNOWN
    bare = make_nlp(tmp_path, [("D1", "Cold", "alt_id: D0"), ("D2", "Fever")])
    mapping = make_set(("my:1", "Cold", None, "MSH:D0", "Cold", None), ("my:2", "Fever", None, None, None, None))
    assert renew_mapping(bare, mapping).mapping.frame["object_id"].to_list() == ["MSH:D1", "MSH:D2"]
    with pytest.raises(ValueError, match="--object-prefix"):
        renew_mapping(bare, mapping._replace(frame=mapping.frame.tail(1)))


def test_a_label_that_is_linked_anew_to_several_concepts_gets_a_row_for_each(new):
    mapping = make_set(
        ("my:1", "Ataxia; Headache", None, NO_TERM, None, None),
        ("my:2", "Ataxia; Headache", "Not", "HP:6", "Headache", MANUAL),
        ("my:2", "Ataxia; Headache", None, "HP:404", None, None),
        ("my:3", "Ataxia; Headache", None, "HP:404", None, MANUAL),
    )
    # Names that the work has for itself, too.
    names = ("status", "row", "decided", "now_id", "subject_key", "new_object_id")
    own = [pl.Series(name, [f"{name} {row}" for row in range(4)]) for name in names]
    renewal = renew_mapping(new, mapping._replace(frame=mapping.frame.with_columns(own)))
    frame = renewal.mapping.frame
    assert frame["object_id"].to_list() == ["HP:22", "HP:6", "HP:6", "HP:22", "HP:404"]
    assert frame["subject_id"].to_list() == ["my:1", "my:1", "my:2", "my:2", "my:3"]
    assert frame["predicate_id"][:2].to_list() == ["skos:broadMatch"] * 2
    for name in names:
        assert frame[name].to_list() == [f"{name} {row}" for row in (0, 0, 1, 2, 3)]
    # Rows are numbered as they are now. What is rejected is not taken, and what is decided gets a proposal.
    assert list_findings(renewal) == {(1, FILLED), (2, FILLED), (4, UNKNOWN), (4, FILLED), (5, UNKNOWN)}
    assert frame["linked_others"][4].startswith("HP:22 Ataxia; HP:6 Headache")
    assert list_findings(renew_mapping(new, renewal.mapping)) == {(5, UNKNOWN)}


def test_concepts_of_an_older_label_do_not_stay(new):
    mapping = make_set(
        ("my:1", "Headache; bark", None, "HP:6", "Headache", None),
        ("my:1", "Headache; bark", None, "HP:5", "Bark", None),
        ("my:1", "Headache; bark", None, "HP:22", "Ataxia", MANUAL),
        ("my:2", "Headache; bark", None, "HP:6", "Headache", None),
        ("my:2", "Headache; bark", None, "HP:5", "Bark", None),
        ("my:3", "Headache; bark", None, "HP:6", "Headache", None),
        ("my:3", "Headache; bark", None, "X:1", "Foreign", None),
    )
    labels = pl.DataFrame({"subject_id": ["my:1", "my:2", "my:3"], "subject_label": ["zzz", "bark; ataxia", "bark"]})
    renewal = renew_mapping(new, mapping, labels)
    frame = renewal.mapping.frame
    # A decision of a person keeps the others, and the report lists them.
    assert frame["object_id"].to_list() == ["HP:6", "HP:5", "HP:22", "HP:5", "HP:22", NO_TERM, "HP:5", "X:1"]
    assert frame["comment"][5] == "was HP:5; label was Headache; bark" and frame["subject_label"][5] == "bark; ataxia"
    assert {(row, RELABELLED) for row in range(1, 9)} <= list_findings(renewal)
    assert renewal.report.filter(pl.col("row") == 6)["now_id"].to_list() == [None]


def test_nothing_of_an_older_link_stays_beside_a_new_one(new):
    mapping = make_set(("my:1", "Ataxia", None, "HP:404", "Gone", None), ("my:2", "zzz", None, "HP:404", "Gone", None))
    old = {"linked_how": "vectors", "linked_second": "HP:9 Nine", "linked_side": "left"}
    frame = mapping.frame.with_columns(pl.lit(text).alias(name) for name, text in old.items())
    frame = renew_mapping(new, mapping._replace(frame=frame)).mapping.frame
    assert frame["linked_how"].to_list() == ["name", None] and frame["linked_side"].null_count() == 2
    assert "HP:9 Nine" not in frame["linked_second"].to_list()


SUBJECTS = st.sampled_from([("my:1", "Ataxia"), ("my:2", "Headaches"), (None, "zzz"), (None, "Bark")])
OBJECTS = st.sampled_from([None, NO_TERM, "HP:1", "HP:22", "HP:3", "HP:404", "HP:6"])
ROWS = st.tuples(SUBJECTS, st.sampled_from([None, "Not"]), OBJECTS, st.sampled_from([None, MANUAL]))


@given(st.lists(ROWS, max_size=6))
def test_rows_are_never_lost_and_decided_ones_only_follow_their_target(new, rows):
    mapping = make_set(*((*subject, modifier, id_, None, why) for subject, modifier, id_, why in rows))
    renewal = renew_mapping(new, mapping)
    subjects = [subject for subject, *_ in rows]
    assert renewal.mapping.frame.select("subject_id", "subject_label").rows() == subjects
    ids = renewal.mapping.frame["object_id"].to_list()
    written = set()
    for (subject, modifier, id_, _), now in zip(rows, ids, strict=True):
        others = [other for other in rows if other[0] == subject]
        # Whether another row, or this one, says what the subject is.
        is_mapped = any(other[1] is None and (other[3] or other[2] in ("HP:1", "HP:22", "HP:6")) for other in others)
        if modifier or is_mapped or subject in written:
            assert now == ("HP:11" if id_ == "HP:1" and not modifier else id_)
            continue
        written.add(subject)
        best = {"Ataxia": "HP:22", "Headaches": "HP:6", "Bark": "HP:5"}.get(subject[1], NO_TERM)
        is_rejected = any(other[1] and other[2] == best for other in others)
        nothing = id_ if id_ is None else NO_TERM
        assert now == (nothing if is_rejected or best == NO_TERM else best)


def test_targets_of_other_sources_and_subjects_without_a_label_stay(new):
    mapping = make_set(("my:1", "Ataxia", None, "LOINC:1-8", "x", None), ("my:2", None, None, "HP:404", None, None))
    renewal = renew_mapping(new, mapping)
    assert list_findings(renewal) == {(1, FOREIGN), (2, UNKNOWN)}
    assert renewal.mapping.frame["object_id"].to_list() == ["LOINC:1-8", "HP:404"]


def test_the_report_is_a_table_and_json(new, tmp_path):
    mapping = make_set(("my:1", "=1+2", None, "HP:1", "Seizure", None))
    renewal = renew_mapping(new, mapping)
    write_findings(renewal, path := tmp_path / "a_report.csv")
    table = pl.read_csv(path)
    assert table.columns == [*REPORT_COLUMNS] and table["subject_label"][0] == "'=1+2"
    data = json.loads((tmp_path / "a_report.json").read_text())
    assert data["counts"] == {REPLACED: 1} and data["findings"][0]["subject_label"] == "=1+2"
    empty = renew_mapping(new, make_set())
    assert not empty.mapping.frame.height and not empty.counts
