"""CODER as published: matrices of relations that fit into memory, and names as the released code cleans them."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.terminology import TerminologyBuilder
from training.methods.coder import loss
from training.methods.coder.data import choose_names
from training.methods.coder.loss import check_memory, make_relations

CPU = torch.device("cpu")


def clean_naively(name):
    """Clean one name, step by step, as the released code does (pretrain/load_umls.py)."""
    name = f" {name.lower()} ".replace(" nos ", " ")
    name = re.sub(r"\(.*?\)", "", name)
    return " ".join(name.replace("-", " ").split())


@given(st.lists(st.text("()-aNOSnos ", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=8))
def test_names_are_cleaned_step_by_step(names):
    builder = TerminologyBuilder()
    for name in names:
        builder.add_name("C1", name, language="ENG")
    terminology = builder.build()
    kept, n_empty = choose_names(terminology, ["ENG"], True, "terminology", clean=True)
    cleaned = [clean_naively(name) for name in terminology.names["name"]]
    assert kept["name"].to_list() == sorted({name for name in cleaned if name})
    assert len(kept) + n_empty <= len(terminology.names) and (n_empty > 0) == ("" in cleaned)


def test_empty_names_are_counted_and_left_out():
    builder = TerminologyBuilder()
    for concept, name in [("C1", "Cold (disease)"), ("C1", "cold"), ("C1", "(finding)"), ("C2", "pain NOS")]:
        builder.add_name(concept, name, language="ENG")
    names, n_empty = choose_names(builder.build(), ["ENG"], True, "terminology", clean=True)
    assert names["name"].to_list() == ["cold", "pain"] and n_empty == 1
    names, n_empty = choose_names(builder.build(), ["ENG"], True, "terminology")
    assert len(names) == 4 and n_empty == 0


def test_matrices_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    # The paper's 923 labels and vectors of 768 numbers, with gradients and two moments.
    needed = 923 * 768 * 768 * 4 * 4
    monkeypatch.setattr(loss, "find_available", lambda: needed - 1)
    with pytest.raises(MemoryError, match=r"923 relations, 768 x 768.*8\.7 GB.*cpu has 8\.7 GB.*0\.011 GB"):
        check_memory("full", 923, 768, CPU)
    check_memory("diagonal", 923, 768, CPU)
    monkeypatch.setattr(loss, "find_available", lambda: needed)
    check_memory("full", 923, 768, CPU)
    # Where the system does not say, nothing is refused.
    monkeypatch.setattr(loss, "find_available", lambda: None)
    check_memory("full", 923, 768, CPU)


def test_free_memory_of_a_gpu_counts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 10**12))
    with pytest.raises(MemoryError, match="cuda has 1.0 GB"):
        check_memory("full", 923, 768, torch.device("cuda"))


def test_the_estimate_is_that_of_the_optimizer():
    matrices = make_relations("full", 3, 4)
    optimizer = torch.optim.AdamW(matrices.parameters())
    matrices.weights.sum().backward()
    optimizer.step()
    held = [matrices.weights, matrices.weights.grad]
    held += [value for state in optimizer.state.values() for value in state.values() if value.ndim]
    size = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert size == 3 * 4 * 4 * loss.FLOAT_BYTES * loss.COPIES
