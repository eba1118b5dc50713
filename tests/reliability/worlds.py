"""Tiny linkers that can be told apart by what they answer."""

import random
from pathlib import Path
from typing import Any

import numpy as np
from conftest import build_terminology, make_wordpieces
from spacy.vocab import Vocab

from spacy_sapbert.encoder.shim import build_name_encoder_v1
from spacy_sapbert.index import Index
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.terminology import Terminology
from training.encoders.export import write_static_encoder

# No two contradict each other, so the best few of a mention are the first of all.
WORDS = "heart attack cold acute pain failure fever syndrome left bone skin eye cell".split()
# Equal to no name: a cosine of 1 would be that of every encoder.
PROBES = ["cold fever zz", "heart zz", "left kidney", "acute pain of the skin"]


def make_encoder(folder: Path, seed: int) -> str:
    """Write a static encoder with random vectors, or leave the one that is there."""
    if not folder.exists():
        tokenizer = make_wordpieces()
        table = np.random.default_rng(seed).normal(size=(tokenizer.get_vocab_size(), 16))
        write_static_encoder(folder, tokenizer, table)
    return str(folder)


def make_name(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))


def make_terminology(prefix: str, n_concepts: int = 12) -> Terminology:
    """Make a terminology whose ids tell where they come from."""
    rng = random.Random(prefix)
    return build_terminology({f"{prefix}{n:03d}": [make_name(rng) for _ in range(3)] for n in range(n_concepts)})


def make_linker(**given: Any) -> SapbertLinker:
    """Make a linker, empty unless a terminology and an encoder are given."""
    linker = SapbertLinker(Vocab(), build_name_encoder_v1(), Index(), k=4)
    if given:
        linker.initialize(**given)
    return linker


def describe(linker: SapbertLinker) -> list[Any]:
    """Describe a linker by what it holds and what it answers, as JSON data."""
    answers = [[[c["id"], round(c["score"], 4)] for c in found] for found in linker.find(PROBES)]
    return [linker.terminology.fingerprint, linker.encoder.fingerprint, answers]


def describe_saved(folder: Path) -> list[Any]:
    return describe(make_linker().from_disk(folder))


def list_unfinished(folder: Path) -> list[str]:
    """List what unfinished work has left in a folder."""
    return [path.name for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".part"]
