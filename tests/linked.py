"""Documents with entities, and what was linked in them."""

import pytest
from spacy.tokens import Doc, Span


def make_doc(vocab, text, *ents):
    """Make a document of the words of a text, with entities from (start, end, label, id), the last two optional."""
    doc = Doc(vocab, words=text.split())
    doc.ents = [make_span(doc, *ent) for ent in ents]
    return doc


def make_span(doc, start, end, label="X", kb_id=""):
    return Span(doc, start, end, label=label, kb_id=kb_id)


def ids(candidates, key="id"):
    return [candidate[key] for candidate in candidates]


def best_ids(doc):
    return [ent.kb_id_ for ent in doc.ents]


def links(doc):
    """List all that was written, for comparisons."""
    return [(ent.text, ent.kb_id_, ent._.kb_candidates) for ent in doc.ents]


def assert_same(found, expected):
    """Compare links. In which batch a string is encoded moves the last bits of its scores."""
    assert [tuple(row[:2]) for row in found] == [row[:2] for row in expected]
    for (_, _, candidates), (_, _, others) in zip(found, expected, strict=True):
        assert [{**c, "score": 0.0} for c in candidates] == [{**c, "score": 0.0} for c in others]
        assert [c["score"] for c in candidates] == pytest.approx([c["score"] for c in others], abs=1e-6)
