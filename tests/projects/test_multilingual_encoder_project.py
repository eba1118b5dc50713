"""The project multilingual_encoder: its wheel is found by its name, pipelines with it load anywhere, offline, and what
the stored encoder makes of scripts and forms of writing."""

import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest
import spacy
from conftest import load_encoder
from core.test_without_torch import run
from project_scripts import import_scripts
from spacy.cli.package import package

from spacy_sapbert import TerminologyBuilder
from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.settings import find_bundled

with import_scripts("multilingual_encoder"):
    import package as project

CARD = "---\nlicense: apache-2.0\n---\n\nMade of nothing.\n"
BUILD = """
import spacy
from spacy_sapbert import TerminologyBuilder

builder = TerminologyBuilder()
for number, name in enumerate(["Herzinfarkt", "chronische Niereninsuffizienz", "Kopfschmerz"]):
    builder.add_name(f"C{number}", name, language="GER")
nlp = spacy.blank("de")
nlp.add_pipe("terminology_matcher")
linker = nlp.add_pipe("sapbert_linker")
linker.initialize(terminology=builder.build(), encoder="tiny")
nlp.to_disk(folder)
"""
LOAD = "import spacy; nlp = spacy.load('de_german_linker'); linker = nlp.get_pipe('sapbert_linker')"
LINK = """
doc = nlp("Keine Kopfschmerzen, aber Herzinfarkte bei chronischer Niereninsuffizienz.")
print(linker.encoder.fingerprint)
print(*((ent.text, ent.kb_id_) for ent in doc.ents))
print(linker.find(["Infarkt", "Schmerz am Kopf", "Niere"]))
"""


@pytest.fixture
def encoder(static_folder, tmp_path):
    """An encoder folder with a card."""
    write_encoder(read_encoder(static_folder), tmp_path / "encoder")
    (tmp_path / "encoder" / "README.md").write_text(CARD, encoding="utf8")
    return tmp_path / "encoder"


def unpack(wheel, site):
    """Unpack a wheel, and return its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA"))
    return metadata


def test_encoders_without_a_card_or_a_licence_and_other_names_are_refused(encoder, tmp_path):
    for name in ("../tiny", "Tiny", "", "a-b"):
        with pytest.raises(SystemExit, match="give a word of small letters"):
            project.write_package(encoder, name, "1.2.3", tmp_path)
    (encoder / "README.md").write_text("Made of nothing. license: none", encoding="utf8")
    with pytest.raises(SystemExit, match="names no licence.*--licence"):
        project.write_package(encoder, "tiny", "1.2.3", tmp_path)
    (encoder / "README.md").unlink()
    with pytest.raises(SystemExit, match="has no card"):
        project.write_package(encoder, "tiny", "1.2.3", tmp_path)


def test_a_german_pipeline_with_an_encoder_by_name_is_packaged_and_loads_elsewhere(encoder, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "kept.txt").touch()
    wheel = project.write_package(encoder, "tiny", "1.2.3", wheels, isolated=False)
    assert wheel.name == "spacy_sapbert_tiny-1.2.3-py3-none-any.whl" and (wheels / "kept.txt").exists()
    metadata = unpack(wheel, tmp_path / "site")
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Dist: spacy-sapbert>=" in metadata and "Made of nothing." in metadata

    def find_from(site):
        return f"import sys; sys.path.insert(0, {str(tmp_path / site)!r})\n"

    made = run(f"{find_from('site')}folder = {str(tmp_path / 'german')!r}\n{BUILD}{LINK}")
    package(tmp_path / "german", wheels, name="german_linker", create_sdist=False)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels)]
    subprocess.run([*build, str(wheels / "de_german_linker-0.0.0")], check=True, capture_output=True)
    unpack(wheels / "de_german_linker-0.0.0-py3-none-any.whl", tmp_path / "elsewhere")
    # The package of the encoder is not needed any more.
    assert run(f"{find_from('elsewhere')}{LOAD}{LINK}") == made
    fingerprint, linked, _ = made.splitlines()
    assert fingerprint == load_encoder(encoder).fingerprint
    expected = [("Kopfschmerzen", "C2"), ("Herzinfarkte", "C0"), ("chronischer Niereninsuffizienz", "C1")]
    assert linked == " ".join(map(str, expected))


def test_who_lacks_the_package_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setattr("spacy_sapbert.encoder.settings.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="needs the package spacy-sapbert-multilingual.*projects/multi"):
        read_encoder("multilingual")


def test_the_encoder_of_the_package_has_a_name_too():
    assert read_encoder("bundled").fingerprint == read_encoder(find_bundled()).fingerprint


STORED = Path(project.__file__).parents[1] / "encoder"
FIRST = [("ENG", "Myocardial infarction"), ("ENG", "Kidney failure"), ("ENG", "Arterial hypertension"), ("ENG", "Cold")]


def make_with_stored(lang, names):
    """Make the linker of a pipeline of a language, with names of a concept each."""
    builder = TerminologyBuilder()
    for number, (language, name) in enumerate(names):
        builder.add_name(f"C{number}", name, language=language)
    linker = spacy.blank(lang).add_pipe("sapbert_linker")
    linker.initialize(terminology=builder.build(), encoder=str(STORED))
    return linker


def find_best(linker, texts):
    """Find the best name of each text, and its score."""
    return [(of_text[0]["name"], of_text[0]["score"]) if of_text else None for of_text in linker.find(texts)]


# None of the texts is a name, so the encoder decides: a terminology without names of the pipeline's language as well.
@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("de", "Schwere arterielle Hypertonie"),
        ("es", "Hipertensión arterial crónica"),
        ("fr", "Hypertension artérielle sévère"),
        ("it", "Ipertensione arteriosa cronica"),
        ("pt", "Hipertensão arterial crônica"),
        ("nl", "ernstige arteriële hypertensie"),
        ("cs", "těžká arteriální hypertenze"),
        ("tr", "kronik arteriyel hipertansiyon"),
        ("zh", "慢性高血压"),
        ("xx", "慢性高血圧症"),
        ("xx", "Ａｒｔｅｒｉａｌ hypertension of диабет"),
    ],
)
def test_forms_of_writing_give_the_same_link(lang, text):
    forms = [
        text.upper(),
        unicodedata.normalize("NFD", text),
        "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text),
        f"\u202b{text}\u202c",
        f"{text[:3]}\u00ad{text[3:]}\u200f",
    ]
    best, *others = find_best(make_with_stored(lang, FIRST), [text, *forms])
    assert best[0] == "Arterial hypertension"
    assert others == [(best[0], pytest.approx(best[1], abs=1e-6))] * len(forms)


TRADITIONAL, SIMPLIFIED = ["慢性高血壓", "肝臟腫瘤", "雙側腎臟發育不全"], ["慢性高血压", "肝脏肿瘤", "双侧肾脏发育不全"]


@pytest.mark.parametrize("written", [TRADITIONAL, SIMPLIFIED])
def test_traditional_and_simplified_chinese_are_alike_in_a_chinese_pipeline(written):
    texts = [f"{text}患者" for text in TRADITIONAL + SIMPLIFIED]
    linker = make_with_stored("zh", [("CHI", name) for name in written[:2]])
    linker.add_names([("C2", written[2])])
    found = find_best(linker, texts)
    assert [name for name, _ in found] == written * 2
    assert found[:3] == [(name, pytest.approx(score, abs=1e-6)) for name, score in found[3:]]


# Pipelines for Chinese also split Japanese into characters.
@pytest.mark.parametrize(("lang", "language"), [("zh", "JPN"), ("zh", ""), ("xx", "JPN")])
def test_characters_of_japanese_stay_as_they_are(lang, language):
    linker = make_with_stored(lang, [(language, "肝腫瘍"), (language, "クローン病")])
    (name, score), (_, other) = find_best(linker, ["肝腫瘍あり", "肝肿瘍あり"])
    assert name == "肝腫瘍" and score > other + 0.1


# It has letters of the last three: α and β stand in English names, and some names are Urdu and Hindi.
@pytest.mark.parametrize("text", ["סוכרת", "диабет", "간염", "โรคเบาหวาน", "🤒", "\u200f", "άσθμα", "سكتة", "नजला"])
def test_scripts_that_the_table_lacks_have_no_vector_and_names_in_them_are_counted(text):
    assert find_best(make_with_stored("xx", FIRST), [text, "cold"]) == [None, ("Cold", 1.0)]
    if text.isalpha():
        with pytest.warns(UserWarning, match="1 of 5 names have no vector"):
            linker = make_with_stored("xx", [*FIRST, ("", text)])
        assert find_best(linker, [text, f"{text} {text}"]) == [(text, 1.0), None]
