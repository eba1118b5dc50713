"""Sources and restriction levels in a pipeline's meta and in the README of its package."""

import shutil

import pytest
import spacy
from rrf_files import atom, rrf_line, write_release
from spacy.cli.package import package

from spacy_sapbert.terminology import read_rrf
from spacy_sapbert.terminology.licences import add_sources


@pytest.fixture
def release(tmp_path):
    return write_release(
        tmp_path / "rrf",
        MRCONSO=[
            atom("C1", "fever"),
            atom("C2", "pain", SAB="SNOMEDCT_US", SRL="9"),
            atom("C1", "x", LAT="GER", SAB="ICD"),
        ],
        MRREL=[rrf_line("MRREL", CUI1="C1", REL="PAR", CUI2="C2")],
        MRSAB=[
            rrf_line("MRSAB", RSAB="MSH", SON="Medical Subject Headings", SVER="2025", SRL="0", SLC="NLM", CURVER="Y"),
            rrf_line("MRSAB", RSAB="SNOMEDCT_US", SON="SNOMED CT, US Edition", SRL="9", CURVER="Y"),
            rrf_line("MRSAB", RSAB="ICD", SON="ICD", SRL="3", CURVER="Y"),
        ],
    )


def initialize(release, encoder_folder, **settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    nlp.config["initialize"]["components"]["sapbert_linker"] = {
        "terminology": {"@misc": "spacy-sapbert.RrfTerminology.v1", "path": str(release), **settings},
        "encoder": {"@misc": "spacy-sapbert.HuggingFaceEncoder.v1", "name": str(encoder_folder)},
    }
    nlp.initialize()
    return nlp


def test_meta_and_packaged_readme_name_sources_and_levels(release, encoder_folder, tmp_path):
    nlp = initialize(release, encoder_folder)
    assert [source["name"] for source in nlp.meta["sources"]] == [
        "SNOMED CT, US Edition (SNOMEDCT_US, restriction level 9)",
        "Medical Subject Headings 2025 (MSH)",
    ]
    nlp.meta["name"] = "licences"
    nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").meta["sources"] == nlp.meta["sources"]
    shutil.rmtree(release)
    (tmp_path / "packages").mkdir()
    package(tmp_path / "pipeline", tmp_path / "packages", create_sdist=False, silent=True)
    readme = next((tmp_path / "packages").glob("*/README.md")).read_text(encoding="utf8")
    assert "SNOMED CT, US Edition (SNOMEDCT_US, restriction level 9)<br>Medical Subject Headings 2025 (MSH" in readme
    assert "Restricted vocabularies of `sapbert_linker`: SNOMED CT" in readme


def test_other_sources_and_notes_stay_and_old_ones_go(release):
    meta = {"sources": ["somebody's", {"name": "corpus"}], "notes": "By us."}
    terminology = read_rrf(release)
    add_sources(meta, terminology, "linker")
    add_sources(meta, read_rrf(release, languages=None), "other")
    add_sources(meta, read_rrf(release, max_restriction_level=0), "linker")
    assert meta["sources"][:2] == ["somebody's", {"name": "corpus"}]
    found = [(source["component"], source["abbreviation"]) for source in meta["sources"][2:]]
    assert found == [("other", "SNOMEDCT_US"), ("other", "ICD"), ("other", "MSH"), ("linker", "MSH")]
    assert meta["notes"].startswith("By us.\n\nRestricted vocabularies of `other`: SNOMED")


def test_restricted_sources_are_recorded_when_they_come_and_only_with_the_pipeline(release, encoder_folder):
    nlp = initialize(release, encoder_folder, max_restriction_level=0)
    linker = nlp.get_pipe("sapbert_linker")
    assert linker.terminology.concepts["id"].to_list() == ["C1"]
    assert [source["abbreviation"] for source in nlp.meta["sources"]] == ["MSH"] and nlp.meta["notes"] == ""
    linker.add_names(read_rrf(release))
    assert [source["abbreviation"] for source in nlp.meta["sources"]] == ["MSH"]
    linker.add_names(read_rrf(release), nlp=nlp)
    assert {source["abbreviation"] for source in nlp.meta["sources"]} == {"MSH", "SNOMEDCT_US"}
    assert "SNOMED" in nlp.meta["notes"]
