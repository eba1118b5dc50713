"""The page of the project `demo`: whatever stands in ids, labels, names and texts is text."""

import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span

from spacy_sapbert.annotations import register_extensions

SCRIPT = Path(__file__).parents[2] / "projects" / "demo" / "scripts" / "link.py"
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
    page = runpy.run_path(str(SCRIPT))

    def draw(word):
        doc = spacy.blank("en")("a mention")
        doc.ents = [Span(doc, 1, 2, label=word, kb_id=word)]
        candidate = {"id": word, "score": 0.5, "name": word, "canonical_name": word}
        doc.ents[0]._.kb_candidates = [candidate, candidate]
        return read(page["make_page"]([doc], word, Pages()))

    drawn = draw(evil)
    assert drawn.found == draw("harmless").found
    assert drawn.text.count(evil) == 6  # summary, link, label, and three names
