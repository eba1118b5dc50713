"""The reader of Athena's files against a plain loop over rows, and on what its settings and faults do."""

import pytest
from athena_files import Download
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.terminology import Terminology, read_athena, read_table
from spacy_sapbert.terminology.readers.athena import make_athena_reader

INFARCT, OLD, ANTERIOR, DISEASE, CODE = "312327", "999", "434376", "4274025", "45591453"
SPANISH, GERMAN, KLINGON = "4182511", "4182504", "12345"


def make_download():
    download = Download()
    download.concept(DISEASE, "Disease")
    download.concept(INFARCT, 'Acute "heart" attack', code="57054005")
    download.concept(ANTERIOR, "Acute anterior infarction")
    download.concept(OLD, "Heart attack, old", code="1", invalid="U")
    download.concept(CODE, "Infarction", vocabulary_id="ICD10CM", standard_concept="", code="I21")
    download.synonym(INFARCT, "NA")
    download.synonym(INFARCT, "Infarto", SPANISH)
    download.synonym(INFARCT, "Acute MI")
    download.relate(ANTERIOR, "Is a", INFARCT)
    download.relate(INFARCT, "Is a", DISEASE)
    download.relate(DISEASE, "Subsumes", INFARCT)
    download.relate(OLD, "Maps to", INFARCT)
    download.relate(CODE, "Maps to", INFARCT)
    for id_, name, version in (("SNOMED", "SNOMED CT", "2025-02"), ("None", "OMOP", "v5.0 27-AUG-25")):
        fields = {"vocabulary_id": id_, "vocabulary_name": name, "vocabulary_version": version}
        download.add("VOCABULARY", **fields)
    return download


def names_of(terminology):
    return {id_: terminology[id_].names for id_ in terminology.concepts["id"]}


def list_retired(terminology):
    return {id_: (successor, consider) for id_, successor, consider in terminology.retired.to_polars().iter_rows()}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_download_becomes_a_terminology(tmp_path, ending):
    terminology = make_athena_reader(str(make_download().write(tmp_path, ending=ending)))()
    infarct = terminology[INFARCT]
    assert infarct.names == ('Acute "heart" attack', "NA", "Acute MI", "Infarto")
    assert infarct.canonical_name == 'Acute "heart" attack' and infarct.types == ("Condition",)
    assert infarct.codes == ("SNOMED:57054005",) and infarct.parents == (DISEASE,)
    rows = terminology.names_of(terminology.row(INFARCT)).to_polars().drop("concept").rows()
    assert rows[0] == ('Acute "heart" attack', "ENG", "SNOMED", "Disorder", True)
    assert rows[-1] == ("Infarto", "SPA", "SNOMED", "", False)
    assert terminology[ANTERIOR].parents == (INFARCT,) and terminology[DISEASE].parents == ()
    assert terminology[CODE].codes == ("ICD10CM:I21",)
    assert [terminology.find_id(id_) for id_ in (OLD, "SNOMED:1", "ICD10CM:I21")] == [INFARCT, INFARCT, None]
    report = terminology.report
    assert len(report["files"]) == 4 and report["read"]["CONCEPT.csv"] == 5
    assert report["source_version"] == "v5.0 27-AUG-25" and report["dropped"]["invalid_concepts"] == 1
    assert report["sources"]["SNOMED"]["version"] == "2025-02" and "None" not in report["sources"]


def test_concepts_alone_are_as_the_table_says(tmp_path):
    folder = make_download().write(tmp_path, leave_out=["CONCEPT_SYNONYM", "CONCEPT_RELATIONSHIP", "VOCABULARY"])
    with pytest.warns(UserWarning, match=r"has no CONCEPT_\w+\.csv, so the terminology is without") as caught:
        terminology = read_athena(folder)
    assert len(caught) == 2
    table = read_table(folder / "CONCEPT.csv")
    assert terminology.concepts.equals(table.concepts) and names_of(terminology) == names_of(table)
    assert list_retired(terminology) == {OLD: (None, [])}


def test_synonyms_that_no_concept_can_have_are_counted(tmp_path):
    download = make_download()
    download.synonym(OLD, "old")
    download.synonym("5", "of nothing")
    download.synonym(INFARCT, "Acute MI")
    for name in ("Herzinfarkt", "Infarkt"):
        download.synonym(INFARCT, name, GERMAN)
    for name in ("'oy'", "joy"):
        download.synonym(INFARCT, name, KLINGON)
    download.synonym(ANTERIOR, "joy", "0")
    terminology = read_athena(download.write(tmp_path))
    assert terminology[INFARCT].names[-3:] == ("Infarto", "Herzinfarkt", "Infarkt")
    dropped = terminology.report["dropped"]
    reasons = ("synonyms_of_invalid_concepts", "synonyms_of_other_concepts", "synonyms_in_unknown_languages")
    assert [dropped[reason] for reason in (*reasons, "duplicate_names")] == [1, 1, 3, 1]
    assert terminology.report["unknown_languages"] == {KLINGON: 2, "0": 1}
    german = read_athena(tmp_path, languages=["GER"])
    assert names_of(german) == {INFARCT: ("Herzinfarkt", "Infarkt")}
    with pytest.raises(ValueError, match="names no language 'DE'. Those it has are: .*GER"):
        read_athena(tmp_path, languages=["DE"])


@cases("athena_retired")
def test_what_took_the_place_of_a_concept(tmp_path, relations, successor, consider):
    """1 and 2 are valid, 3 and 4 are not; 3 is asked for."""
    download = Download()
    for id_, invalid in (("1", ""), ("2", ""), ("3", "U"), ("4", "D")):
        download.concept(id_, f"name {id_}", invalid=invalid)
    for first, relation, second, *invalid in (text.split("/") for text in relations):
        download.relate(first, relation, second, *invalid)
    retired = list_retired(read_athena(download.write(tmp_path)))
    for id_ in ("3", "SNOMED:K3") if successor or consider else ("3",):
        assert retired[id_] == (successor or None, consider)
    assert ("SNOMED:K3" in retired) == bool(successor or consider)


def test_a_code_that_a_valid_concept_has_stays_its_own(tmp_path):
    download = Download()
    for id_, vocabulary, code, invalid in (
        ("1", "SNOMED", "A", ""),
        ("2", "SNOMED", "B", ""),
        ("3", "SNOMED", "A", "U"),
        ("4", "ICD10", "A", "U"),
        ("5", "ICD10", "C", "D"),
        ("6", "ICD10", "C", "D"),
        ("7", "ICD10", "", "D"),
    ):
        domain = "Drug" if id_ == "2" else "Condition"
        fields = {"vocabulary_id": vocabulary, "domain_id": domain}
        download.concept(id_, f"name {id_}", code=code, invalid=invalid, **fields)
    for first, second in (("3", "2"), ("4", "2"), ("5", "1"), ("6", "2"), ("7", "1")):
        download.relate(first, "Maps to", second)
    terminology = read_athena(download.write(tmp_path))
    retired = list_retired(terminology)
    assert {id_: retired[id_] for id_ in retired if ":" in id_} == {"ICD10:A": ("2", []), "ICD10:C": (None, ["1", "2"])}
    assert terminology.report["dropped"]["retired_codes_of_valid_concepts"] == 1
    assert terminology["1"].codes == ("SNOMED:A",) and terminology["2"].codes == ("SNOMED:B",)
    assert list_retired(read_athena(tmp_path, vocabularies=["SNOMED"])) == {"3": ("2", [])}
    # That the settings leave a concept out does not make its code free.
    drugs = list_retired(read_athena(tmp_path, domains=["Drug"]))
    assert drugs["3"] == drugs["ICD10:A"] == ("2", []) and "SNOMED:A" not in drugs
    terminology.to_disk(tmp_path / "saved")
    assert list_retired(Terminology.from_disk(tmp_path / "saved")) == retired


def test_settings_choose_concepts(tmp_path):
    download = make_download()
    download.concept("7", "Aspirin", domain_id="Drug", vocabulary_id="RxNorm")
    download.relate("7", "Is a", DISEASE)
    folder = download.write(tmp_path)
    ids = {
        ("vocabularies", "ICD10CM"): {CODE},
        ("domains", "Drug"): {"7"},
        ("standard_only", True): {DISEASE, INFARCT, ANTERIOR, "7"},
    }
    for (setting, value), expected in ids.items():
        terminology = read_athena(folder, **{setting: value if value is True else [value]})
        assert set(terminology.concepts["id"]) == expected
    drugs = read_athena(folder, domains=["Drug"])
    assert drugs["7"].parents == () and drugs.report["dropped"]["parents_that_are_left_out"] == 1
    assert drugs.report["dropped"]["domain"] == 4 and list_retired(drugs) == {OLD: (None, [])}
    for setting, what in (("vocabularies", "vocabulary"), ("domains", "domain")):
        with pytest.raises(ValueError, match=f"CONCEPT.csv names no {what} 'drug'. Those it has are: .*"):
            read_athena(folder, **{setting: ["drug"]})
    with pytest.warns(UserWarning, match="names no vocabulary 'MeSH'. Those it has are: ICD10CM, RxNorm, SNOMED"):
        assert len(read_athena(folder, vocabularies=["MeSH", "RxNorm"])) == 1
    with pytest.raises(ValueError, match="The terminology is empty"):
        read_athena(folder, vocabularies=["ICD10CM"], standard_only=True)


@cases("athena_refusals")
def test_files_that_are_not_as_athena_hands_them_out(tmp_path, file, old, new, message):
    folder = make_download().write(tmp_path)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=f"{file}.*{message}"):
        read_athena(folder)


def test_malformed_rows_can_be_skipped(tmp_path):
    folder = make_download().write(tmp_path)
    with (folder / "CONCEPT_SYNONYM.csv").open("ab") as file:
        file.write(f"{INFARCT}\ta\tb\t4180186\n{INFARCT}\tcafé\t4180186\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"CONCEPT_SYNONYM\.csv, line 5: 4 fields"):
        read_athena(folder)
    with pytest.warns(UserWarning, match="2 malformed records"):
        terminology = read_athena(folder, errors="skip")
    assert terminology.report["dropped"]["malformed"] == 2 and len(terminology[INFARCT].names) == 4


def test_a_folder_without_concepts_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=r"no CONCEPT\.csv in .*Unpack the download from Athena"):
            read_athena(path)


IDS = st.sampled_from("123456")
ROWS = st.tuples(st.sampled_from("AB"), st.sampled_from("xyz"), st.sampled_from(["", "", "D", "U"]))
LINKS = st.tuples(
    IDS,
    st.sampled_from(["Is a", "Maps to", "Concept replaced by", "Subsumes"]),
    IDS,
    st.sampled_from(["", "", "D"]),
)
SYNONYMS = st.tuples(IDS, st.sampled_from(["p", "q"]), st.sampled_from(["4180186", SPANISH, KLINGON]))


def read_plainly(concepts, links, synonyms):
    """Read rows one by one: names, parents and retired ids."""
    valid = {id_ for id_, (_, _, invalid) in concepts.items() if not invalid}
    names = {id_: [f"name {id_}"] for id_ in sorted(valid)}
    for wanted in ("4180186", SPANISH):
        for id_, name, language in synonyms:
            if id_ in valid and language == wanted:
                names[id_].append(name)
    links = [link[:3] for link in links if not link[3]]
    parents = {id_: [] for id_ in valid}
    for first, relation, second in links:
        if relation == "Is a" and {first, second} <= valid and first != second:
            parents[first].append(second)
    codes = {concepts[id_][:2] for id_ in valid}
    retired = {}
    for id_ in concepts.keys() - valid:
        ends = {kind: [c for a, b, c in links if (a, b) == (id_, kind) and c in valid] for _, kind, _ in links}
        ends = ends.get("Concept replaced by") or ends.get("Maps to") or []
        retired.setdefault(id_, set()).update(ends)
        if ends and concepts[id_][:2] not in codes:
            retired.setdefault(":".join(concepts[id_][:2]), set()).update(ends)
    return names, parents, retired


@given(st.dictionaries(IDS, ROWS, min_size=1), st.lists(LINKS), st.lists(SYNONYMS, max_size=6))
def test_rows_are_read_as_a_plain_loop_reads_them(tmp_path, concepts, links, synonyms):
    concepts = {**concepts, "6": ("A", "w", "")}
    download = Download()
    for id_, (vocabulary, code, invalid) in concepts.items():
        download.concept(id_, f"name {id_}", vocabulary_id=vocabulary, code=code, invalid=invalid)
    for link in links:
        download.relate(*link)
    for synonym in synonyms:
        download.synonym(*synonym)
    terminology = read_athena(download.write(tmp_path / "download"))
    names, parents, retired = read_plainly(concepts, links, synonyms)
    rows = terminology.names.select("concept", "name", "language").rows()
    assert len(rows) == len({*rows})
    assert {id_: {*of} for id_, of in names_of(terminology).items()} == {id_: {*of} for id_, of in names.items()}
    assert {id_: {*terminology[id_].parents} for id_ in names} == {id_: {*of} for id_, of in parents.items()}
    found = list_retired(terminology)
    assert found.keys() == retired.keys()
    for id_, (successor, consider) in found.items():
        assert {successor, *consider} - {None} == retired[id_] and (successor is None) == (len(retired[id_]) != 1)
