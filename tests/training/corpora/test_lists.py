"""Lists of mentions: what is read of each form, what is left out and counted, what is refused and where."""

import io
import tarfile
import zipfile

import pytest
from corpus_originals import (
    COMETA_HEADER,
    convert,
    counts,
    id_lists,
    in_memory,
    names,
    pairs,
    rows,
    sentences,
    words,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.convert import convert_corpus
from training.corpora.lists import read_biosyn


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
    files = {
        f"processed_test/{pmid}.concept": [
            f"{pmid}||{n}|{n + 4}||T||{'|'.join(parts)}||{'|'.join(ids)}" for n, (parts, ids) in enumerate(found)
        ]
        for pmid, found in queries.items()
    }
    files["test_dictionary.txt"] = [f"{'|'.join(ids)}||{name}" for ids, name in dictionary]
    corpus = read_biosyn(in_memory(files))
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
    with pytest.raises(ValueError, match="Files of folds are missing: fold9.test"):
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
    with pytest.raises(ValueError, match="test.txt, line 1: quotation marks"):
        convert(tmp_path, "psytar", {"fold_1/test.txt": '7\t"open\n'})
    with pytest.raises(ValueError, match="line 1: an empty mention"):
        convert(tmp_path, "psytar", {"fold_1/test.txt": "7\t \n"})
    data = convert(
        tmp_path, "psytar", {"fold_1/test.txt": "9\ttoe\n", "fold_3/standard.txt": "9\tOther\n"}, errors="skip"
    )
    assert data["odd"]["folds with a dictionary of their own, joined with the others"]["count"] == 1
    assert ("9", "Other") in names(tmp_path)


def test_xlbel_of_both_versions(tmp_path):
    convert(tmp_path, "xlbel", {"de_1k_test_query.txt": "C1|C2||Salz\nC3||Zehe\n"})
    assert pairs(tmp_path, "de") == [("Salz", ["C1", "C2"]), ("Zehe", ["C3"])]
    with_context = "C1||Salz||Das <tgt> Salz </tgt> und die <tgt>Zehe</tgt>||.\nC3||Zehe||Keine.\n"
    data = convert(tmp_path, "xlbel", {"th_1k_test_query_with_context.txt": with_context})
    first, second = rows(tmp_path, "th")
    assert first["text"] == "Das  Salz  und die Zehe||." and "text" not in second
    assert data["odd"]["sentences in which another mention or none is marked, left away"]["count"] == 1
    with pytest.raises(ValueError, match="de is there twice"):
        convert(tmp_path, "xlbel", {"de_1k_test_query_with_context.txt": with_context})


def test_cometa(tmp_path):
    lines = '1\tNA\tNone\t12\tnull\t34\tI have NA.\n2\t"sore ""toe"""\tToe\t12\tToe\t\tA toe.\n'
    data = convert(tmp_path, "cometa-general", {"general/test.csv": COMETA_HEADER + lines})
    assert pairs(tmp_path, "general.test") == [("NA", ["12"]), ('sore "toe"', ["12"])]
    assert rows(tmp_path, "general.test")[0]["start"] == 7
    assert data["odd"]["mentions that their example does not have, left without a context"]["count"] == 1
    data = convert(tmp_path, "cometa-specific", {"general/test.csv": COMETA_HEADER + lines})
    assert pairs(tmp_path, "general.test") == [("NA", ["34"])]
    with pytest.raises(ValueError, match="line 2: the id '1.2E[+]8' is a number that a spreadsheet"):
        convert(tmp_path, "cometa-general", {"general/test.csv": COMETA_HEADER + lines.replace("12", "1.2E+8")})
    with pytest.raises(ValueError, match="line 1: no column Term, Example"):
        convert(tmp_path, "cometa-general", {"general/test.csv": "General SNOMED ID\n"})


def test_medmentions_without_text(tmp_path):
    files = {"test.txt": "11\ttoe\tC5\n11\ttoe\tC5\n12\tsalt\tC2\n"}
    data = convert(tmp_path, "medmentions-rows", files)
    assert pairs(tmp_path, "test") == [("toe", ["C5"]), ("toe", ["C5"]), ("salt", ["C2"])]
    assert data["parts"]["test"] == {
        "mentions": 3,
        "documents": 2,
        "documents_with_mentions": 2,
        "distinct_mentions": 2,
        "distinct_ids": 2,
        "with_several_ids": 0,
        "repeated": 1,
    }
