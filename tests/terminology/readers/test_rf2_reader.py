"""The reader of SNOMED CT against a plain loop over rows, and on every fault that a folder can have."""

import re
import shutil

import pytest
import rf2_files as rf2
from hypothesis import given
from hypothesis import strategies as st
from rf2_files import Release

from spacy_sapbert.exchange.fhir import CodeFinder
from spacy_sapbert.terminology import TerminologyBuilder, merge, read_rf2
from spacy_sapbert.terminology.readers.rf2 import FILE_NAME
from spacy_sapbert.text import normalize_name

ROOT, ASTHMA, EDEMA, ATTACK, SPANISH = "404684003", "195967001", "267038008", "708090002", "448879004"


def make_release():
    release = Release()
    release.concept("138875005", "SNOMED CT Concept (SNOMED RT+CTV3)", "SNOMED CT Concept")
    release.concept(ROOT, "Clinical finding (finding)", "Clinical finding", parents=["138875005"])
    release.concept(ASTHMA, "Asthma (disorder)", "Asthma", 'Bronchial "asthma', parents=[ROOT])
    release.concept(EDEMA, "Edema (finding)", "Edema", parents=[ROOT])
    release.name("2670380089", EDEMA, "Oedema", rf2.GB)
    release.concept(ATTACK, "Attack (severe) of asthma (disorder)", "Severe asthma attack", parents=[ASTHMA, ROOT])
    release.name("5555555", ROOT, "臨床所見（所見）", languageCode="ja", typeId=rf2.FSN)
    release.add("TextDefinition", conceptId=ASTHMA, term="Narrow airways.", typeId=rf2.DEFINITION)
    return release


def names_of(terminology):
    return {id_: terminology[id_].names for id_ in terminology.concepts["id"]}


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_a_release_becomes_a_terminology(tmp_path, ending):
    terminology = read_rf2(make_release().write(tmp_path, ending=ending))
    asthma = terminology[ASTHMA]
    assert asthma.names == ("Asthma", 'Bronchial "asthma') and asthma.canonical_name == "Asthma"
    assert asthma.types == ("disorder",) and asthma.definition == "Narrow airways." and asthma.parents == (ROOT,)
    # Only the last brackets are the tag.
    assert terminology[ATTACK].names == ("Severe asthma attack", "Attack (severe) of asthma")
    assert terminology[ATTACK].types == ("disorder",) and terminology[ATTACK].parents == (ASTHMA, ROOT)
    rows = terminology.names_of(terminology.row(ATTACK)).to_polars().drop("concept").rows()
    assert rows == [
        ("Severe asthma attack", "ENG", "SNOMEDCT_US", "PT", True),
        ("Attack (severe) of asthma", "ENG", "SNOMEDCT_US", "FN", False),
    ]
    assert terminology[ROOT].names == ("Clinical finding", "臨床所見") and terminology[ROOT].types == ("finding",)
    report = terminology.report
    assert report["source_version"] == "INT 20260101" and len(report["files"]) == 6
    assert report["read"]["sct2_Concept_Snapshot_INT_20260101.txt"] == 5
    assert report["sources"]["SNOMEDCT_US"]["restriction_level"] == 9


def test_other_terminologies_and_exports_know_its_codes(tmp_path):
    snomed, builder = read_rf2(make_release().write(tmp_path)), TerminologyBuilder()
    builder.add_concept("C0004096", codes=[f"SNOMEDCT_US:{ASTHMA}"])
    builder.add_name("C0004096", "airway disease", source="MSH")
    merged = merge([builder.build(), snomed])
    assert merged["C0004096"].names == ("airway disease", "Asthma", 'Bronchial "asthma')
    [code] = CodeFinder(snomed)._list(ASTHMA, ASTHMA, "")
    assert (code.source, code.code, code.display) == ("SNOMEDCT_US", ASTHMA, "Asthma")


def test_only_active_rows_count(tmp_path):
    release = make_release()
    release.concept("111111111", "Gone (disorder)", "Gone", active="0")
    release.name("2222222", ASTHMA, "Old name", rf2.US, active="0")
    release.add("Relationship", sourceId=ASTHMA, destinationId="138875005", typeId=rf2.IS_A, active="0")
    release.add("Relationship", sourceId=ASTHMA, destinationId=EDEMA, typeId="363698007")
    release.name("3333333", ASTHMA, "Wheezing disease")
    release.add(
        "Language", refsetId=rf2.US, referencedComponentId="3333333", acceptabilityId=rf2.PREFERRED, id="z", active="0"
    )
    release.add("TextDefinition", conceptId=EDEMA, term="Old definition.", typeId=rf2.DEFINITION, active="0")
    release.concept("555555555")
    terminology = read_rf2(release.write(tmp_path))
    assert terminology[ASTHMA].names == ("Asthma", 'Bronchial "asthma', "Wheezing disease")
    assert terminology[ASTHMA].parents == (ROOT,) and terminology[EDEMA].definition is None
    assert "111111111" not in terminology and "555555555" not in terminology
    dropped = terminology.report["dropped"]
    counts = {"retired_concepts": 1, "inactive_names": 2, "names_of_retired_concepts": 2, "concepts_without_names": 1}
    assert {reason: dropped[reason] for reason in counts} == counts


def test_preferred_terms_follow_the_dialect_and_languages_the_setting(tmp_path):
    release = make_release()
    release.name("4444444", EDEMA, "edema (hallazgo)", languageCode="es", typeId=rf2.FSN)
    release.name("4444445", EDEMA, "hinchazón", SPANISH, languageCode="es")
    release.name("4444446", EDEMA, "tumefacción", languageCode="es")
    release.add("Language", refsetId=SPANISH, referencedComponentId="4444446", acceptabilityId=rf2.ACCEPTABLE)
    release.concept(SPANISH, "Spanish language reference set (foundation metadata concept)")
    folder = release.write(tmp_path, Description="-en-GB", Language="-es-ES")

    def read(**settings):
        terminology = read_rf2(folder, **settings)
        names = terminology.names_of(terminology.row(EDEMA)).to_polars().filter("preferred")
        return terminology[EDEMA].canonical_name, set(names["name"]), terminology[EDEMA].types

    assert read() == ("Edema", {"Edema", "Oedema", "hinchazón"}, ("finding",))
    assert read(dialects=["en-GB"]) == ("Oedema", {"Oedema"}, ("finding",))
    assert read(dialects=[SPANISH, "en-US"]) == ("hinchazón", {"hinchazón", "Edema"}, ("finding",))
    assert read(languages=["SPA"]) == ("hinchazón", {"hinchazón"}, ("finding",))
    assert set(read_rf2(folder, languages=["SPA"])[EDEMA].names) == {"edema", "hinchazón", "tumefacción"}
    with pytest.raises(ValueError, match="names no language 'spa'. Those it has are: .*SPA"):
        read(languages=["spa"])
    with pytest.warns(UserWarning, match="names no language 'GER', 'spa'. Those it has are: .*SPA.*read without them"):
        assert read(languages=["GER", "spa", "SPA"])[0] == "hinchazón"
    with pytest.raises(ValueError, match=rf"no language reference set 'es'. .*{SPANISH} \(Spanish language reference"):
        read(dialects=["es"])
    (american := Release()).concept(EDEMA, "Edema (finding)", "Edema")
    with pytest.raises(ValueError, match=r"no language reference set 'en-GB'\. Those it has are: en-US\."):
        read_rf2(american.write(tmp_path / "american"), dialects=["en-GB"])


def test_only_safe_associations_replace_a_retired_concept(tmp_path):
    release = make_release()
    cases = {
        "100000001": ([(rf2.SAME_AS, ASTHMA)], ASTHMA, []),
        "100000002": ([(rf2.REPLACED_BY, "100000001")], ASTHMA, []),
        "100000003": ([(rf2.POSSIBLY, ASTHMA), (rf2.POSSIBLY, EDEMA)], None, [ASTHMA, EDEMA]),
        "100000004": ([(rf2.MOVED_TO, ROOT), (rf2.WAS_A, ROOT)], None, []),
        "100000005": ([(rf2.REPLACED_BY, ASTHMA), (rf2.SAME_AS, EDEMA)], None, [ASTHMA, EDEMA]),
        "100000006": ([], None, []),
    }
    for id_, (associations, _, _) in cases.items():
        release.concept(id_, f"Old {id_} (disorder)", active="0")
        for refset, other in associations:
            release.associate(refset, id_, other)
    release.associate(rf2.SAME_AS, "100000006", ASTHMA, active="0")
    release.associate(rf2.SAME_AS, EDEMA, ASTHMA)
    terminology = read_rf2(release.write(tmp_path))
    consider = dict(terminology.retired.select("id", "consider").rows())
    assert consider == {id_: of for id_, (_, _, of) in cases.items()}
    assert {id_: terminology.find_id(id_) for id_ in cases} == {id_: now for id_, (_, now, _) in cases.items()}
    # One that is in use is not retired.
    assert terminology.find_id(EDEMA) == EDEMA


def test_an_extension_is_read_with_its_edition(tmp_path):
    extension = Release(first_id=900_000)
    extension.concept("1000001000124", "Local asthma (disorder)", "Local asthma", parents=[ASTHMA])
    # Newer than the row of the edition, whose other version has another date.
    extension.add("Concept", id=EDEMA, effectiveTime="20260301", active="0")
    extension.add("Description", id=f"{ASTHMA}2", conceptId=ASTHMA, term="Old name", effectiveTime="20200101")
    extension.write(tmp_path / "us", owner="US1000124", date="20260301")
    with pytest.warns(UserWarning, match="1 of 1 parents are not .*An extension needs the edition"):
        read_rf2(tmp_path / "us")
    make_release().write(tmp_path / "int")
    terminology = read_rf2(tmp_path)
    assert terminology["1000001000124"].parents == (ASTHMA,) and EDEMA in terminology.retired["id"]
    assert terminology[ASTHMA].names == ("Asthma", 'Bronchial "asthma')
    assert terminology.report["source_version"] == "INT 20260101, US1000124 20260301"


NAMES = {
    "sct2_Concept_Snapshot_INT_20260101.txt": ("Concept", "Snapshot", "INT"),
    "xsct2_Concept_Snapshot_INT_20260101.txt": ("Concept", "Snapshot", "INT"),
    "sct2_Description_UKCLSnapshot-en_GB1000000_20230802.txt": ("Description", "Snapshot", "GB1000000"),
    "sct2_Description_Full-en-GB_GB1000000_20150401.txt": ("Description", "Full", "GB1000000"),
    "sct2_TextDefinition_Snapshot-nl_NL1000146_20240930.txt": ("TextDefinition", "Snapshot", "NL1000146"),
    "sct2_Description_SpanishExtensionSnapshot-es_INT_20231031.txt": ("Description", "Snapshot", "INT"),
    "sct2_Relationship_MONOSnapshot_GB_20230802.txt.gz": ("Relationship", "Snapshot", "GB"),
    "sct2_Relationship_Delta_INT_20260101.txt": ("Relationship", "Delta", "INT"),
    "der2_cRefset_LanguageSnapshot-en_US1000124_20260301.txt": ("Language", "Snapshot", "US1000124"),
    "der2_cRefset_UKCLLanguageSnapshot-en_GB1000000_20230802.txt": ("Language", "Snapshot", "GB1000000"),
    "der2_cRefset_AssociationReferenceSnapshot_INT_20170731.txt": ("Association", "Snapshot", "INT"),
    # Of packages of extensions, with the date in other places.
    "sct2_Concept_Snapshot_ExtensionA_20180931.txt": ("Concept", "Snapshot", "ExtensionA"),
    "xsct2_Description_Snapshot-en_Extension-B2_20180930.txt.gz": ("Description", "Snapshot", "Extension-B2"),
    "xder2_cRefset_LanguageSnapshot-en_ExtensionA_20180930.txt": ("Language", "Snapshot", "ExtensionA"),
    "sct2_Concept_Snapshot_20180930_ExtensionA.txt": ("Concept", "Snapshot", "ExtensionA"),
    "sct2_Concept_20180930_Snapshot_ExtensionA.txt": ("Concept", "Snapshot", "ExtensionA"),
    "sct2_Concept_Snapshot_20180930.txt": ("Concept", "Snapshot", None),
    "der2_cRefset_AssociationSnapshot_20180930_INT.txt": ("Association", "Snapshot", "INT"),
    "sct2_StatedRelationship_Snapshot_20180131_INT.txt": None,
    "sct2_Concept_Snapshot_INT_20260101_copy.txt": None,
    "sct2_Concept_Snapshot_INT_202601.txt": None,
    "sct2_StatedRelationship_Snapshot_INT_20180131.txt": None,
    "sct2_RelationshipConcreteValues_Snapshot_INT_20260101.txt": None,
    "sct2_Identifier_Snapshot_INT_20260101.txt": None,
    "der2_cRefset_AttributeValueSnapshot_INT_20260101.txt": None,
    "der2_ciRefset_DescriptionTypeSnapshot_INT_20260101.txt": None,
    "._sct2_Concept_Snapshot_INT_20260101.txt": None,
    "sct2_Concept_Snapshot.txt": None,
}


@pytest.mark.parametrize("name, expected", NAMES.items())
def test_files_are_known_by_the_names_of_the_specification(name, expected):
    found = FILE_NAME.fullmatch(name)
    assert (found and (found["component"] or found["refset"], found["type"], found["owner"])) == expected


def change(pattern, old, new):
    """Make a fault: replace bytes of one file."""

    def make(folder):
        [path] = folder.rglob(pattern)
        assert old in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(old, new, 1))

    return make


def remove(pattern):
    return lambda folder: [path.unlink() for path in folder.rglob(pattern)]


def write_again(**how):
    return lambda folder: make_release().write(folder, **how)


def only(type_):
    def make(folder):
        shutil.rmtree(folder)
        make_release().write(folder, type=type_)

    return make


def repeat_file(folder):
    shutil.copytree(folder / "Snapshot", folder / "copy")


def rename(pattern, old, new):
    def make(folder):
        for path in folder.rglob(pattern):
            path.rename(path.with_name(path.name.replace(old, new)))

    return make


def redate(folder):
    [path] = folder.rglob("sct2_Description*")
    path.rename(path.with_name(path.name.replace("20260101", "20250701")))


FAULTS = [
    (remove("*.txt"), "There is no file sct2_Concept_Snapshot_.* Unpack a release"),
    (lambda folder: shutil.rmtree(folder), "There is no folder .* Unpack a release"),
    (remove("sct2_Desc*"), "There is no file sct2_Description_Snapshot_.* Unpack a release"),
    (only("Full"), r"holds a Full or Delta release \(der2_cRefset.*Give the folder of the Snapshot"),
    (only("Delta"), r"holds a Full or Delta release \(der2_cRefset.*Give the folder of the Snapshot"),
    (redate, "files of two releases, or of two dates.*: INT 20250701, INT 20260101. Leave one release there"),
    (write_again(date="20250701"), "files of two releases.*: INT 20250701, INT 20260101. Leave one release there"),
    (repeat_file, "a file twice: INT 20260101. Leave one release there.* Such files are Snap.*txt, copy.*txt"),
    (rename("sct2_Concept*", "_20260101", ""), "There is no file sct2_Concept_.*, but sct2_Concept_Snapshot_INT.txt"),
    (change("sct2_Concept*", b"active", b"aktiv"), "Concept.*has no column 'active'.*as it was released"),
    (change("sct2_Concept*", b"\t", b","), "Concept.*has no column 'id', but.*as it was released"),
    (change("sct2_Concept*", ASTHMA.encode(), b"1.96E+08"), "'1.96E[+]08'.*but ids have 6 to 18 digits"),
    (change("sct2_Concept*", b"\t1\t", b"\tTRUE\t"), "that is active 'TRUE', but .*active is 0 or 1"),
    (change("sct2_Concept*", ASTHMA.encode(), ROOT.encode()), f"several rows with the id {ROOT}, as a Full"),
]


@pytest.mark.parametrize("fault, message", FAULTS)
def test_each_fault_of_a_folder_has_one_sentence(tmp_path, fault, message):
    folder = make_release().write(tmp_path / "release")
    fault(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as raised:
        read_rf2(folder)
    assert "\n" not in str(raised.value)


def test_an_extension_with_other_names_of_files_is_read_with_its_edition(tmp_path):
    extension = Release(first_id=900_000)
    extension.concept("1000001000124", "Local asthma (disorder)", "Local asthma", parents=[ASTHMA])
    folder = extension.write(tmp_path / "a" / "b", owner="ExtensionA", date="20180931")
    rename("*sct2_*", "Snapshot_ExtensionA_20180931", "Snapshot_20180931_ExtensionA")(folder)
    make_release().write(tmp_path / "int")
    terminology = read_rf2(tmp_path)
    assert terminology["1000001000124"].parents == (ASTHMA,)
    assert terminology.report["source_version"] == "ExtensionA 20180931, INT 20260101"


def test_an_extension_without_an_owner_of_its_own_has_its_own_date(tmp_path):
    folder = make_release().write(tmp_path)
    [path] = folder.rglob("sct2_Description*")
    extension = folder / "sct2_Description_SpanishExtensionSnapshot-es_INT_20260131.txt"
    extension.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert read_rf2(folder).report["source_version"] == "INT 20260101, INT 20260131"


MALFORMED = [
    (b"Narrow", b"Nar\trow", "10 fields were found, but there are 9 columns"),
    (b"\tNarrow airways.", b"", "8 fields were found, but there are 9 columns"),
    (b"Narrow", b"N\xe4rrow", "the byte 0xe4 .* is not UTF-8"),
]


@pytest.mark.parametrize("old, new, reason", MALFORMED)
def test_malformed_rows_are_refused_with_their_line_or_counted(tmp_path, old, new, reason):
    folder = make_release().write(tmp_path)
    change("sct2_Text*", old, new)(folder)
    with pytest.raises(ValueError, match=f"sct2_TextDefinition.*txt, line 2: {reason}"):
        read_rf2(folder)
    with pytest.warns(UserWarning, match="1 malformed"):
        terminology = read_rf2(folder, errors="skip")
    assert terminology[ASTHMA].definition is None and terminology.report["dropped"]["malformed"] == 1
    assert re.search(reason, terminology.report["malformed_examples"][0])


MISSING = [("Relationship", "parents"), ("Language", "preferred names"), ("Association", "successors of retired")]


@pytest.mark.parametrize("kind, lack", MISSING)
def test_a_lack_is_told_and_full_files_beside_a_snapshot_are_not_read(tmp_path, kind, lack):
    folder = make_release().write(tmp_path)
    make_release().write(tmp_path, type="Full")
    remove(f"*{kind}*Snapshot*")(folder)
    with pytest.warns(UserWarning, match=f"has no {kind} file, so the terminology is without {lack}"):
        terminology = read_rf2(folder)
    name = "Attack (severe) of asthma" if kind == "Language" else "Severe asthma attack"
    assert terminology[ATTACK].canonical_name == name


terms = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\t\n\r"), max_size=6)
descriptions = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.booleans(),
        st.booleans(),
        terms,
        st.sampled_from(["", "(x)", " (y z)", "(a(b))", "（w）"]),
    ),
    min_size=1,
)


@pytest.mark.filterwarnings("ignore:.*An extension needs")
@given(descriptions, st.sets(st.integers(1, 4)), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4))))
def test_what_a_loop_over_rows_finds(tmp_path, descriptions, retired, relations):
    """A plain loop finds the same names, types and parents, also where terms have quotes and brackets."""
    release, names, types = Release(), {}, {}
    release.concept("999999", "Always there (top)")
    for number in range(1, 5):
        release.add("Concept", id=f"{number}00000", active="0" if number in retired else "1")
    for place, (number, is_active, is_full, text, tag) in enumerate(descriptions):
        id_, term = f"{number}00000", f"{text}{tag}"
        kind = rf2.FSN if is_full else rf2.SYNONYM
        release.name(f"{1000000 + place}", id_, term, active="01"[is_active], typeId=kind)
        if not is_active or number in retired:
            continue
        if is_full and (found := re.fullmatch(r"(.*\S)\s*[(（]([^()（）]+)[)）]\s*", term)):
            term = found[1]
            types.setdefault(id_, [found[2]])
        if normalize_name(term):
            names.setdefault(id_, set()).add(normalize_name(term))
    for child, parent in set(relations):
        release.add("Relationship", sourceId=f"{child}00000", destinationId=f"{parent}00000", typeId=rf2.IS_A)
    shutil.rmtree(tmp_path / "release", ignore_errors=True)
    terminology = read_rf2(release.write(tmp_path / "release"))
    found = {id_: set(of) for id_, of in names_of(terminology).items() if id_ != "999999"}
    assert found == names
    assert {id_: terminology[id_].types for id_ in names} == {id_: (*types.get(id_, ()),) for id_ in names}
    expected = {id_: {f"{b}00000" for a, b in relations if f"{a}00000" == id_ and a != b} for id_ in names}
    assert {id_: set(terminology[id_].parents) for id_ in names} == expected
