"""Vocabularies: MEDIC, CTD, and snapshots of SNOMED CT, whose releases and editions are not mixed."""

import gzip

import pytest
from corpus_originals import SNOMED_DATE, concept, convert, counts, description, names, snomed_table, write

from training.corpora.convert import convert_corpus
from training.corpora.vocabularies import (
    CONCEPTS,
    DESCRIPTIONS,
    FULLY_SPECIFIED,
    GB_ENGLISH,
    LANGUAGES,
    MODULES,
    US_ENGLISH,
)


def test_vocabularies(tmp_path):
    medic = "D1||Toe Ache|Sore toe|Toe Ache\r\n77|D2||Salt want\r\nC||Odd, one\r\n"
    data = convert(tmp_path, "medic", {"toy_medic.txt": medic})
    assert names(tmp_path) == [("D1", "Toe Ache"), ("D1", "Sore toe"), ("77|D2", "Salt want"), ("C", "Odd, one")]
    assert counts(data, "left_out") == {"names that a concept has twice": 1}
    assert counts(data, "odd") == {"ids without a digit": 1}
    header = "# toy\n# Fields:\n# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tSynonyms\n#\n"
    ctd = "Toe Ache\tMESH:D1\tDO:DOID:5|OMIM:77\tIt aches.\tSore toe|Bad toe\nSalt want\tOMIM:8\n"
    convert(tmp_path, "ctd", {"CTD_diseases.tsv.gz": gzip.compress((header + ctd).encode())})
    joined = "D1|DOID:5|77"
    assert names(tmp_path) == [(joined, "Toe Ache"), (joined, "Sore toe"), (joined, "Bad toe"), ("8", "Salt want")]
    with pytest.raises(ValueError, match="line 1: 3 fields for 0 columns"):
        convert_corpus("ctd", write(tmp_path / "bare", {"CTD_diseases.tsv": ctd[:17]}), tmp_path / "out")
    with pytest.raises(ValueError, match="The dictionary is there twice: CTD_chemicals.*CTD_diseases"):
        convert(tmp_path, "ctd", {"CTD_chemicals.tsv": header})


CONCEPT_FILE = f"Snapshot/Terminology/sct2_Concept_Snapshot_INT_{SNOMED_DATE}.txt"
DESCRIPTION_FILE = f"Snapshot/Terminology/sct2_Description_Snapshot-en_INT_{SNOMED_DATE}.txt"
LANGUAGE_FILE = f"Snapshot/Refset/Language/der2_cRefset_LanguageSnapshot-en_INT_{SNOMED_DATE}.txt"
DEFINITION = "900000000000550004"


def accepts(id_, description_id, *, active=1, refset=US_ENGLISH):
    return id_, SNOMED_DATE, active, MODULES[0], refset, description_id, "900000000000549004"


CONCEPT_ROWS = [concept(22298006), concept(1001, date="20020131"), concept(7, active=0)]
DESCRIPTION_ROWS = [
    description(1, 22298006, "Heart attack"),
    description(2, 22298006, "Myocardial infarction (disorder)", kind=FULLY_SPECIFIED),
    description(3, 1001, 'Sore "toe'),
    description(4, 1001, "Old toe", active=0),
    description(5, 7, "Retired ache"),
    description(6, 22298006, "Infarto", language="es"),
    description(8, 22298006, "An infarct is ...", kind=DEFINITION),
    description(9, 22298006, "Heart attack"),
    description(10, 1001, "Sore toe (finding)", kind=FULLY_SPECIFIED, module="731000124108"),
    description(11, 1001, "Toe, NEC\u2028of colour"),
]
LANGUAGE_ROWS = [accepts("a", 1), accepts("b", 2), accepts("c", 3, active=0), accepts("d", 10)]
LANGUAGE_ROWS.append(accepts("e", 11, refset=GB_ENGLISH))


def release(**changed):
    files = {
        CONCEPT_FILE: snomed_table(CONCEPTS, CONCEPT_ROWS),
        DESCRIPTION_FILE: snomed_table(DESCRIPTIONS, DESCRIPTION_ROWS),
        LANGUAGE_FILE: snomed_table(LANGUAGES, LANGUAGE_ROWS),
        f"Full/Terminology/sct2_Description_Full-en_INT_{SNOMED_DATE}.txt": "not read",
        f"Snapshot/Terminology/sct2_TextDefinition_Snapshot-en_INT_{SNOMED_DATE}.txt": "not read",
    }
    return {name: text for name, text in (files | changed).items() if text is not None}


def test_active_english_names_of_active_concepts(tmp_path):
    data = convert(tmp_path, "snomed", release())
    assert names(tmp_path) == [
        ("1001", "Sore toe (finding)"),
        ("1001", 'Sore "toe'),
        ("1001", "Toe, NEC of colour"),
        ("22298006", "Myocardial infarction (disorder)"),
        ("22298006", "Heart attack"),
    ]
    assert counts(data, "left_out") == {
        "inactive descriptions": 1,
        "descriptions of inactive concepts": 1,
        "descriptions in another language than English": 1,
        "descriptions that are neither a fully specified name nor a synonym": 1,
        "names that a concept has twice": 1,
    }
    assert counts(data, "odd") == {
        "stray files, not read": 2,
        "names of a module that the International edition has not": 1,
    }
    assert data["dictionaries"]["dictionary"] == {"concepts": 2, "names": 5, "distinct_names": 5}
    assert [entry["name"] for entry in data["releases"].values()] == ["SNOMED CT INT 20190731"]


def test_only_what_a_language_reference_set_accepts(tmp_path):
    data = convert(tmp_path, "snomed-us", release())
    kept = ["Sore toe (finding)", "Myocardial infarction (disorder)", "Heart attack"]
    assert [name for _, name in names(tmp_path)] == kept
    assert counts(data, "left_out")["descriptions that the language reference set does not accept"] == 3
    assert [entry["name"] for entry in data["releases"].values()] == ["SNOMED CT INT 20190731 (US English)"]
    with pytest.raises(ValueError, match="not all the files.*der2_cRefset_LanguageSnapshot"):
        convert(tmp_path / "other", "snomed-us", release(**{LANGUAGE_FILE: None}))


OLD_DESCRIPTIONS = DESCRIPTION_FILE.replace(SNOMED_DATE, "20190131")
US_CONCEPTS = CONCEPT_FILE.replace("INT", "US1000124")
TWO_DATES = snomed_table(DESCRIPTIONS, [*DESCRIPTION_ROWS, description(3, 1001, "x", date="20200131")])
TWICE = snomed_table(DESCRIPTIONS, [*DESCRIPTION_ROWS, description(4, 1001, "Old toe")])


@pytest.mark.parametrize(
    "changed, message",
    [
        # File names of two releases, and of two editions.
        ({DESCRIPTION_FILE: None, OLD_DESCRIPTIONS: snomed_table(DESCRIPTIONS, [])}, "edition.*20190731.*20190131"),
        ({CONCEPT_FILE: None, US_CONCEPTS: snomed_table(CONCEPTS, [])}, "edition.*INT.*US1000124|US1000124.*INT"),
        # Two releases in one file, and concepts of an earlier release.
        ({DESCRIPTION_FILE: TWO_DATES}, "edition.*20200131"),
        ({DESCRIPTION_FILE: TWICE}, "edition.*the id 4.*twice"),
        ({CONCEPT_FILE: snomed_table(CONCEPTS, CONCEPT_ROWS[1:])}, "edition.*line 2: the concept 22298006 is not in"),
        ({CONCEPT_FILE: None}, "not all the files.*sct2_Concept_Snapshot"),
        (
            {DESCRIPTION_FILE.replace("Snapshot/", "Copy/"): snomed_table(DESCRIPTIONS, [])},
            "Description_Snapshot is there twice",
        ),
    ],
)
def test_releases_and_editions_are_not_mixed(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        convert(tmp_path, "snomed", release(**changed), errors="skip")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "row, reason",
    [
        ("1\t2\t3", "3 fields for 9 columns"),
        (description(20, 1001, "x", active="true"), "active is 'true'"),
        (description(20, 1001, "x", date="31.7.2019"), "effectiveTime is '31.7.2019'"),
        (description(20, "1.0E+3", "x"), "conceptId is '1.0E[+]3'"),
        (description(20, 1001, " "), "an empty name"),
    ],
)
def test_malformed_rows_are_refused_or_counted(tmp_path, row, reason):
    line = row if isinstance(row, str) else "\t".join(map(str, row))
    files = release(**{DESCRIPTION_FILE: snomed_table(DESCRIPTIONS, DESCRIPTION_ROWS) + line + "\r\n"})
    with pytest.raises(ValueError, match=f"line 12: {reason}"):
        convert(tmp_path, "snomed", files)
    data = convert(tmp_path, "snomed", files, errors="skip")
    assert counts(data, "left_out")["malformed"] == 1 and len(names(tmp_path)) == 5


def test_other_columns_and_an_old_file_under_a_new_name(tmp_path):
    columns = snomed_table(DESCRIPTIONS, []).replace("term", "name")
    with pytest.raises(ValueError, match="line 1: other columns.*conceptId, languageCode"):
        convert(tmp_path, "snomed", release(**{DESCRIPTION_FILE: columns}))
    old = [(id_, "20190131", *rest) for id_, _, *rest in CONCEPT_ROWS]
    packed = {CONCEPT_FILE: None, f"{CONCEPT_FILE}.gz": gzip.compress(snomed_table(CONCEPTS, old).encode())}
    data = convert(tmp_path / "again", "snomed", release(**packed))
    assert counts(data, "odd")["snapshots without a row of the day of their release"] == 1
