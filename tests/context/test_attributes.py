"""The context of mentions is read where its component has never been imported, and unknown is not the same as false."""

import pytest
import spacy
from linked import make_doc
from spacy.tokens import DocBin
from spacy.tokens.underscore import Underscore
from spacy.vocab import Vocab

from spacy_sapbert.annotations import get_user_data, make_attribute_key
from spacy_sapbert.context import MentionContext, has_context, read_context


def make_mentions(text):
    """Make a document of mentions of one word."""
    return make_doc(Vocab(), text, *((i, i + 1) for i in range(len(text.split()))))


def store(span, **values):
    get_user_data(span).update({make_attribute_key(span, name): value for name, value in values.items()})


def test_what_negspacy_writes_is_read_where_it_is_not_installed(monkeypatch):
    pytest.importorskip("negspacy.negation")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "D", "pattern": name} for name in ("fever", "cough")])
    pipeline.add_pipe("negex")
    data = DocBin(docs=pipeline.pipe(["No fever. A cough.", "A fever."]), store_user_data=True).to_bytes()
    monkeypatch.setattr(Underscore, "span_extensions", {})
    docs = DocBin().from_bytes(data).get_docs(Vocab())
    # Of the second document nobody can know: negspacy stores nothing for what it does not negate.
    negated, known = MentionContext(negated=True), MentionContext()
    assert [[read_context(ent) for ent in doc.ents] for doc in docs] == [[negated, known], [None]]


def test_attributes_of_context():
    doc = make_mentions("a b")
    first, second = doc.ents
    assert read_context(first) is None and not has_context([doc])
    store(first, is_family=True, is_historical=True, is_uncertain=False)
    assert read_context(first) == MentionContext(family=True, historical=True)
    assert has_context([make_mentions("c"), doc])
    assert read_context(first).words == ["family", "historical"]
    assert read_context(second) == MentionContext() and read_context(second, is_known=False) is None
    assert read_context(make_mentions("c").ents[0], is_known=True) == MentionContext()
    # medspaCy has looked at a document that has its graph.
    doc = make_mentions("a")
    doc.user_data["._.", "context_graph", None, None] = {}
    assert read_context(doc.ents[0]) == MentionContext()
