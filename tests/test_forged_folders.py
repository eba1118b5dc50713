"""A forged folder, whose checksums fit, is an OSError or an object that works: it never ends the process, shows memory
that is not its own, or raises what no caller expects."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import spacy

from spacy_sapbert import MentionRule

FORGING = Path(__file__).with_name("forging.py")
# Of each file, and in the slow test.
TRIES, MANY = 3, 20

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")


@pytest.fixture(scope="module")
def folders(tmp_path_factory, static_folder, terminology, scann_index, usearch_index, faiss_index):
    """Save an index of each kind, a terminology and a pipeline with all components."""
    root = tmp_path_factory.mktemp("forged")
    for index in (scann_index, usearch_index, faiss_index):
        index.to_disk(root / index.kind)
    terminology.to_disk(root / "terminology")
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    rules = nlp.add_pipe("mention_rules")
    rules.add([MentionRule(name="cold", kb_id="NIL"), MentionRule(name="HA", kb_id=None, author="Ann")])
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, encoder=str(static_folder))
    nlp.add_pipe("sapbert_reranker").initialize(second=str(static_folder))
    nlp.to_disk(root / "pipeline")
    return root


def check(folder, kind, tries, seed):
    """Forge each file of a folder in so many ways, and count how that ended."""
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, str(FORGING), kind, str(folder), str(tries), str(seed)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(run.stdout)
    assert not found["faults"]
    total = Counter()
    for of_file in found["counts"].values():
        total.update(of_file)
    assert total["OSError"]
    return total


KINDS = {"scann": "index", "usearch": "index", "faiss": "index", "terminology": "terminology", "pipeline": "pipeline"}


@pytest.mark.parametrize("name", KINDS)
def test_a_forged_folder_is_refused_or_works(folders, name):
    check(folders / name, KINDS[name], TRIES, seed=0)


@pytest.mark.slow
def test_a_thousand_forged_folders_are_refused_or_work(folders):
    totals = [check(folders / name, kind, MANY, seed=1) for name, kind in KINDS.items()]
    assert sum(map(Counter.total, totals)) > 1000
