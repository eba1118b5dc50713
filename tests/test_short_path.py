"""A reader follows a document to its candidates, and these to a decision, through few files."""

import re
import sys
from pathlib import Path

import pytest
from linked import make_doc
from reranker.reranking import add_reranker, make_examples
from spacy.vocab import Vocab

import spacy_sapbert
from spacy_sapbert.encoder.shim import build_name_encoder_v1
from spacy_sapbert.index import Index
from spacy_sapbert.linker import SapbertLinker

ROOT = Path(spacy_sapbert.__file__).parent
PAGE = ROOT.parent / "docs" / "architecture.md"


def read_path(title, most):
    """Read the files that the page lists for a path: no more than a reader can follow."""
    (paragraph,) = re.findall(rf"^\*\*{title}.*?\n\n", PAGE.read_text(encoding="utf8"), flags=re.MULTILINE | re.DOTALL)
    files = re.findall(r"`([\w/]+\.py)`", paragraph)
    assert len({*files}) <= most
    return {*files}


def trace(function, *arguments):
    """List the files of the package whose functions are called."""
    called = set()

    def record(frame, event, argument):
        called.add(frame.f_code.co_filename)

    sys.setprofile(record)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return {Path(name).relative_to(ROOT).as_posix() for name in called if name.startswith(str(ROOT))}


@pytest.mark.parametrize("kind", ["transformer", "static"])
def test_a_document_reaches_its_candidates_through_few_files(encoder_folder, static_folder, terminology, kind):
    linker = SapbertLinker(Vocab(), build_name_encoder_v1(), Index())
    linker.initialize(terminology=terminology, encoder=str(static_folder if kind == "static" else encoder_folder))
    # Columns of the terminology that are read once.
    linker(make_doc(linker.vocab, "A cold", (1, 2)))
    doc = make_doc(linker.vocab, "She had a heart attack", (3, 5))
    found = trace(linker, doc)
    assert doc.ents[0].kb_id_ == "C0027051"
    assert found <= read_path("A `Doc` reaches its candidates", 17)


def test_a_text_reaches_its_names_through_few_files(make_nlp):
    nlp = make_nlp()
    matcher = nlp.add_pipe("terminology_matcher", before="sapbert_linker")
    nlp("a cold")
    doc = nlp.make_doc("She had a heart attack")
    found = trace(matcher, doc)
    assert [ent.text for ent in doc.ents] == ["heart attack"]
    linking = read_path("A `Doc` reaches its candidates", 17)
    assert found - linking <= read_path("A text reaches its names", 12)


def test_candidates_reach_a_decision_through_few_files(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, make_examples(nlp))
    linker = nlp.get_pipe("sapbert_linker")
    doc = linker(make_examples(nlp)[2].reference.copy())
    found = trace(reranker, doc)
    assert {ent.kb_id_ for ent in doc.ents} == {"C0009264", "C0027051"}
    deciding = {name.removeprefix("reranker/") for name in found if name.startswith("reranker/")}
    assert deciding <= read_path("Candidates reach a decision", 8)
