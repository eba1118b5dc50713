"""Walking up and down a hierarchy finds what a naive walk finds, even if it has circles and gaps."""

import random

import numpy as np
import pytest

from spacy_sapbert.terminology import TerminologyBuilder
from spacy_sapbert.terminology.hierarchy import Hierarchy

N = 300


@pytest.fixture(scope="module")
def parents():
    # Each has two of the concepts before it as parents; the first is below the last.
    rng = random.Random(0)
    return {n: {rng.randrange(n), rng.randrange(n)} if n else {N - 1} for n in range(N)}


@pytest.fixture(scope="module")
def hierarchy(parents):
    builder = TerminologyBuilder()
    for n, above in parents.items():
        # The last one is named by an id that it has taken the place of; one parent is unknown.
        ids = ("retired" if p == N - 1 else f"C{p:03d}" for p in above)
        builder.add_concept(f"C{n:03d}", parents=(*ids, "unknown"))
        builder.add_name(f"C{n:03d}", "name")
    builder.add_retired("retired", replaced_by=[f"C{N - 1:03d}"])
    return Hierarchy(builder.build())


def walk(concept, parents, seen):
    for parent in parents[concept] - seen:
        seen.add(parent)
        walk(parent, parents, seen)
    return seen


def test_ancestors(hierarchy, parents):
    above = [walk(n, parents, {n}) - {n} for n in range(N)]
    assert [hierarchy.find_above(n) for n in range(N)] == above


@pytest.mark.parametrize("top", [{0}, {150}, {299}, {200, 250}, set()])
def test_descendants(hierarchy, parents, top):
    found = np.flatnonzero(hierarchy.find_below(np.isin(np.arange(N), list(top))))
    assert found.tolist() == [n for n in range(N) if not top.isdisjoint(walk(n, parents, {n}))]


def test_children(hierarchy, parents):
    below = [[n for n in range(N) if concept in parents[n] and n != concept] for concept in range(N)]
    assert [hierarchy.find_children(concept).tolist() for concept in range(N)] == below
