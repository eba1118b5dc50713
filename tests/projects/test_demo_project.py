"""The project `demo`: its package says where its content comes from, and its page escapes what it shows."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
import spacy
import srsly
from obo_files import make_obo
from project_scripts import import_scripts
from spacy.cli.package import package
from spacy.tokens import Span

from spacy_sapbert.annotations import register_extensions
from spacy_sapbert.terminology import read_obo

with import_scripts("demo"):
    import link
    import package as demo_package

PROJECT = Path(__file__).parents[2] / "projects" / "demo"


def test_a_package_has_versions_and_licences_of_its_sources(tmp_path):
    (tmp_path / "hp.obo").write_text(make_obo([("HP:0000001", "All")], "data-version: hp/releases/2025-01-16"))
    spacy.blank("en").to_disk(tmp_path / "pipeline")
    read_obo(tmp_path / "hp.obo").to_disk(tmp_path / "pipeline" / "sapbert_linker" / "terminology")
    demo_package.sources(PROJECT / "configs" / "meta.json", tmp_path / "pipeline", tmp_path / "meta.json")
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


EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a|b & 'c'"]


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, sorted(name for name, _ in attrs)))

    def handle_data(self, data):
        self.text += data


def read(html):
    elements = Elements()
    elements.feed(html)
    return elements


class Pages:
    def format(self, concept_id):
        return f"https://example.org/{concept_id}"


@pytest.mark.parametrize("evil", EVIL)
def test_ids_labels_names_and_texts_are_escaped(evil):
    register_extensions()

    def draw(word):
        doc = spacy.blank("en")("a mention")
        doc.ents = [Span(doc, 1, 2, label=word, kb_id=word)]
        candidate = {"id": word, "score": 0.5, "name": word, "canonical_name": word}
        doc.ents[0]._.kb_candidates = [candidate, candidate]
        return read(link.make_page([doc], word, Pages()))

    drawn = draw(evil)
    assert drawn.found == draw("harmless").found
    assert drawn.text.count(evil) == 7  # summary, link, label, and two names of both candidates
