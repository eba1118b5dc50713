"""A forged folder, whose checksums fit, is an OSError or an object that works: it never ends the process, shows memory
that is not its own, or raises what no caller expects."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FORGING = Path(__file__).with_name("forging.py")
# Of each file, and in the slow test.
TRIES, MANY = 3, 60

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")


@pytest.fixture(scope="module")
def folders(tmp_path_factory, encoder_folder, terminology, scann_index, usearch_index, faiss_index):
    """Save an index of each kind, a terminology and a pipeline with all components."""
    import spacy
    from conftest import make_huggingface_loader

    root = tmp_path_factory.mktemp("forged")
    for index in (scann_index, usearch_index, faiss_index):
        index.to_disk(root / index.kind)
    terminology.to_disk(root / "terminology")
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=terminology, encoder=make_huggingface_loader(str(encoder_folder)))
    nlp.add_pipe("sapbert_reranker")
    nlp.to_disk(root / "pipeline")
    return root
