"""Mappings of OMOP and of Usagi: read, and written as SOURCE_TO_CONCEPT_MAP."""

import polars as pl
import pytest
from annotated_texts import HEADER
from conftest import build_terminology

from spacy_sapbert.exchange.concept_maps import SOURCE_MAP, read_mapping, write_source_map
from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.exchange.omop import AthenaTables
from spacy_sapbert.tables.mapping import MANUAL, NO_TERM, MappingSet, complete_frame, is_decided

CONCEPTS = (
    "260427\tCommon cold\tCondition\tSNOMED\tDisorder\tS\t82272006\n"
    "255848\tPneumonia\tCondition\tSNOMED\tDisorder\tS\t233604007\n"
    "45571668\tAcute nasopharyngitis\tCondition\tICD10CM\t3-char\t\tJ00\n"
)
RELATIONS = "concept_id_1\tconcept_id_2\trelationship_id\tinvalid_reason\n45571668\t260427\tMaps to\t\n"
USAGI = """sourceCode,sourceName,sourceFrequency,ADD_INFO:x,matchScore,mappingStatus,equivalence,statusSetBy,\
statusSetOn,conceptId,conceptName,domainId,mappingType,comment,createdBy,createdOn,assignedReviewer
J00,"Cold, common",10,a,0.93,APPROVED,EQUAL,Ann,1767225600000,260427,Common cold,Condition,MAPS_TO,ok,Ann,1,
J18,Lung thing,3,b,0.41,UNCHECKED,UNREVIEWED,,0,255848,Pneumonia,Condition,MAPS_TO,,<auto>,1,
J18.1,Lobar,3,b,0.6,APPROVED,WIDER,Bob,1767225600000,255848,Pneumonia,Condition,MAPS_TO,,Bob,1,
Z00,Nothing,1,c,0,IGNORED,UNREVIEWED,Ann,1767225600000,0,,,MAPS_TO,,,,
Z01,Open,1,c,0,UNCHECKED,UNREVIEWED,,,0,,,MAPS_TO,,,,
"""
SOURCE = f"""{",".join(SOURCE_MAP)}
J00,0,Own codes,Cold,260427,SNOMED,2020-01-01,2099-12-31,
J18,0,Own codes,Lung,255848,SNOMED,2020-01-01,2021-12-31,D
J19,0,Own codes,Odd,0,None,2020-01-01,2099-12-31,
"""


@pytest.fixture
def athena(tmp_path):
    (tmp_path / "CONCEPT.csv").write_text(HEADER + CONCEPTS, encoding="utf8")
    (tmp_path / "CONCEPT_RELATIONSHIP.csv").write_text(RELATIONS, encoding="utf8")
    return AthenaTables(tmp_path / "CONCEPT.csv", tmp_path / "CONCEPT_RELATIONSHIP.csv")


def read(tmp_path, text, **options):
    (path := tmp_path / "old.csv").write_text(text, encoding="utf8")
    return read_mapping(path, **options)


def test_mappings_of_usagi_are_read(tmp_path, athena):
    frame = read(tmp_path, USAGI, subject_prefix="own", athena=athena).frame
    assert frame["subject_id"].to_list() == ["own:J00", "own:J18", "own:J18.1", "own:Z00", "own:Z01"]
    cold, lung = "SNOMED:82272006", "SNOMED:233604007"
    assert frame["object_id"].to_list() == [cold, lung, lung, None, None]
    predicates = ["skos:exactMatch", "skos:closeMatch", "skos:broadMatch", None, None]
    assert frame["predicate_id"].to_list() == predicates
    assert frame.select(is_decided()).to_series().to_list() == [True, False, True, True, False]
    assert frame.select("reviewer_label", "review_date", "confidence", "mapping_justification").row(0) == (
        "Ann",
        "2026-01-01",
        "0.93",
        MANUAL,
    )
    # Nothing of the file is lost.
    assert frame["ADD_INFO:x"].to_list() == [*"abbcc"] and frame["assignedReviewer"].null_count() == 5
    with pytest.raises(ValueError, match="--subject-prefix"):
        read(tmp_path, USAGI)
    assert read(tmp_path, USAGI, subject_prefix="own").frame["object_id"][0] == "OMOP:260427"


def test_a_source_map_is_read(tmp_path, athena):
    frame = read(tmp_path, SOURCE, athena=athena).frame
    assert frame["subject_id"].to_list() == ["Own_codes:J00", "Own_codes:J18", "Own_codes:J19"]
    assert frame["object_id"].to_list() == ["SNOMED:82272006", "SNOMED:233604007", None]
    assert frame["predicate_modifier"].to_list() == [None, "Not", None] and frame["invalid_reason"][1] == "D"
    with pytest.raises(ValueError, match="'x1' in the column 'target_concept_id'"):
        read(tmp_path, SOURCE.replace("260427", "x1"))


def test_linked_tables_are_read_as_they_were_before_they_were_written(tmp_path):
    header = (
        "label,linked_id,linked_name,linked_match,linked_score,linked_how,linked_note,linked_others,linked_context,n"
    )
    mapping = read(tmp_path, f"{header}\n=a,HP:1,'=Name,'=Name,0.5,name,,'-1 x,,7\n")
    row = mapping.frame.select("subject_label", "object_label", "linked_others", "n").row(0)
    assert row == ("=a", "=Name", "-1 x", "7")
    with pytest.raises(ValueError, match="is no mapping"):
        read(tmp_path, "a,b\n1,2\n")


def make_set(*rows):
    names = ("subject_id", "subject_label", "object_id", "predicate_modifier", "review_date")
    return MappingSet(complete_frame(pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")), {})


def test_a_source_map_has_standard_concepts(tmp_path, athena):
    mapping = make_set(
        ("own:1", "Cold", "SNOMED:82272006", None, "2026-03-01"),
        ("own:2%203", "Cold too", "ICD10CM:J00", None, None),
        ("own:3", "By its code", "UMLS:C0009443", None, None),
        ("own:4", "By its id", "OMOP:255848", None, None),
        ("own:5", "Rejected", "OMOP:255848", "Not", None),
        ("own:6", "Nothing", NO_TERM, None, None),
        ("own:7", "Unknown", "HP:1", None, None),
        ("own:8", "By an id that is not standard", "OMOP:45571668", None, None),
        ("own:9", "Several", "OMOP:255848", None, None),
        ("own:9", "Several", "OMOP:260427", None, None),
        ("own:9", "Several", NO_TERM, None, None),
        (None, "Label", "OMOP:255848", None, None),
        (None, "L" * 51, "OMOP:255848", None, None),
    )
    terminology = build_terminology([("C0009443", "cold")], codes={"C0009443": ["SNOMEDCT_US:82272006"]})
    report, path = ExchangeReport(), tmp_path / "map.csv"
    data = write_source_map(mapping, path, athena, report, terminology=terminology)
    rows = pl.read_csv(path, schema_overrides={"source_code": pl.String})
    assert rows.columns == [*SOURCE_MAP]
    codes = rows.select("source_code", "target_concept_id", "target_vocabulary_id", "valid_start_date").rows()
    assert codes == [
        ("1", 260427, "SNOMED", "2026-03-01"),
        ("2 3", 260427, "SNOMED", "1970-01-01"),
        ("3", 260427, "SNOMED", "1970-01-01"),
        ("4", 255848, "SNOMED", "1970-01-01"),
        ("6", 0, "None", "1970-01-01"),
        ("7", 0, "None", "1970-01-01"),
        ("8", 260427, "SNOMED", "1970-01-01"),
        ("9", 255848, "SNOMED", "1970-01-01"),
        ("9", 260427, "SNOMED", "1970-01-01"),
    ]
    assert set(rows["source_vocabulary_id"]) == {"own"} and rows["invalid_reason"].null_count() == 9
    assert data["counts"] == {"rows": 9, "rows with a concept": 7}
    assert sum(kind["count"] for kind in data["left_out"].values()) == 2 and len(data["odd"]) == 1
    write_source_map(mapping, path, athena, ExchangeReport(), source_vocabulary="Mine")
    assert pl.read_csv(path)["source_code"][-1] == "Label"
    with pytest.raises(ValueError, match="at most 20"):
        write_source_map(mapping, path, athena, ExchangeReport(), source_vocabulary="x" * 21)


def test_what_was_written_is_read_back(tmp_path, athena):
    mapping = make_set(("own:1", "Cold", "SNOMED:82272006", None, None), ("own:2", "None", NO_TERM, None, None))
    write_source_map(mapping, path := tmp_path / "map.csv", athena, ExchangeReport())
    back = read_mapping(path, athena=athena).frame
    assert back["subject_id"].to_list() == ["own:1", "own:2"] and back["object_id"].to_list() == [
        "SNOMED:82272006",
        None,
    ]
