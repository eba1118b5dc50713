"""How uncertain a pipeline is about a mention and about a document, to correct first what teaches most."""

from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import NIL


def rate_mention(ent: Span) -> float:
    """Rate a mention from 0, certain, to 1.

    ent (Span): A mention that has been through the pipeline.
    RETURNS (float): How far the probability of the decision is from 1; without a reranker, the best cosine.
    """
    probability = ent._.kb_probability if ent.has_extension("kb_probability") else None
    if probability is None:
        candidates = ent._.kb_candidates or [] if ent.has_extension("kb_candidates") else []
        probability = candidates[0]["score"] if candidates and ent.kb_id_ not in ("", NIL) else 0.0
    return min(1.0, max(0.0, 1.0 - float(probability)))


def rate_document(doc: Doc) -> float:
    """Rate a document: the sum of what its mentions are rated, those with the same words once."""
    rates: dict[str, float] = {}
    for ent in doc.ents:
        words = ent.text.lower()
        rates[words] = max(rates.get(words, 0.0), rate_mention(ent))
    return sum(rates.values())
