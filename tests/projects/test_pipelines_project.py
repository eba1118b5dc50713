"""The project `pipelines`: packages of ontologies of a few terms say what they hold and how good they are."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
import srsly
from hiding import PREPARATION
from obo_files import make_obo
from project_scripts import import_scripts, install_multilingual, list_lines
from rrf_files import atom, rrf_line, write_release
from spacy.cli.package import package
from spacy.tokens import DocBin

from spacy_sapbert.terminology import merge, read_obo

with import_scripts("pipelines"):
    import build as project

ROOT = Path(__file__).parents[2]
OPEN_TERMINOLOGY = ROOT / "projects" / "open_terminology"
HPO = [
    ("HP:0000118", "Phenotypic abnormality", "xref: UMLS:C4021819"),
    (
        *("HP:0001649", "Tachycardia", "alt_id: HP:0001648", "is_a: HP:0000118"),
        *('synonym: "Racing heart" EXACT layperson []', 'synonym: "Rapid heart beat" EXACT []'),
    ),
    (
        *("HP:0002027", "Abdominal pain", "is_a: HP:0000118"),
        *('synonym: "Belly pain" EXACT layperson []', 'synonym: "Pain in abdomen" EXACT []'),
    ),
    ("HP:0012825", "Mild"),
]
CL = [
    ("CL:0000000", "cell"),
    ("CL:0000540", "neuron", "is_a: CL:0000000"),
    ("GO:0008150", "biological process"),
]
MONDO = [
    ("MONDO:0000001", "disease", "xref: UMLS:C0012634"),
    ("MONDO:0700096", "human disease", "is_a: MONDO:0000001"),
    ("MONDO:0005583", "non-human animal disease", "is_a: MONDO:0000001"),
    ("MONDO:0005244", "peripheral neuropathy", "is_a: MONDO:0700096"),
    ("MONDO:1011336", "septic shock, non-human animal", 'synonym: "septic shock" EXACT []', "is_a: MONDO:0005583"),
    ("MONDO:1011337", "bluetongue", "is_a: MONDO:1011336"),
]
DOID = [
    ("DOID:4", "disease", "xref: UMLS_CUI:C0012634"),
    ("DOID:0050117", "infection", "is_a: DOID:4"),
]
TEXT = "A racing heart and mild belly pain."


@pytest.fixture
def folder(tmp_path):
    """Make a project with the ontologies HP and CL, and without the others."""
    for name in ("configs", "scripts"):
        shutil.copytree(OPEN_TERMINOLOGY / name, tmp_path / "open" / name)
    (tmp_path / "open" / "assets").mkdir()
    add_ontologies(tmp_path, hp=HPO, cl=CL)
    return tmp_path


def add_ontologies(folder, **ontologies):
    for name, terms in ontologies.items():
        text = make_obo(terms, "data-version: releases/2025-01-16")
        (folder / "open" / "assets" / f"{name}.obo").write_text(text, encoding="utf8")


def build(folder, name, documents="", rrf="", score="yes"):
    project.main(name, "1.2.3", folder / "open", folder / "output", documents, str(rrf), score)
    return srsly.read_json(folder / "output" / name / "meta.json")


def write_gold(folder, *mentions):
    doc = spacy.blank("en")(TEXT)
    doc.ents = [doc.char_span(start, end, label="x", kb_id=id_) for start, end, id_ in mentions]
    DocBin(docs=[doc]).to_disk(folder / "gold.spacy")
    return f"mine (my texts)={folder / 'gold.spacy'}"


def merge_ontologies(folder):
    with import_scripts("open_terminology"):
        from terminology import add_source
    read = [
        add_source(read_obo(file, id_prefix=ontology["id_prefix"], source=ontology["source"]), ontology)
        for ontology in srsly.read_json(OPEN_TERMINOLOGY / "configs" / "ontologies.json")
        if (file := folder / "open" / "assets" / ontology["file"]).is_file()
    ]
    merge(read).to_disk(folder / "open" / "output" / "terminology")


def test_a_package_loads_and_says_what_it_holds_and_how_good_it_is(folder):
    # An old id of Tachycardia; and of two mentions, one has another concept.
    documents = write_gold(folder, (2, 14, "HP:0001648"), (24, 34, "HP:0001649"), (19, 23, "HP:0012825"))
    meta = build(folder, "hpo_linker", documents)
    packages = folder / "packages"
    packages.mkdir()
    package(folder / "output" / "hpo_linker", packages, create_sdist=False)
    made = packages / "en_hpo_linker-1.2.3"
    nlp = spacy.load(made / "en_hpo_linker" / made.name)
    found = [(ent.text, ent.label_, ent.kb_id_) for ent in nlp(TEXT).ents]
    assert found == [("racing heart", "PHENOTYPE", "HP:0001649"), ("belly pain", "PHENOTYPE", "HP:0002027")]
    probability = nlp(TEXT).ents[0]._.kb_probability

    scores = meta["performance"]
    assert not any(map(math.isnan, scores.values()))
    mine = {key.removeprefix("mine_"): score for key, score in scores.items() if key.startswith("mine_")}
    assert mine["span_p"] == mine["span_r"] == mine["overlap_r"] == mine["document_r"] == 1.0, (
        "Mild can't be linked, and does not count"
    )
    kept = {share: mine[f"kept_at_{share}"] for share in (10, 30, 50, 70, 90)}
    assert kept == {share: float(100 * probability >= share) for share in kept} and 0.3 < probability < 0.9
    assert mine["id_p"] == mine["id_r"] == mine["acc_at_1"] == mine["mention_f"] == mine["document_p"] == 0.5
    assert scores.keys() == {"left_out_names_acc", *(f"mine_{key}" for key in mine)}
    assert 0 <= scores["left_out_names_acc"] <= 1
    assert "6 names" in meta["notes"] and "1 documents of mine (my texts), with 2 mentions" in meta["notes"]
    shipped = srsly.read_json(made / "meta.json")
    assert nlp.meta["performance"] == shipped["performance"] == scores
    assert any(wanted.startswith("spacy-sapbert") for wanted in shipped["requirements"])
    hpo, encoder = meta["sources"]
    assert "Human Phenotype Ontology releases/2025-01-16" in hpo["name"] and hpo["url"] == "https://hpo.jax.org"
    assert meta["license"] == "other", "a licence that the hub knows"
    assert all(f"- {source['name']}: {source['license']}" in meta["notes"] for source in (hpo, encoder))
    assert "has 4 concepts with 8 names; the linker may find 3 of them" in meta["notes"]
    licences = (made / "LICENSES_SOURCES").read_text(encoding="utf8")
    assert all(source[key] in licences for source in (hpo, encoder) for key in ("name", "url", "license"))
    readme = (made / "README.md").read_text(encoding="utf8")
    assert "`MINE_ID_P` | 50.00" in readme and "[The spacy-sapbert authors]()" not in readme


def test_a_second_package_does_not_keep_the_scores_of_the_first(folder):
    packages = folder / "packages"
    packages.mkdir()
    for documents in (write_gold(folder, (2, 14, "HP:0001649")), ""):
        build(folder, "hpo_linker", documents)
        package(folder / "output" / "hpo_linker", packages, create_sdist=False, force=True)
    readme = (packages / "en_hpo_linker-1.2.3" / "README.md").read_text(encoding="utf8")
    assert "LEFT_OUT_NAMES_ACC" in readme and "MINE" not in readme


def test_a_package_says_what_a_text_denies(folder):
    packages = folder / "packages"
    packages.mkdir()
    meta = build(folder, "hpo_linker")
    assert "`_.is_negated`" in meta["notes"]
    package(folder / "output" / "hpo_linker", packages, create_sdist=False)
    made = packages / "en_hpo_linker-1.2.3"
    code = "import spacy; ents = spacy.load(PATH)('No racing heart. Probable belly pain.').ents; print"
    code += "(*((ent.kb_id_, ent._.is_negated, ent._.is_uncertain) for ent in ents))"
    command = [sys.executable, "-c", f"PATH = {made.name!r}; {code}"]
    done = subprocess.run(command, cwd=made / "en_hpo_linker", capture_output=True, text=True, check=True)
    assert done.stdout == "('HP:0001649', True, False) ('HP:0002027', False, True)\n"


def test_a_pipeline_is_built_measured_and_packaged_without_pytorch_and_without_a_network(folder, monkeypatch):
    """Each line of the workflow is a process that can't import PyTorch, and so are the processes that it starts."""
    blocker = PREPARATION.replace("sys.argv.pop(1)", repr("torch transformers spacy_transformers pyarrow adapters"))
    (folder / "sitecustomize.py").write_text(blocker, encoding="utf8")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    copy = shutil.copytree(
        ROOT / "projects" / "pipelines", folder / "pipelines", ignore=shutil.ignore_patterns("output")
    )
    (copy / "output" / "packages").mkdir(parents=True)
    documents = write_gold(folder, (2, 14, "HP:0001649"))
    for line in list_lines(copy, "all", open_terminology=str(folder / "open"), documents=documents):
        # A wheel is built in an environment of its own, which needs a network.
        words = ["none" if word == "wheel" else word for word in line[1:]]
        done = subprocess.run([sys.executable, *words], cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    meta = srsly.read_json(copy / "output" / "packages" / "en_hpo_linker-0.1.0" / "meta.json")
    assert meta["performance"]["mine_id_r"] == 1.0


def test_a_pipeline_that_is_not_measured_says_what_it_holds(folder, capsys):
    meta = build(folder, "hpo_linker", score="no")
    assert meta["performance"] == {} and "has 4 concepts with 8 names" in meta["notes"]
    with pytest.raises(SystemExit):
        build(folder, "hpo_linker", write_gold(folder, (2, 14, "HP:0001649")), score="no")
    assert "Leave them out, or --score no" in capsys.readouterr().out


def test_terms_of_other_ontologies_are_not_linked(folder):
    meta = build(folder, "cl_linker")
    assert meta["performance"] == {}, "no concept has two names"
    nlp = spacy.load(folder / "output" / "cl_linker")
    doc = nlp("The biological process of a neuron.")
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [("neuron", "CELL_TYPE", "CL:0000540")]


@pytest.mark.parametrize(("name", "cells"), [("open_linker", ["CL:0000000"]), ("disorder_linker", [])])
def test_merged_ontologies_have_all_sources_and_their_roots_under_other_ids(folder, capsys, name, cells):
    with pytest.raises(SystemExit):
        build(folder, name)
    assert "run open_terminology" in capsys.readouterr().out
    merge_ontologies(folder)
    meta = build(folder, name)
    assert [source.get("abbreviation") for source in meta["sources"]] == ["CL", "HP", None]
    nlp = spacy.load(folder / "output" / name)
    assert nlp.get_pipe("sapbert_linker").below == ("C4021819", *cells)
    doc = nlp("A mild biological process: racing heart of a neuron.")
    assert [ent.kb_id_ for ent in doc.ents] == ["HP:0001649", *(["CL:0000540"] if cells else [])]


def test_a_release_in_rrf_takes_the_place_of_the_merged_ontologies(folder):
    release = write_release(
        folder / "release",
        MRCONSO=[
            *(atom("C1", name, SAB="HPO", CODE="HP:0001649") for name in ("Tachycardia", "Racing heart")),
            *(atom("C2", name, SAB="MSH", CODE="D012871") for name in ("Skin Diseases", "Skin")),
            *(atom("C3", name, SAB="UBERON", CODE="UBERON:0002097") for name in ("Skin organ", "Skin", "Cutis")),
            atom("C4", "Aspirin", SAB="UNII", CODE="R16CO5Y76E"),
            # No semantic type; but a root.
            atom("C5", "Phenotypic abnormality", SAB="HPO", CODE="HP:0000118"),
            *(atom("C6", "Knee", SAB=source, CODE="X") for source in ("MONDO", "DOID", "NCI", "ORPHANET", "CL")),
        ],
        MRSTY=[rrf_line("MRSTY", CUI=cui, TUI=tui) for cui, tui in (("C1", "T033"), ("C2", "T047"), ("C3", "T023"))],
        MRREL=[rrf_line("MRREL", CUI1="C1", REL="PAR", CUI2="C5", SAB="HPO")],
        MRSAB=[rrf_line("MRSAB", RSAB="HPO", SON="Human Phenotype Ontology", SLC="HPO licence", SRL="0", CURVER="Y")],
    )
    documents = write_gold(folder, (2, 14, "HP:0001649"))
    meta = build(folder, "disorder_linker", documents, release)
    assert {source.get("abbreviation") for source in meta["sources"]}.isdisjoint(["UNII"])
    assert ": HPO licence\n" in meta["notes"] and meta["performance"]["mine_id_r"] == 1.0
    nlp = spacy.load(folder / "output" / "disorder_linker")
    assert "ner" not in nlp.pipe_names
    doc = nlp("Skin, aspirin and a racing heart; skin diseases.")
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("racing heart", "DISORDER", "C1"),
        ("skin diseases", "DISORDER", "C2"),
    ]
    linker = nlp.get_pipe("sapbert_linker")
    assert linker.types == ("T033", "T047")
    # Of what may not be linked, canonical names and those with the words of a name that may.
    names = [(concept.id, concept.names) for concept in map(linker.terminology.concept, range(len(linker.terminology)))]
    assert ("C3", ("Skin organ", "Skin")) in names and ("C6", ("Knee",)) in names
    # Without semantic types in its plan, a pipeline has roots, whose codes have the prefixes of UMLS.
    build(folder, "open_linker", rrf=release)
    linker = spacy.load(folder / "output" / "open_linker").get_pipe("sapbert_linker")
    assert linker.below == ("C5",) and "C4" in linker.terminology


def test_a_recogniser_proposes_what_is_no_name(folder):
    """The kept one stands in front of the matcher, whose names stay; the card names what it learned from."""
    add_ontologies(folder, mondo=MONDO, doid=DOID)
    merge_ontologies(folder)
    recogniser = str(RECOGNISER)
    project.main("disorder_linker", "1.2.3", folder / "open", folder / "output", "", "", "no", recogniser)
    nlp = spacy.load(folder / "output" / "disorder_linker")
    assert nlp.pipe_names[:3] == ["schwartz_hearst", "ner", "terminology_matcher"]
    assert nlp.get_pipe("terminology_matcher").proposed_labels == ("FINDING",)
    doc = nlp("She has a racing heart and keeps throwing up. Her legs feel like jelly.")
    found = {ent.text: (ent.label_, ent._.match, ent.kb_id_) for ent in doc.ents}
    assert found["racing heart"] == ("DISORDER", "exact", "HP:0001649")
    assert any(label == "FINDING" and not kb_id for label, _, kb_id in found.values())
    names = [source["name"] for source in nlp.meta["sources"]]
    assert any("ACI-BENCH" in name for name in names) and any("Human Phenotype" in name for name in names)
    assert "CC BY 4.0" in (folder / "output" / "disorder_linker" / "LICENSES_SOURCES").read_text(encoding="utf8")


RECOGNISER = ROOT / "projects" / "recogniser" / "model"


def test_findings_in_a_language_without_names(folder, monkeypatch):
    """What the recogniser finds is linked to English names, and names that the text has stay."""
    install_multilingual(folder, monkeypatch)
    recogniser = str(RECOGNISER.with_name("model_languages"))
    project.main("findings_de", "1.2.3", folder / "open", folder / "output", "", "", "no", recogniser)
    nlp = spacy.load(folder / "output" / "findings_de")
    assert nlp.lang == "de" and nlp.meta["name"] == "findings"
    doc = nlp("Seit gestern klagt sie über Schmerz der Bauchregion, keine Tachycardia.")
    assert {ent.text: (ent._.match, ent.kb_id_) for ent in doc.ents} == {
        "Schmerz der Bauchregion": ("", "HP:0002027"),
        "Tachycardia": ("exact", "HP:0001649"),
    }
    assert "multilingual-e5-small" in str(nlp.meta["sources"]) and 'spacy.load("de_findings")' in nlp.meta["notes"]


def test_a_recogniser_of_another_language_is_refused(folder, monkeypatch, capsys):
    install_multilingual(folder, monkeypatch)
    with pytest.raises(SystemExit):
        project.main("findings_de", "1.2.3", folder / "open", folder / "output", "", "", "no", str(RECOGNISER))
    assert "is for 'en', and the pipeline for 'de'" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["mondo_linker", "open_linker", "disorder_linker"])
def test_diseases_of_animals_are_not_linked(folder, name):
    add_ontologies(folder, mondo=MONDO, doid=DOID)
    merge_ontologies(folder)
    build(folder, name)
    nlp = spacy.load(folder / "output" / name)
    doc = nlp("Septic shock and bluetongue of animals, but first a peripheral neuropathy.")
    assert [ent.text for ent in doc.ents] == ["peripheral neuropathy"]
    linker = nlp.get_pipe("sapbert_linker")
    found = {
        candidate["canonical_name"] for of_text in linker.find(["septic shock", "animal"], k=9) for candidate in of_text
    }
    assert "peripheral neuropathy" in found and found.isdisjoint(["septic shock, non-human animal", "bluetongue"])


@pytest.mark.parametrize(
    ("name", "documents", "message"),
    [
        ("hp_linker", "", "There are: hpo_linker, mondo_linker"),
        ("mondo_linker", "", "The ontology MONDO is missing"),
        ("hpo_linker", "nowhere.spacy", "There is no .spacy file nowhere.spacy"),
        ("hpo_linker", "notes (dev)={gold}, notes (test)={gold}", "told apart by the first word"),
        ("doid_linker", "", "The ontology has none of DOID:4"),
        # Mentions with ids of another kind.
        ("hpo_linker", (2, 14, "D013610"), "has a concept that the pipeline may link"),
    ],
)
def test_what_is_missing_is_named(folder, name, documents, message, capsys):
    shutil.copyfile(folder / "open" / "assets" / "hp.obo", folder / "open" / "assets" / "doid.obo")
    with pytest.raises(SystemExit):
        gold = write_gold(folder, documents if documents and not isinstance(documents, str) else (2, 14, "HP:0001649"))
        build(folder, name, documents.format(gold=folder / "gold.spacy") if isinstance(documents, str) else gold)
    assert message in " ".join(capsys.readouterr().out.split())
    assert not (folder / "output").exists()
