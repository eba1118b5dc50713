"""Dictionaries that are given for a corpus: which release they are of, and when published figures stand beside."""

import gzip
import json

import pytest
from corpus_originals import convert, write
from rrf_files import atom, rrf_line, write_release
from typer.testing import CliRunner

from spacy_sapbert.terminology.readers.rrf import read_rrf
from training.cli import app
from training.cli.measures import CORPORA
from training.evaluation.corpora.listing import read_corpora, read_names, read_task
from training.evaluation.folder import read_evaluation
from training.evaluation.tasks import make_tasks

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
    release = write_release(folder / "rrf", MRCONSO=ATOMS, MRREL=[], **({"MRDOC": rows} if version else {}))
    read_rrf(release, **{"languages": None, "tradenames": "off", **settings}).to_disk(folder / "names")
    return str(folder / "names")


def make_corpora(folder):
    write(
        folder,
        {
            "medmentions/test.jsonl": MENTIONS % "C0000002",
            "medmentions/dictionary.tsv": "C0000009\tOther\topen\n",
            "bc5cdr_chemical/test.jsonl": MENTIONS % "D012965",
            **{f"bc5cdr_chemical/{part}.jsonl": '{"mention": "NaCl", "ids": ["D012965"]}' for part in ("train", "dev")},
            "cometa/test.jsonl": MENTIONS % "22222",
        },
    )
    return folder


def describe(folder, **given):
    found, missing = read_corpora(CORPORA, folder, **given)
    return {name: task.describe() for name, task in make_tasks(found, {}).items()}, missing


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
def test_figures_stand_beside_names_of_their_release(tmp_path, version, said, settings, is_published, remark):
    folder = make_corpora(tmp_path)
    given = {"dictionaries": {"medmentions": umls(tmp_path, version, **settings)}}
    described, _ = describe(folder, **given, releases={"medmentions": said} if said else {})
    task = described["medmentions.strict"]
    # The protocol counts names, whatever the release.
    assert (task.is_published, task.level) == (is_published, "row")
    assert task.note.endswith(remark) and bool(task.note) == bool(remark)
    assert task.unanswerable == 0 and task.names == (3 if "sources" in settings else 5)
    # Names in other languages than English are left out.
    assert task.report["names"] == task.names
    if version or said:
        assert version in task.dictionary


def test_two_releases_of_one_dictionary_are_refused(tmp_path):
    folder, names = make_corpora(tmp_path), umls(tmp_path, "2020AB")
    with pytest.raises(ValueError, match=r"E757.*medmentions.*UMLS 2017AA.*names was made of UMLS 2020AB"):
        describe(folder, dictionaries={"medmentions": names}, releases={"medmentions": "UMLS 2017AA"})
    with pytest.raises(FileNotFoundError, match="Can't find the file.*nowhere"):
        describe(folder, dictionaries={"medmentions": str(tmp_path / "nowhere")})
    for option in ("dictionaries", "releases"):
        for name in ("medmention", "ncbi_disease"):
            with pytest.raises(ValueError, match=rf"E756.*--{option}.*{name!r}.*bc5cdr_chemical, medmentions, cometa"):
                describe(folder, **{option: {name: names}})


def test_codes_of_a_source_are_the_ids_of_a_terminology(tmp_path):
    folder, names = make_corpora(tmp_path), umls(tmp_path)
    given = dict.fromkeys(("bc5cdr_chemical", "cometa"), names)
    found, _ = read_corpora(CORPORA, folder, dictionaries=given)
    # A concept with two codes has either id, and concepts without one have no names here.
    salt = "D012965|C000001"
    expected = [("D009203", "Heart attack"), (salt, "Salt"), (salt, "Table salt"), (salt, "Salt of old")]
    assert sorted(read_names(found["bc5cdr_chemical"])) == sorted(expected)
    assert [joined for joined, _ in read_names(found["cometa"])] == ["22222"] * 3
    assert read_task(found["bc5cdr_chemical"]).report["unanswerable"] == 0
    described, _ = describe(folder, dictionaries=given)
    task = described["bc5cdr_chemical.published"]
    assert not task.is_published and task.note == "Published figures search CTD 2019-11-04, and this is UMLS 2017AA."


def test_a_converted_dictionary_knows_its_release_until_it_is_replaced(tmp_path):
    folder = make_corpora(tmp_path)
    data = convert(tmp_path / "ctd", "ctd", {"CTD_chemicals.tsv": f"{CTD}Salt\tMESH:D012965\n"})
    assert data["releases"]["dictionary"]["name"] == "CTD 2019-10-31"
    dictionary = tmp_path / "ctd" / "out" / "dictionary.tsv.gz"
    given = {"dictionaries": {"bc5cdr_chemical": str(dictionary)}}
    task = describe(folder, **given)[0]["bc5cdr_chemical.published"]
    assert task.dictionary == "CTD 2019-10-31" and task.note.endswith("and this is CTD 2019-10-31.")
    assert not task.is_published and not describe(folder, **given)[0]["bc5cdr_chemical.refined"].is_comparable
    same_day = CTD.replace("Thu Oct 31", "Mon Nov  4")
    convert(tmp_path / "ctd", "ctd", {"CTD_chemicals.tsv": f"{same_day}Salt\tMESH:D012965\n"})
    described, _ = describe(folder, **given)
    assert described["bc5cdr_chemical.published"].is_published and not described["bc5cdr_chemical.strict"].is_published
    assert described["bc5cdr_chemical.refined"].is_comparable
    dictionary.write_bytes(gzip.compress(b"D012965\tSalt\nD1\tOther\n"))
    (dictionary.parent / "other.json").write_text("no JSON")
    assert "is not known" in describe(folder, **given)[0]["bc5cdr_chemical.published"].note
    said = describe(folder, **given, releases={"bc5cdr_chemical": "CTD 2019-11-04"})[0]
    assert said["bc5cdr_chemical.published"].is_published


def test_the_report_shows_figures_beside_the_right_dictionary_only(tmp_path):
    folder = make_corpora(tmp_path / "corpora")
    (tmp_path / "systems.cfg").write_text(
        '[systems]\n\n[systems.exact]\nkind = "exact"\npublished = "PubMedBERT + SapBERT"\n'
    )

    def run(*options):
        command = ["evaluate", str(tmp_path / "systems.cfg"), str(tmp_path / "out"), "--benchmarks", str(folder)]
        result = CliRunner().invoke(app, [*command, *options])
        if result.exception:
            raise result.exception
        return (tmp_path / "out" / "report.md").read_text(encoding="utf8").partition("# Published figures")[0]

    for version, is_right in [("2017AA", True), ("2020AA", False)]:
        text = run("--dictionaries", f"medmentions={umls(tmp_path / version, version)}")
        # 50.8 at 1 and 74.4 at 5: table 1 of SapBERT.
        assert ("50.8" in text and "74.4" in text) == is_right
        assert ("Published figures search UMLS 2017AA, and this is UMLS 2020AA" in text) == (not is_right)
        task = read_evaluation(tmp_path / "out").tasks["medmentions.strict"]
        assert task.dictionary == f"UMLS {version}"
    with pytest.raises(ValueError, match="E758.*--releases.*CORPUS=RELEASE"):
        run("--releases", "UMLS 2017AA")
    with pytest.raises(ValueError, match="E758.*'medmentions=b'.*--dictionaries"):
        run("--dictionaries", "medmentions=a,medmentions=b")


def test_cometa_is_measured_on_a_snapshot(tmp_path):
    """All four splits, as their authors hand them out, and the snapshot, through the commands."""
    header = "ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\tExample\n"
    lines = "1\tsore toe\tx\t1001\tx\t1002\tA sore toe.\n2\thammer toe\tx\t1001\tx\t7\tMy hammer toe.\n"
    files = {
        f"cometa/{kind}_{level}/{part}.csv": header + lines
        for kind in ("stratified", "zeroshot")
        for level in ("general", "specific")
        for part in ("train", "dev", "test")
    }
    concepts = "id\teffectiveTime\tactive\tmoduleId\tdefinitionStatusId\n"
    descriptions = "id\teffectiveTime\tactive\tmoduleId\tconceptId\tlanguageCode\ttypeId\tterm\tcaseSignificanceId\n"
    for number, active in [(1001, 1), (1002, 1), (7, 0)]:
        concepts += f"{number}\t20190731\t{active}\t900000000000207008\t1\n"
        name = {1001: "Sore toe", 1002: "Sore big toe", 7: "Hammer toe"}[number]
        row = f"{number + 1}\t20190731\t1\t900000000000207008\t{number}\ten\t900000000000013009\t{name}\t1\n"
        descriptions += row
    files["snomed/sct2_Concept_Snapshot_INT_20190731.txt"] = concepts
    files["snomed/sct2_Description_Snapshot-en_INT_20190731.txt"] = descriptions
    write(tmp_path / "assets", files)
    (tmp_path / "systems.cfg").write_text('[systems]\n\n[systems.exact]\nkind = "exact"\n')
    for command in [
        ["convert-corpora", str(tmp_path / "assets"), str(tmp_path / "corpora")],
        ["evaluate", str(tmp_path / "systems.cfg"), str(tmp_path / "out"), "--benchmarks", str(tmp_path / "corpora")],
    ]:
        result = CliRunner().invoke(app, command)
        assert not result.exception, result.exception
    evaluation = read_evaluation(tmp_path / "out")
    shares = {row.task.removesuffix(".strict"): row.figures["acc_at_1"] for row in evaluation.rows}
    # "sore toe" is the general concept; the name of the inactive one is not searched.
    assert shares == {
        "cometa": 0.5,
        "cometa_zeroshot": 0.5,
        "cometa_specific": 0.0,
        "cometa_zeroshot_specific": 0.0,
    }
    tasks = {name.removesuffix(".strict"): task for name, task in evaluation.tasks.items()}
    assert {name for name, task in tasks.items() if task.is_published} == {"cometa", "cometa_zeroshot"}
    assert {task.dictionary for task in tasks.values()} == {"SNOMED CT INT 20190731"}
    assert tasks["cometa_specific"].unanswerable == 1
    assert json.loads((tmp_path / "corpora" / "cometa" / "snomed.json").read_text())["left_out"]
