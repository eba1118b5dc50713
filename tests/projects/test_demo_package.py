"""The package of the project `demo` says where its content comes from."""

import runpy
from pathlib import Path

import spacy
import srsly
from spacy.cli.package import package

from spacy_sapbert.terminology import read_obo

PROJECT = Path(__file__).parents[2] / "projects" / "demo"
OBO = """format-version: 1.2
data-version: hp/releases/2025-01-16

[Term]
id: HP:0000001
name: All
"""


def test_a_package_has_versions_and_licences_of_its_sources(tmp_path):
    (tmp_path / "hp.obo").write_text(OBO)
    spacy.blank("en").to_disk(tmp_path / "pipeline")
    read_obo(tmp_path / "hp.obo").to_disk(tmp_path / "pipeline" / "sapbert_linker" / "terminology")
    main = runpy.run_path(str(PROJECT / "scripts" / "sources.py"))["main"]
    main(PROJECT / "configs" / "meta.json", tmp_path / "pipeline", tmp_path / "meta.json")
    packages = tmp_path / "packages"
    packages.mkdir()
    package(tmp_path / "pipeline", packages, meta_path=tmp_path / "meta.json", create_sdist=False)
    (folder,) = packages.iterdir()
    hpo, encoder = srsly.read_json(folder / "meta.json")["sources"]
    assert hpo["name"] == "Human Phenotype Ontology, hp/releases/2025-01-16"
    assert "2025-01-16" in (folder / "README.md").read_text(encoding="utf8")
    licences = (folder / "LICENSES_SOURCES").read_text(encoding="utf8")
    for source in (hpo, encoder):
        assert all(source[key] in licences for key in ("name", "author", "license"))
