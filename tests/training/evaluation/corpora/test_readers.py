"""Original forms of corpora: what is read, what is left out and counted, what is refused and where."""

import gzip
import io
import tarfile
import zipfile

import pytest
from corpus_originals import PUBTATOR, convert, counts, id_lists, in_memory, names, pairs, rows, sentences, words, write
from hypothesis import given, settings
from hypothesis import strategies as st
from training.evaluation.corpora.readers import FORMATS, ReadingReport, convert_corpus, open_input
from training.evaluation.corpora.readers.biosyn import read_biosyn
from typer.testing import CliRunner

from training.cli import app


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[0-9]{1,8}", fullmatch=True),
        st.lists(st.tuples(st.lists(words, min_size=1, max_size=3), id_lists), max_size=3),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.tuples(id_lists, sentences), max_size=4),
)
def test_biosyn_round_trip(queries, dictionary):
    files = [
        in_memory(
            f"processed_test/{pmid}.concept",
            [f"{pmid}||{n}|{n + 4}||T||{'|'.join(parts)}||{'|'.join(ids)}" for n, (parts, ids) in enumerate(found)],
        )
        for pmid, found in queries.items()
    ]
    files.append(in_memory("test_dictionary.txt", [f"{'|'.join(ids)}||{name}" for ids, name in dictionary]))
    corpus = read_biosyn(files, ReadingReport())
    found = [(m.doc_id, m.start, m.end, m.text, m.parts, m.ids) for m in corpus.mentions["test"]]
    assert found == [
        (pmid, n, n + 4, "|".join(parts), parts if len(parts) > 1 else [], ids)
        for pmid, drawn in queries.items()
        for n, (parts, ids) in enumerate(drawn)
    ]
    assert corpus.dictionaries["dictionary_test"] == [("|".join(ids), name) for ids, name in dictionary]


BIOSYN = {
    "toy/processed_test/11.concept": "11||0|4||T||sore toes|sore feet||D1+D2\n11||5|9||T||salt||-1\n",
    "toy/processed_test/._11.concept": "litter",
    "toy/processed_dev/12.concept": "",
    "toy/test_dictionary.txt": "D1|77||sore toes\nD1|77||sore toes\nD4||salt\n",
}


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])
def test_biosyn_in_folders_and_archives(tmp_path, kind):
    path = tmp_path / f"in.{kind}"
    if kind == "folder":
        write(path, BIOSYN)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in BIOSYN.items():
                archive.writestr(name, text)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, text in BIOSYN.items():
                info = tarfile.TarInfo(name)
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text.encode()))
    data = convert_corpus("biosyn", path, tmp_path / "out")
    assert pairs(tmp_path, "test") == [("sore toes|sore feet", ["D1", "D2"])]
    assert rows(tmp_path, "test")[0]["parts"] == ["sore toes", "sore feet"]
    assert names(tmp_path, "dictionary_test") == [("D1|77", "sore toes"), ("D1|77", "sore toes"), ("D4", "salt")]
    assert data["left_out"]["mentions without an id in test"]["first"][0].endswith("line 2, document 11")
    assert data["parts"]["test"]["with_an_id_of_the_dictionary"] == 1 and data["odd"] == {}
    assert data["dictionaries"]["dictionary_test"] == {"concepts": 2, "names": 3, "distinct_names": 2}
    assert data["input"]["files"] == 3 and data["input"]["name"] == path.name


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
    with pytest.raises(ValueError, match="E701.*line 1: 3 fields for 0 columns"):
        convert_corpus("ctd", write(tmp_path / "bare", {"CTD_diseases.tsv": ctd[:17]}), tmp_path / "out")
    with pytest.raises(ValueError, match="E704.*CTD_chemicals.*CTD_diseases"):
        convert(tmp_path, "ctd", {"CTD_chemicals.tsv": header})


def test_askapatient(tmp_path):
    files = {f"AskAPatient.fold-{fold}.test.txt": "7\tToe ache\tmy toe\n" for fold in range(10)}
    files["AskAPatient.fold-3.test.txt"] = '8\tSjögren\t "empty" toe\n5\tSalt\tsalty\n7\tSore toe\ttoe\n'.encode(
        "latin-1"
    )
    files["AskAPatient.fold-30.test.txt"] = "9\tStray\tstray\n"
    data = convert(tmp_path, "askapatient", files)
    assert pairs(tmp_path, "fold3.test") == [('"empty" toe', ["8"]), ("salty", ["5"]), ("toe", ["7"])]
    assert names(tmp_path) == [("5", "Salt"), ("7", "Sore toe"), ("7", "Toe ache"), ("8", "Sjögren")]
    assert counts(data, "odd") == {
        "stray files, not read": 1,
        "not UTF-8, read as Latin-1": 1,
        "mentions with spaces around them, which are taken off": 1,
    }
    (tmp_path / "in" / "AskAPatient.fold-9.test.txt").unlink()
    with pytest.raises(ValueError, match="E705.*fold9.test"):
        convert_corpus("askapatient", tmp_path / "in", tmp_path / "out")


def test_folds_of_psytar(tmp_path):
    files = {}
    for fold in range(1, 6):
        files[f"fold_{fold}/standard.txt"] = "7\tToe ache\r\n8\tSalt want\r\n"
        files[f"fold_{fold}/test.txt"] = '7\t"my ""toe"", it aches"\r\n8\tmore salt\n'
        files[f"fold_{fold}/train.txt"] = "7\ttoes\r\n"
    files |= {"fold_6/test.txt": "7\tno fold\n", "README.md": "7\tno mention\n", "fold_2/notes.txt": "x"}
    data = convert(tmp_path, "psytar", files)
    assert pairs(tmp_path, "fold5.test") == [('my "toe", it aches', ["7"]), ("more salt", ["8"])]
    assert names(tmp_path) == [("7", "Toe ache"), ("8", "Salt want")]
    assert set(data["parts"]) == {f"fold{fold}.{part}" for fold in range(1, 6) for part in ("test", "train")}
    assert counts(data, "odd") == {"stray files, not read": 3, "files with line ends of two kinds": 5}
    with pytest.raises(ValueError, match="E701.*test.txt, line 1: quotation marks"):
        convert(tmp_path, "psytar", {"fold_1/test.txt": '7\t"open\n'})
    with pytest.raises(ValueError, match="E701.*line 1: an empty mention"):
        convert(tmp_path, "psytar", {"fold_1/test.txt": "7\t \n"})
    data = convert(
        tmp_path, "psytar", {"fold_1/test.txt": "9\ttoe\n", "fold_3/standard.txt": "9\tOther\n"}, errors="skip"
    )
    assert data["odd"]["folds with a dictionary of their own, joined with the others"]["count"] == 1
    assert ("9", "Other") in names(tmp_path)


GERMAN = "Das Salz, die\r\nblaue und große Zehe."
MANTRA = {
    "Toy/German/EMEA_ec22-cui-best_man/1.txt": GERMAN,
    "Toy/German/EMEA_ec22-cui-best_man/1.ann": (
        "T1\tC1 4 8\tSalz\n"
        '#1\tAnnotatorNotes T1\t"C1", "Salt", "Element" ,"CHEM"\n'
        "T2\tC2 4 8\tSalz\n"
        "T3\tC3 15 20;31 35\tblaue Zehe\n"
        '#3\tAnnotatorNotes T3\t"C3", "Blue toe", "DISO" ,"Finding"\n'
        "T4\tC4 10 20\tdie  blaue\n"
    ),
    "__MACOSX/Toy/German/EMEA_ec22-cui-best_man/._1.ann": "x",
}


def test_mantra_brat(tmp_path):
    data = convert(tmp_path, "mantra-brat", MANTRA)
    assert pairs(tmp_path, "de") == [("Salz", ["C1", "C2"]), ("die  blaue", ["C4"])]
    first = rows(tmp_path, "de")[0]
    assert first["doc_id"] == "EMEA/1" and first["type"] == "CHEM" and first["text"].endswith("Zehe.")
    assert rows(tmp_path, "de_discontinuous") == [
        {
            "mention": "blaue Zehe",
            "ids": ["C3"],
            "doc_id": "EMEA/1",
            "type": "DISO",
            "fragments": [[15, 20], [31, 35]],
        }
    ]
    single = [("Salz", ["C1"]), ("Salz", ["C2"]), ("blaue Zehe", ["C3"]), ("die  blaue", ["C4"])]
    assert pairs(tmp_path, "de_annotations") == single
    assert counts(data, "odd") == {
        "annotations joined with another one of the same span": 1,
        "mentions in several pieces, written to a part of their own": 1,
    }
    name = "Toy/German/EMEA_ec22-cui-best_man/2.ann"
    with pytest.raises(ValueError, match="E701.*2.ann: a text without annotations"):
        convert(tmp_path, "mantra-brat", {name: ""})
    with pytest.raises(ValueError, match="E701.*2.ann, line 1, document EMEA/2: the text at .*'Salz'.*'Zehe'"):
        convert(tmp_path, "mantra-brat", {name: "T1\tC1 4 8\tZehe\n", name[:-3] + "txt": GERMAN})
    with pytest.raises(ValueError, match="E701.*line 2, document EMEA/2: a second T1"):
        convert(tmp_path, "mantra-brat", {name: "T1\tC1 4 8\tSalz\nT1\tC2 4 8\tSalz\n"})


XML = """<?xml version="1.0" encoding="UTF-8"?>
<Corpus id="toy"><document id="d1"><unit id="d1.u1">
<text>Das Salz &amp; die blaue und große Zehe.</text>
<e id="e1" offset="4" len="4" cui="C1" grp="CHEM">Salz</e>
<e id="e2" offset="4" len="4" cui="C2" grp="CHEM">Salz</e>
<e id="e3" offset="15" len="20" cui="C3" grp="DISO">blaue Zehe</e>
</unit></document></Corpus>
"""


def test_mantra_xml(tmp_path):
    data = convert(tmp_path, "mantra-xml", {"EMEA_GSC_de_man.xml": XML})
    assert pairs(tmp_path, "de") == [("Salz", ["C1", "C2"])]
    assert rows(tmp_path, "de_discontinuous")[0]["fragments"] == [[15, 20], [31, 35]]
    assert pairs(tmp_path, "de_annotations") == [("Salz", ["C1"]), ("Salz", ["C2"]), ("blaue Zehe", ["C3"])]
    assert data["parts"]["de"]["documents"] == 1
    with pytest.raises(ValueError, match="E701.*line 4, document EMEA/d1.u1: the text at .*'Salz'"):
        convert(tmp_path, "mantra-xml", {"EMEA_GSC_de_man.xml": XML.replace(">Salz<", ">Salt<", 1)})
    with pytest.raises(ValueError, match="E701.*line 7: no well-formed XML"):
        convert(tmp_path, "mantra-xml", {"EMEA_GSC_de_man.xml": XML.replace("</unit>", "")})


def test_annotations_of_mantra_that_are_there_twice_are_counted(tmp_path):
    folder = "Toy/German/Medline_EN_DE_ec22-cui-best_man"
    files = {f"{folder}/1.txt": GERMAN, f"{folder}/1.ann": "T1\tC1 4 8\tSalz\nT2\tC1 4 8\tSalz\nT3\tC2 4 8\tSalz\n"}
    data = convert(tmp_path, "mantra-brat", files)
    assert pairs(tmp_path, "de_annotations") == [("Salz", ["C1"]), ("Salz", ["C1"]), ("Salz", ["C2"])]
    assert counts(data, "odd")["annotations of the same span and concept as another one"] == 1


def test_xlbel_of_both_versions(tmp_path):
    convert(tmp_path, "xlbel", {"de_1k_test_query.txt": "C1|C2||Salz\nC3||Zehe\n"})
    assert pairs(tmp_path, "de") == [("Salz", ["C1", "C2"]), ("Zehe", ["C3"])]
    with_context = "C1||Salz||Das <tgt> Salz </tgt> und die <tgt>Zehe</tgt>||.\nC3||Zehe||Keine.\n"
    data = convert(tmp_path, "xlbel", {"th_1k_test_query_with_context.txt": with_context})
    first, second = rows(tmp_path, "th")
    assert first["text"] == "Das  Salz  und die Zehe||." and "text" not in second
    assert data["odd"]["sentences in which another mention or none is marked, left away"]["count"] == 1
    with pytest.raises(ValueError, match="E704.*de is there twice"):
        convert(tmp_path, "xlbel", {"de_1k_test_query_with_context.txt": with_context})


def test_cometa(tmp_path):
    header = "ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\tExample\n"
    lines = '1\tNA\tNone\t12\tnull\t34\tI have NA.\n2\t"sore ""toe"""\tToe\t12\tToe\t\tA toe.\n'
    data = convert(tmp_path, "cometa-general", {"general/test.csv": header + lines})
    assert pairs(tmp_path, "general.test") == [("NA", ["12"]), ('sore "toe"', ["12"])]
    assert rows(tmp_path, "general.test")[0]["start"] == 7
    assert data["odd"]["mentions that their example does not have, left without a context"]["count"] == 1
    data = convert(tmp_path, "cometa-specific", {"general/test.csv": header + lines})
    assert pairs(tmp_path, "general.test") == [("NA", ["34"])]
    with pytest.raises(ValueError, match="E701.*line 2: the id '1.2E[+]8' is a number that a spreadsheet"):
        convert(tmp_path, "cometa-general", {"general/test.csv": header + lines.replace("12", "1.2E+8")})
    with pytest.raises(ValueError, match="E701.*line 1: no column Term, Example"):
        convert(tmp_path, "cometa-general", {"general/test.csv": "General SNOMED ID\n"})


def test_medmentions_without_text_and_ids_that_a_dictionary_lacks(tmp_path):
    dictionary = tmp_path / "dictionary.tsv"
    dictionary.write_text("C1|C5\tToe\n")
    files = {"test.txt": "11\ttoe\tC5\n11\ttoe\tC5\n12\tsalt\tC2\n"}
    data = convert(tmp_path, "medmentions-rows", files, dictionary=dictionary)
    assert pairs(tmp_path, "test") == [("toe", ["C5"]), ("toe", ["C5"]), ("salt", ["C2"])]
    assert data["odd"]["mentions in test whose ids the dictionary lacks"]["first"] == ["test.txt, line 3: C2"]
    assert data["parts"]["test"] == {
        "mentions": 3,
        "documents": 2,
        "documents_with_mentions": 2,
        "distinct_mentions": 2,
        "distinct_ids": 2,
        "with_several_ids": 0,
        "repeated": 1,
        "with_an_id_of_the_dictionary": 2,
    }


def test_the_command_and_its_errors(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, ["convert-corpus", *map(str, arguments)])

    path = write(tmp_path / "in", {"test.txt": PUBTATOR}) / "test.txt"
    result = run("pubtator", path, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "test: 5 mentions, 2 documents" in result.output and "Left out: 1 relations; the first: " in result.output
    before = (tmp_path / "out" / "test.jsonl.gz").read_bytes()
    run("pubtator", path, tmp_path / "out")
    assert (tmp_path / "out" / "test.jsonl.gz").read_bytes() == before
    for arguments, message in [
        (("bratwurst", path, tmp_path / "other"), "E700.*mantra-brat"),
        (("ncbi-disease", path, tmp_path / "other"), "E703.*test.txt"),
        (("pubtator", path, tmp_path / "other", "--errors", "ignore"), "E620.*raise, skip"),
        (("pubtator", tmp_path / "none", tmp_path / "other"), "Can't find the file"),
    ]:
        with pytest.raises((ValueError, OSError), match=message):
            raise run(*arguments).exception
    for name, content, message in [
        ("empty.txt", b"\n\n", "E706"),
        ("cut.txt.gz", gzip.compress(PUBTATOR.encode())[:-9], "The copy was probably cut short"),
        ("cut.zip", b"PK\x03\x04", "E702"),
        ("cut.tar.gz", b"\x1f\x8b", "E702"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises((ValueError, OSError), match=message):
            raise run("pubtator", tmp_path / name, tmp_path / "other").exception
    assert not (tmp_path / "other").exists()


def test_formats_are_listed_with_their_files():
    assert all(format_.files for format_ in FORMATS.values()) and list(FORMATS) == sorted(FORMATS)


def test_folders_are_listed_without_litter(tmp_path):
    write(tmp_path, {"b.txt.gz": "", "a/x.txt": "", ".DS_Store": "", "__MACOSX/a.txt": ""})
    assert [file.name for file in open_input(tmp_path)] == ["a/x.txt", "b.txt"]
