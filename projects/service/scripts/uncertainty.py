"""How uncertain a pipeline is about a document, to correct first what teaches most."""

from spacy.tokens import Doc

from spacy_sapbert.annotations import NIL


def rate_document(doc: Doc) -> float:
    """Rate a document from 0, certain: the mean of what its mentions' probabilities lack to 1. Without probabilities,
    the similarity of the best candidate stands in."""
    rates = []
    for ent in doc.ents:
        share = ent._.kb_probability
        if share is None:
            candidates = ent._.kb_candidates or []
            share = candidates[0]["score"] if candidates and ent.kb_id_ not in ("", NIL) else 0.0
        rates.append(min(1.0, max(0.0, 1.0 - share)))
    return sum(rates) / len(rates) if rates else 0.0
