"""Phrases that people say: how files are read, which names they stand for, how they are found and linked."""

import lzma

import numpy as np
import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.lexicon.languages import ENGLISH
from spacy_sapbert.lexicon.names import Lexicon
from spacy_sapbert.lexicon.said import FOLDER, PACKAGE, Phrases, _read_words
from spacy_sapbert.lexicon.scan import scan

NAMES = {
    "1": ["Vomiting"],
    "2": ["Abdominal distension", "Abdominal distention"],
    "3": ["Insomnia"],
    "4": ["Short neck"],
    "5": ["Paresthesia"],
    "6": ["Syncope"],
    "7": ["Neck stiffness"],
}
LINES = """\
# phrases of a hospital
chucking up|keeps bringing up her food\temesis|vomiting\tlv
belly is swollen|my tummy is up like a drum\tabdominal distension
can't sleep|can't look left or right|up at night\tinsomnia
no neck|cold\tshort neck
pins and needles\tparaesthesia
keeled over in church|funny turn\tsyncope
funny turn\tvomiting
funny turn\tinsomnia
quivering aspirin\tasthma
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "said.tsv"
    path.write_text(LINES, encoding="utf8")
    return path


@pytest.fixture
def nlp(file):
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(NAMES), phrases=file)
    return nlp


def match(nlp, text):
    return [(ent.text, ent._.match, ent.kb_id_) for ent in nlp(text).ents]


@cases("said")
def test_phrases_are_found(nlp, text, expected):
    assert match(nlp, text) == expected


def test_phrases_are_not_looked_for_without_the_words_that_make_them_clear(tmp_path):
    path = tmp_path / "said.tsv"
    phrases = "on thyroxine|sluggish gland\thypothyroidism", "I'm a type 1|type one sugar\tdiabetes", "on HD\tdialysis"
    path.write_text("\n".join([*phrases, "on the commode all night\tdiarrhea"]), encoding="utf8")
    names = {"1": ["Hypothyroidism"], "2": ["Diabetes"], "3": ["Dialysis"], "4": ["Diarrhea"]}
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology(names), phrases=path)
    assert match(nlp, "Thyroxine was stopped. Neurofibromatosis type 1, type I collagen, HD 6 of 9.") == []
    found = [("sluggish gland", "said", "1"), ("commode all night", "said", "4")]
    assert match(nlp, "A sluggish gland, and on the commode all night.") == found
    assert [of[0]["id"] for of in linker.find(["on thyroxine", "I'm a type 1", "on HD"], k=1)] == ["1", "2", "3"]


def test_phrases_are_linked_and_no_names(nlp):
    linker = nlp.get_pipe("sapbert_linker")
    candidates = [of[0] for of in linker.find(["Chucking up", "can’t sleep", "PINS AND NEEDLES"], k=1)]
    assert [of["id"] for of in candidates] == ["1", "3", "5"]
    assert [of["name"] for of in candidates] == ["Vomiting", "Insomnia", "Paresthesia"]
    assert all(0.95 < of["score"] < 1 for of in candidates)
    assert "chucking up" not in linker.terminology["1"].names
    assert len(linker.terminology.names) == sum(map(len, NAMES.values()))


def test_a_saved_pipeline_has_them(nlp, tmp_path, file):
    nlp.to_disk(tmp_path / "nlp")
    file.unlink()
    text = "Chucking up, can't sleep, pins and needles"
    assert match(spacy.load(tmp_path / "nlp"), text) == match(nlp, text) != []
    assert match(spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()), text) == match(nlp, text)


def test_edits_keep_the_phrases_of_what_stays(nlp):
    linker = nlp.get_pipe("sapbert_linker")
    linker.remove_concepts(["1"])
    assert match(nlp, "chucking up; keeled over in church") == [("keeled over in church", "said", "6")]
    linker.add_names([("8", "keeled over in church")])
    expected = [("keeled over in church", "exact", "8"), ("can't sleep", "said", "3")]
    assert match(nlp, "keeled over in church; can't sleep") == expected
    assert [of["id"] for (of, *_) in linker.find(["keeled over in church", "pins and needles"], k=1)] == ["8", "5"]


def test_initialize_takes_files_or_none(file, tmp_path):
    terminology, other = build_terminology(NAMES), tmp_path / "other.tsv"
    other.write_text("gone all tingly\tParesthesia\n", encoding="utf8")

    def find(**settings):
        linker = spacy.blank("en").add_pipe("sapbert_linker")
        linker.initialize(terminology=terminology, **settings)
        return {text for text, (of, *_) in zip(texts, linker.find(texts, k=1), strict=True) if of["score"] == 0.99}

    texts = ["keeps bringing up her food", "gone all tingly", "conked out"]
    assert find() == find(phrases=PACKAGE) == {"conked out"}
    assert find(phrases=[]) == set()
    assert find(phrases=[PACKAGE, file, other]) == {*texts}
    assert find(phrases=str(other)) == {"gone all tingly"}
    with pytest.raises(TypeError, match="`phrases` is 3, but has to be a file"):
        find(phrases=3)


def test_a_new_encoder_keeps_the_phrases(file, static_folder):
    linker = spacy.blank("en").add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology(NAMES), phrases=file)
    linker.initialize(encoder=static_folder)
    assert linker.find(["chucking up"], k=1)[0][0]["id"] == "1"


@pytest.mark.parametrize(
    "data, message",
    [
        (b"chucking up\n", "Line 1 of .* is 'chucking up', but has to be a phrase, a tab"),
        (b"# one\n\n\tvomiting\n", "Line 3 of"),
        (b"chucking up\t\n", "Line 1 of"),
        (b"chucking up\xff\tvomiting\n", "can't be read.*UTF-8"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, data, message):
    path = tmp_path / "said.tsv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        Phrases.read([path])
    with pytest.raises(ValueError, match="can't be read"):
        path.rename(path.with_suffix(".xz"))
        Phrases.read([path.with_suffix(".xz")])


def test_what_is_left_out_is_counted(file, capsys):
    terminology = build_terminology(NAMES)
    Lexicon.build(terminology, ENGLISH, Phrases.read([file]))
    assert "11 of 15 phrases stand for names of the terminology; it lacks 1 of 8 standard names, such as asthma" in (
        capsys.readouterr().err
    )


def test_other_languages_have_none():
    linker = spacy.blank("cs").add_pipe("sapbert_linker")
    linker.initialize(terminology=build_terminology(NAMES))
    assert not len(linker.retriever.lexicon.said.bags.rows)


@given(st.lists(st.text("ab I'x-2.", min_size=1, max_size=12), min_size=1, max_size=6))
def test_words_are_read_as_those_of_texts(phrases):
    assert_read_alike(phrases)


def test_words_of_the_package_are_read_as_those_of_texts():
    assert_read_alike([text for of in Phrases.read([PACKAGE]).phrases for text in of][::40])


def assert_read_alike(phrases):
    _, offsets, words = _read_words(phrases, ENGLISH)
    lists = np.split(words, offsets[1:-1])
    assert [of.tolist() for of in lists] == [scan(text).read_content().hashes.tolist() for text in phrases]


def test_the_file_of_the_package():
    path = FOLDER / ENGLISH.lists["said"]
    assert path.stat().st_size < 1_500_000
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    names = [line.split("\t")[1].split("|")[0].lower() for line in lines]
    assert len(set(names)) == len(names)
    for line in lines:
        phrases, standard, kinds = line.split("\t")
        assert len(phrases.split("|")) == len(kinds)
        assert set(kinds) <= set("lcvd")
        assert phrases.lower().split("|") and not {*standard.lower().split("|")} & {*phrases.lower().split("|")}
