"""What the service says of concepts and of mentions without one: children, reasons, and exported contexts."""

import csv
import json
import random
from contextlib import ExitStack

import pytest
import spacy
from conftest import build_terminology
from fastapi.testclient import TestClient
from project_scripts import import_scripts

from spacy_sapbert.context import MentionContext, write_context
from spacy_sapbert.encoder.shim import make_huggingface_loader

with import_scripts("service"):
    import limits
    import serve as service

N = 200


@pytest.fixture
def serve():
    """Return a function that starts a service with a pipeline."""
    with ExitStack() as stack:

        def start(nlp):
            app = service.make_app(nlp, limits.ServiceSettings())
            return stack.enter_context(TestClient(app, "http://localhost:8000"))

        yield start


@pytest.fixture
def with_component(make_nlp):
    def make(change, **settings):
        nlp = make_nlp(**settings)
        name = f"concepts_{id(nlp)}"
        spacy.Language.component(name, func=lambda doc: change(doc) or doc)
        nlp.add_pipe(name, last=True)
        return nlp

    return make


def link(client, text, **choice):
    (result,) = client.post("/link", json={"texts": [text], **choice}).json()["results"]
    return result


def test_children_are_those_that_a_loop_finds(serve, encoder_folder):
    rng = random.Random(1)
    # The first has many children, one is its own parent, and one parent is unknown.
    parents = {f"C{n}": [f"C{rng.choice((0, rng.randrange(N)))}", f"C{rng.randrange(N)}"] for n in range(N)}
    parents["C5"] = ["C5", "C0", "unknown"]
    names = {id_: [f"name {rng.randrange(10**6)}"] for id_ in parents}
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe("sapbert_linker")
    loader = make_huggingface_loader(str(encoder_folder))
    linker.initialize(terminology=build_terminology(names, parents=parents), encoder=loader)
    client = serve(nlp)
    counts = []
    for id_ in parents:
        below = [(names[child][0], child) for child, above in parents.items() if id_ in above and child != id_]
        found = client.get(f"/concept/{id_}").json()
        assert [(child["canonical_name"], child["id"]) for child in found["children"]] == sorted(below)[:50]
        assert found["n_children"] == len(below)
        counts.append(len(below))
    assert max(counts) > 50 and min(counts) == 0


def test_a_concept_has_the_id_that_its_mentions_get(serve, make_nlp):
    assert serve(make_nlp()).get("/concept/C0027051").json()["kb_id"] == "C0027051"
    assert serve(make_nlp(output_source="HPO")).get("/concept/C0027051").json()["kb_id"] == "HP:0001658"
    # One without a code there can't be chosen.
    assert serve(make_nlp(output_source="HPO")).get("/concept/C0009443").json()["kb_id"] is None


def forget(doc):
    for token in doc:
        token.ent_kb_id_ = ""


BY_SCORE = {"reason": "threshold", "measure": "score"}
BY_PROBABILITY = {"reason": "threshold", "measure": "probability"}
T070 = {"types": ["T070"]}
# The settings of the linker, whether there is a reranker, what changes the document, the text, the request; and why.
REASONS = [
    ({"skip_labels": ["DISORDER"]}, False, None, "insomnia", {}, {"reason": "unlinked", "label": "DISORDER"}),
    ({"threshold": 1.0}, False, None, "xyzzy", {}, BY_SCORE | {"least": 1.0}),
    ({"threshold": -1.0}, False, None, "xyzzy", {"threshold": 1.0}, BY_SCORE | {"least": 1.0}),
    ({}, True, None, "xyzzy", {}, BY_PROBABILITY),
    ({"threshold": 0.99}, False, None, "insomnia", {**T070, "k": 1}, BY_SCORE | {"least": 0.99}),
    ({"k": 1}, False, None, "insomnia", T070, {"reason": "filtered"}),
    ({}, False, forget, "insomnia", {}, {"reason": "nil"}),
]


@pytest.mark.parametrize("settings, reranks, change, text, choice, expected", REASONS, ids=range(len(REASONS)))
def test_a_mention_without_a_concept_says_why(serve, with_component, settings, reranks, change, text, choice, expected):
    nlp = with_component(change or (lambda doc: None), **settings)
    if reranks:
        nlp.add_pipe("sapbert_reranker")
    (entity,) = link(serve(nlp), text, **choice)["entities"]
    why = entity["why"]
    assert entity["id"] is None and expected.items() <= why.items()
    if why["reason"] == "threshold":
        measured = why["best"][why["measure"]]
        assert measured < why["least"] and why["best"]["canonical_name"]
    # One with a concept needs no reason.
    (linked,) = link(serve(with_component(lambda doc: None)), "a heart attack")["entities"]
    assert linked["id"] and "why" not in linked


def test_a_text_says_whether_the_pipeline_knows_contexts(serve, with_component):
    def negate(doc):
        write_context(doc.ents[0], MentionContext(negated=True))

    text = "No cold, but insomnia."
    assert link(serve(with_component(negate)), text)["has_context"] is True
    assert "has_context" not in link(serve(with_component(lambda doc: None)), text)


@pytest.mark.parametrize(
    "words, resource",
    [(["family"], None), (["family", "negated"], None), ([], "Condition"), (["negated"], "Condition")],
)
def test_exported_contexts_keep_whose_finding_it_is(serve, with_component, words, resource):
    def tell(doc):
        write_context(doc.ents[0], MentionContext(family=True, person="friend"))

    client = serve(with_component(tell))
    text = "Her friend has insomnia."
    span = {"start": 15, "end": 23, "label": "DISORDER", "kb_id": "C0917801", "context": words}
    body = {"text": text, "spans": [span]}
    row = json.loads(client.post("/export", json={**body, "format": "fhir"}).json()["content"])
    # A friend is no relative.
    assert (row["context"], row["resource"]) == (sorted(words, key="negated family".index), resource)
    content = client.post("/export", json={**body, "format": "csv"}).json()["content"]
    (cells,) = csv.DictReader(content.splitlines())
    assert {flag: cells[flag] for flag in ("negated", "family")} == {
        flag: str(flag in words).lower() for flag in ("negated", "family")
    }


@pytest.mark.parametrize("word", MentionContext._fields[:5])
def test_each_context_is_exported_without_a_component_for_it(serve, make_nlp, word):
    client = serve(make_nlp())
    span = {"start": 0, "end": 8, "label": "DISORDER", "kb_id": "C0917801", "context": [word]}
    body = {"text": "insomnia", "spans": [span]}
    row = json.loads(client.post("/export", json={**body, "format": "fhir"}).json()["content"])
    content = client.post("/export", json={**body, "format": "csv"}).json()["content"]
    (cells,) = csv.DictReader(content.splitlines())
    assert row["context"] == [word] and cells[word] == "true"
