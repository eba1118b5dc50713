"""A reader follows a document to its candidates through few files."""

import sys
from pathlib import Path

import pytest
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

import spacy_sapbert
from spacy_sapbert.encoder.shim import build_name_encoder_v1
from spacy_sapbert.index import Index
from spacy_sapbert.linker import SapbertLinker

ROOT = Path(spacy_sapbert.__file__).parent
# In the order in which docs/architecture.md lists them.
FILES = [
    "linker.py",
    "settings.py",
    "linker_settings.py",
    "snapshot.py",
    "candidates.py",
    "text.py",
    "abbreviations/component.py",
    "retrieval/filters.py",
    "retrieval/cache.py",
    "encoder/shim.py",
    "encoder/transformer.py",
    "retrieval/retriever.py",
    "retrieval/name_table.py",
    "index/base.py",
    "encoder/settings.py",
    "annotations.py",
]


@pytest.mark.parametrize("kind", ["transformer", "static"])
def test_a_document_reaches_its_candidates_through_few_files(encoder_folder, static_folder, terminology, kind):
    linker = SapbertLinker(Vocab(), build_name_encoder_v1(), Index())
    linker.initialize(terminology=terminology, encoder=str(static_folder if kind == "static" else encoder_folder))
    doc = Doc(linker.vocab, words=["She", "had", "a", "heart", "attack"])
    doc.ents = [Span(doc, 3, 5, label="DISEASE")]
    called = set()

    def record(frame, event, argument):
        called.add(frame.f_code.co_filename)

    sys.setprofile(record)
    try:
        linker(doc)
    finally:
        sys.setprofile(None)
    assert doc.ents[0].kb_id_ == "C0027051"
    found = {Path(name).relative_to(ROOT).as_posix() for name in called if name.startswith(str(ROOT))}
    other = {"encoder/transformer.py"}
    assert found == (set(FILES) - other | {"encoder/static.py"} if kind == "static" else set(FILES))
