"""Small pipelines with a reranker, and annotated documents for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_sapbert.reranker.component import SapbertReranker

# Words and gold ids of the mentions in each document: the linker alone takes "cold" for the temperature, and
# these documents for the disease.
TEXTS: list[tuple[str, dict[str, str]]] = [
    ("He had a cold in winter", {"cold": "C0009443"}),
    ("She felt the cold outside", {"cold": "C0009443"}),
    ("Some cold , a heart attack", {"cold": "C0009443", "heart attack": "C0027051"}),
    ("Known hypertension and insomnia", {"hypertension": "C0020538", "insomnia": "C0917801"}),
    ("High blood pressure , no xyzzy", {"High blood pressure": "C0020538", "xyzzy": "NIL"}),
    ("Trouble sleeping in the cold", {"Trouble sleeping": "C0917801", "cold": "C0009443"}),
]


def make_examples(nlp: Language, texts: Sequence[tuple[str, dict[str, str]]] = TEXTS) -> list[Example]:
    """Make examples whose gold entities have the given ids."""
    examples = []
    for text, links in texts:
        reference = nlp.make_doc(text)
        spans = []
        for words, kb_id in links.items():
            at = text.index(words)
            span = reference.char_span(at, at + len(words), label="DISORDER", kb_id=kb_id)
            assert isinstance(span, Span)
            spans.append(span)
        reference.ents = spans
        examples.append(Example(nlp.make_doc(text), reference))
    return examples


def add_reranker(
    nlp: Language, examples: Iterable[Example] | None = None, *, seed: int = 0, **settings: Any
) -> SapbertReranker:
    """Add a reranker and initialize it with examples."""
    fix_random_seed(seed)
    reranker = nlp.add_pipe("sapbert_reranker", config=settings)
    assert isinstance(reranker, SapbertReranker)
    if examples is not None:
        given = list(examples)
        reranker.initialize(lambda: given, nlp=nlp)
    return reranker


def train(nlp: Language, examples: list[Example], *, steps: int = 30) -> dict[str, float]:
    """Update the reranker alone, with the linker in front of it."""
    optimizer = nlp.create_optimizer()
    losses: dict[str, float] = {}
    others = [name for name in nlp.pipe_names if name != "sapbert_reranker"]
    for _ in range(steps):
        losses = {}
        nlp.update(examples, sgd=optimizer, losses=losses, annotates=others, exclude=others)
    return losses


MakeNlp = Callable[..., Language]
