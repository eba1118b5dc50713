"""A saved pipeline links, is edited and saved again where nothing but spaCy and a few small packages are installed."""

import re
from configparser import ConfigParser
from pathlib import Path

import spacy
from conftest import build_terminology
from hiding import run_hidden

ROOT = Path(__file__).parent.parent.parent
# What only readers, tables, other formats, training and large indexes need.
HIDDEN = {"polars", "scann", "usearch", "faiss", "fastobo", "torch", "transformers", "spacy_transformers", "adapters"}
HIDDEN |= {"tensorflow", "pyarrow", "pandas", "sklearn", "scipy", "huggingface_hub"}
SCRIPT = """
import sys
import spacy

TEXT = "No seizures. Known high blood pressure. Sodium 150 mmol/l. She had the flu."

def link(nlp):
    doc = nlp(TEXT)
    return [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents]

folder = sys.argv[1]
nlp = spacy.load(folder)
print(link(nlp))
linker = nlp.get_pipe("sapbert_linker")
print(linker.add_names([("C3", "flu"), ("C9", "brand new")], nlp=nlp))
print(linker.remove_names([("C1", "fit")]), linker.remove_concepts(["C4"]))
nlp.to_disk(folder + "_edited")
again = spacy.load(folder + "_edited")
print(link(nlp) == link(again))
print(link(again))
linker = again.get_pipe("sapbert_linker")
print(linker.terminology["C9"].names, len(linker.find(["brand new"])))
"""


def list_requirements(lines: str) -> set[str]:
    return {line.strip() for line in lines.splitlines() if line.strip() and line.strip()[0] != "#"}


def test_the_list_of_what_linking_needs_is_a_part_of_all_requirements_and_none_is_hidden_here():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf8")
    needed = list_requirements((ROOT / "requirements-linking.txt").read_text(encoding="utf8"))
    required = list_requirements(config["options"]["install_requires"])
    assert needed < required
    left_out = {re.split("[<>=;]", line)[0] for line in required - needed}
    assert left_out == {"polars", "fastobo", "scann", "usearch"} <= HIDDEN


def test_a_saved_pipeline_works_without_the_large_packages(tmp_path):
    nlp = spacy.blank("en")
    for name in ("schwartz_hearst", "terminology_matcher", "sapbert_linker", "sapbert_reranker"):
        nlp.add_pipe(name)
    for name in ("measurement_reader", "note_context"):
        nlp.add_pipe(name)
    names = [("C1", "seizure"), ("C1", "fit"), ("C2", "high blood pressure"), ("C3", "influenza"), ("C4", "cough")]
    nlp.get_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    nlp.to_disk(tmp_path / "pipeline")
    before, n_added, removed, same, after, found = run_hidden(HIDDEN, SCRIPT, tmp_path / "pipeline").splitlines()
    assert "'C1'" in before and "'C2'" in before and "'C3'" not in before
    assert (n_added, removed, same) == ("2", "1 1", "True")
    assert "('flu', 'CONCEPT', 'C3')" in after and found == "('brand new',) 1"
