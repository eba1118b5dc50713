"""Splits of documents, and training parts of a given size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from spacy.tokens import Doc

from ...errors import Errors
from .gold import list_gold_spans, name_document


def split_documents(docs: Sequence[Doc], shares: Mapping[str, float], *, seed: int = 0) -> dict[str, list[Doc]]:
    """Split documents at random. All pieces of a document come into one part.

    docs (Sequence[Doc]): The documents.
    shares (Mapping[str, float]): The parts and their shares of the documents, which sum up to 1.
    seed (int): Seed of the draw, which does not depend on the order of the documents.
    RETURNS (dict[str, list[Doc]]): The documents of each part, in their order.
    RAISES (ValueError): If the shares do not sum up to 1, or a part would be empty.
    """
    names = sorted({name_document(doc) for doc in docs})
    wanted = {part: share for part, share in shares.items() if share}
    if min(shares.values()) < 0 or abs(sum(shares.values()) - 1) > 1e-6 or len(names) < len(wanted):
        listed = ", ".join(f"{part} {share:g}" for part, share in shares.items())
        raise ValueError(Errors.E722.format(documents=len(names), shares=listed))
    order = np.random.default_rng(seed).permutation(len(names))
    ends = np.round(np.cumsum(list(wanted.values())) * len(names)).astype(int)
    # Each part gets one document at least.
    for place in range(len(ends)):
        ends[place] = min(max(ends[place], place + 1), len(names) - (len(ends) - 1 - place))
    part_of = {}
    for rank, number in enumerate(order):
        part_of[names[number]] = list(wanted)[int(np.searchsorted(ends, rank, side="right"))]
    return {part: [doc for doc in docs if part_of[name_document(doc)] == part] for part in wanted}


def draw_mentions(docs: Sequence[Doc], n: int, *, seed: int = 0) -> list[Doc]:
    """Draw documents with a number of annotated mentions, for learning curves.

    docs (Sequence[Doc]): The documents.
    n (int): Mentions to draw; 0 for all.
    seed (int): Seed of the draw. A larger draw has all mentions of a smaller one.
    RETURNS (list[Doc]): Whole documents, and a last one with as many of its first mentions as are missing.
    """
    if not n:
        return list(docs)
    drawn: list[Doc] = []
    left = n
    for place in np.random.default_rng(seed).permutation(len(docs)):
        doc = docs[place]
        if not list_gold_spans(doc):
            continue
        if left < len(doc.ents):
            doc = doc.copy()
            doc.ents = list(doc.ents)[:left]
        left -= len(doc.ents)
        drawn.append(doc)
        if left <= 0:
            break
    return drawn
