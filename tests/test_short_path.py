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
# In the order in which docs/architecture.md lists them.
TO_CANDIDATES = [
    "linker.py",
    "snapshot.py",
    "caches.py",
    "candidates.py",
    "abbreviations/component.py",
    "text.py",
    "encoder/shim.py",
    "ragged.py",
    "encoder/transformer.py",
    "retrieval/retriever.py",
    "lexicon/names.py",
    "index/base.py",
    "annotations.py",
]
TO_A_DECISION = [
    *("component.py", "table.py", "features.py", "strings.py", "prior.py", "memory.py", "network.py"),
    "calibration.py",
]


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
    assert found == {name.replace("transformer", kind) for name in TO_CANDIDATES}


def test_candidates_reach_a_decision_through_few_files(make_nlp):
    nlp = make_nlp()
    reranker = add_reranker(nlp, make_examples(nlp))
    linker = nlp.get_pipe("sapbert_linker")
    doc = linker(make_examples(nlp)[2].reference.copy())
    found = trace(reranker, doc)
    assert {ent.kb_id_ for ent in doc.ents} == {"C0009264", "C0027051"}
    assert {name.removeprefix("reranker/") for name in found if name.startswith("reranker/")} == {*TO_A_DECISION}


@pytest.mark.parametrize("files", [TO_CANDIDATES, TO_A_DECISION])
def test_the_architecture_lists_them(files):
    text = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf8")
    assert any(re.findall(r"`([\w/]+\.py)`", paragraph)[: len(files)] == files for paragraph in text.split("\n\n"))
