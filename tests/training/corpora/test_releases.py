"""Dictionaries that are given for a corpus: which release they are of, and when published figures stand beside."""

import gzip
import json

import pytest
from command_line import run_command
from corpus_originals import COMETA_HEADER, SNOMED_DATE, concept, convert, description, snomed_table, write
from rrf_files import atom, rrf_line, write_release

from spacy_sapbert.terminology.readers.rrf import read_rrf
from training.cli.convert import ORIGINALS
from training.corpora.listing import read_corpora, read_dictionary_names, read_task
from training.corpora.vocabularies import CONCEPTS, DESCRIPTIONS

CORPORA = ORIGINALS.with_name("corpora.cfg")
ATOMS = [
    atom("C0000001", "Heart attack", SAB="MSH", CODE="D009203"),
    atom("C0000001", "Infarto", LAT="SPA", SAB="MSH", CODE="D009203"),
    atom("C0000002", "Salt", SAB="MSH", CODE="D012965"),
    atom("C0000002", "Table salt", SAB="SNOMEDCT_US", CODE="22222"),
    atom("C0000002", "Salt of old", SAB="MSH", CODE="C000001"),
    atom("C0000003", "Toe", SAB="HPO", CODE="HP:3"),
]
CTD = "# Report created: Thu Oct 31 14:52:40 EDT 2019\n# Fields:\n# ChemicalName\tChemicalID\n"
MENTIONS = '{"mention": "salt", "ids": ["%s"]}\n'


def umls(folder, version="2017AA", **settings):
    """Read a made-up release, and save its names."""
    rows = [rrf_line("MRDOC", DOCKEY="RELEASE", VALUE="umls.release.name", TYPE="release_info", EXPL=version)]
    release = write_release(
        folder / "rrf", MRCONSO=ATOMS, MRREL=[rrf_line("MRREL")], **({"MRDOC": rows} if version else {})
    )
    read_rrf(release, **{"languages": None, "tradenames": "off", **settings}).to_disk(folder / "names")
    return str(folder / "names")


@pytest.fixture
def folder(tmp_path):
    files = {f"bc5cdr_chemical/{part}.jsonl": MENTIONS % "D012965" for part in ("train", "dev", "test")}
    files |= {"medmentions/test.jsonl": MENTIONS % "C0000002", "medmentions/dictionary.tsv": "C0000009\tOther\topen\n"}
    return write(tmp_path, {**files, "cometa/test.jsonl": MENTIONS % "22222"})


@pytest.mark.parametrize(
    "version, said, settings, is_published, remark",
    [
        ("2017AA", "", {}, True, ""),
        ("", "umls  2017aa", {}, True, ""),
        ("2020AB", "", {}, False, "Published figures search UMLS 2017AA, and this is UMLS 2020AB."),
        ("", "", {}, False, "search UMLS 2017AA, and the release of these names is not known."),
        ("2017AA", "", {"sources": ["MSH"]}, False, 'and this is UMLS 2017AA, read with sources = ["MSH"].'),
        ("2017AA", "", {"tradenames": "union"}, False, 'this is UMLS 2017AA, read with tradenames = "union".'),
    ],
)
def test_figures_stand_beside_names_of_their_release(folder, version, said, settings, is_published, remark):
    given = {"dictionaries": {"medmentions": umls(folder, version, **settings)}}
    found, _ = read_corpora(CORPORA, folder, **given, releases={"medmentions": said} if said else {})
    corpus = found["medmentions"]
    said_of_it = corpus.other_release
    assert corpus.has_published_names == is_published
    assert said_of_it.endswith(remark) and bool(said_of_it) == bool(remark)
    # The protocol counts names, whatever the release. Names in other languages than English are left out.
    task = read_task(corpus, protocol=corpus.published)
    assert task.level == "row" and task.report["unanswerable"] == 0
    assert task.report["names"] == (3 if "sources" in settings else 5)
    assert not (version or said) or version in corpus.names_from


def test_two_releases_of_one_dictionary_are_refused(folder):
    names = umls(folder, "2020AB")
    with pytest.raises(ValueError, match=r"medmentions is said to be UMLS 2017AA.*names was made of UMLS 2020AB"):
        given = {"dictionaries": {"medmentions": names}, "releases": {"medmentions": "UMLS 2017AA"}}
        read_corpora(CORPORA, folder, **given)
    with pytest.raises(FileNotFoundError, match="Can't find the file.*nowhere"):
        read_corpora(CORPORA, folder, dictionaries={"medmentions": str(folder / "nowhere")})
    for option in ("dictionaries", "releases"):
        for name in ("medmention", "ncbi_disease"):
            with pytest.raises(ValueError, match=rf"`{option}`.*{name!r}.*bc5cdr_chemical, medmentions, cometa"):
                read_corpora(CORPORA, folder, **{option: {name: names}})


def test_codes_of_a_source_are_the_ids_of_a_terminology(folder):
    given = dict.fromkeys(("bc5cdr_chemical", "cometa"), umls(folder))
    found, _ = read_corpora(CORPORA, folder, dictionaries=given)
    # A concept with two codes has either id, and concepts without one have no names here.
    salt = "D012965|C000001"
    expected = [("D009203", "Heart attack"), (salt, "Salt"), (salt, "Table salt"), (salt, "Salt of old")]
    chemicals = found["bc5cdr_chemical"]
    assert sorted(read_dictionary_names(chemicals)) == sorted(expected)
    assert [joined for joined, _ in read_dictionary_names(found["cometa"])] == ["22222"] * 3
    assert read_task(chemicals).report["unanswerable"] == 0 and not chemicals.has_published_names
    said = "Published figures search CTD 2019-11-04, and this is UMLS 2017AA."
    assert chemicals.other_release == said


def test_a_converted_dictionary_knows_its_release_until_it_is_replaced(folder, tmp_path):
    dictionary = tmp_path / "ctd" / "out" / "dictionary.tsv.gz"

    def read(**given):
        dictionaries = {"bc5cdr_chemical": str(dictionary)}
        return read_corpora(CORPORA, folder, dictionaries=dictionaries, **given)[0]["bc5cdr_chemical"]

    data = convert(tmp_path / "ctd", "ctd", {"CTD_chemicals.tsv": f"{CTD}Salt\tMESH:D012965\n"})
    assert data["releases"]["dictionary"]["name"] == "CTD 2019-10-31"
    assert read().names_from == "CTD 2019-10-31" and not read().has_published_names
    same_day = CTD.replace("Thu Oct 31", "Mon Nov  4")
    convert(tmp_path / "ctd", "ctd", {"CTD_chemicals.tsv": f"{same_day}Salt\tMESH:D012965\n"})
    assert read().has_published_names
    dictionary.write_bytes(gzip.compress(b"D012965\tSalt\nD1\tOther\n"))
    write(dictionary.parent, {"other.json": "no JSON", "list.json": "[]"})
    assert "is not known" in read().other_release
    assert read(releases={"bc5cdr_chemical": "CTD 2019-11-04"}).has_published_names


def test_cometa_is_read_with_a_snapshot(tmp_path):
    """All four splits, as their authors hand them out, and the snapshot, through the command."""
    lines = "1\tsore toe\tx\t1001\tx\t1002\tA sore toe.\n2\thammer toe\tx\t1001\tx\t7\tMy hammer toe.\n"
    splits = [f"{kind}_{level}" for kind in ("stratified", "zeroshot") for level in ("general", "specific")]
    files = {
        f"cometa/{split}/{part}.csv": COMETA_HEADER + lines for split in splits for part in ("train", "dev", "test")
    }
    rows = [(1001, 1, "Sore toe"), (1002, 1, "Sore big toe"), (7, 0, "Hammer toe")]
    concepts = [concept(number, active) for number, active, _ in rows]
    descriptions = [description(number + 1, number, name) for number, _, name in rows]
    files[f"snomed/sct2_Concept_Snapshot_INT_{SNOMED_DATE}.txt"] = snomed_table(CONCEPTS, concepts)
    files[f"snomed/sct2_Description_Snapshot-en_INT_{SNOMED_DATE}.txt"] = snomed_table(DESCRIPTIONS, descriptions)
    write(tmp_path / "assets", files)
    run_command("convert", "all", tmp_path / "assets", tmp_path / "corpora")
    found, _ = read_corpora(CORPORA, tmp_path / "corpora")
    general, specific = ["cometa", "cometa_zeroshot"], ["cometa_specific", "cometa_zeroshot_specific"]
    assert sorted(found) == sorted(general + specific)
    assert {corpus.names_from for corpus in found.values()} == {"SNOMED CT INT 20190731"}
    published = {name for name, corpus in found.items() if corpus.published and corpus.has_published_names}
    assert published == set(general)
    tasks = {name: read_task(corpus) for name, corpus in found.items()}
    # The name of the inactive concept is not searched.
    assert all(task.names == ["Sore toe", "Sore big toe"] for task in tasks.values())
    assert [tasks[name].report["unanswerable"] for name in general + specific] == [0, 0, 1, 1]
    assert json.loads((tmp_path / "corpora" / "cometa" / "snomed.json").read_text())["left_out"]
