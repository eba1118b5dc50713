"""From documents to the network's input, and to what is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc

from .context import Context
from .features.base import DocumentBatch
from .features.listing import DOCUMENT_GROUPS, compute_features
from .gold import GoldMention
from .lists import Lists, Proposal
from .memory import document_key
from .network import ListInput
from .proposing import Mention


class Asked(NamedTuple):
    """The mentions of documents.

    mentions (list[Mention]): Those to decide on.
    places (list[list[list[int | None]]]): For each document, for its entities and its spans, the place of each in
        `mentions`; None where the linker does not link.
    """

    mentions: list[Mention]
    places: list[list[list[int | None]]]


class GoldBatch(NamedTuple):
    """Annotated mentions of documents that the same linkers have linked.

    context (Context): The linkers.
    mentions (list[Mention]): The mentions.
    right (list[frozenset[str]]): The ids of which any is right; none for NIL and for ids that the terminology lacks.
    """

    context: Context
    mentions: list[Mention]
    right: list[frozenset[str]]


def read_documents(docs: Sequence[Doc], context: Context) -> Asked:
    """Read the mentions of documents.

    docs (Sequence[Doc]): The documents.
    context (Context): The linkers.
    RETURNS (Asked): The mentions.
    """
    mentions: list[Mention] = []
    places: list[list[list[int | None]]] = []
    spans_key = context.sources[0].settings.spans_key
    for number, doc in enumerate(docs):
        groups = [doc.ents, doc.spans[spans_key] if spans_key and spans_key in doc.spans else ()]
        rows: list[list[int | None]] = []
        for group, asked in zip(groups, context.proposer.ask(doc, *groups), strict=True):
            row: list[int | None] = []
            for span, queries in zip(group, asked, strict=True):
                row.append(None if queries is None else len(mentions))
                if queries is not None:
                    mentions.append(Mention(span, number, queries))
            rows.append(row)
        places.append(rows)
    return Asked(mentions, places)


def read_gold(documents: Sequence[Sequence[GoldMention]], context: Context) -> GoldBatch:
    """Read annotated mentions. Annotations of their own document do not count as priors.

    documents (Sequence[Sequence[GoldMention]]): The annotated mentions of each document.
    context (Context): The linkers.
    RETURNS (GoldBatch): The mentions that the first linker links.
    """
    batch = GoldBatch(context, [], [])
    for number, found in enumerate(documents):
        doc = found[0].span.doc
        key = document_key(doc.text)
        (asked,) = context.proposer.ask(doc, [gold.span for gold in found])
        for gold, queries in zip(found, asked, strict=True):
            if queries is not None:
                batch.mentions.append(Mention(gold.span, number, queries, key))
                batch.right.append(context.gold.resolve(gold.kb_id))
    return batch


def build_input(context: Context, mentions: Sequence[Mention]) -> tuple[list[Proposal], ListInput]:
    """Build the network's input.

    context (Context): The linkers.
    mentions (Sequence[Mention]): The mentions.
    RETURNS (tuple[list[Proposal], ListInput]): The candidates of each mention, and their features.
    """
    proposals = context.proposer.propose(mentions)
    lists = Lists([len(proposal.ids) for proposal in proposals])
    empty = np.zeros(0, dtype=np.int64)
    concepts = np.concatenate([empty, *(proposal.numbers for proposal in proposals)])
    scores = np.concatenate([empty.astype(np.float32), *(proposal.scores for proposal in proposals)])
    documents = np.array([mention.document for mention in mentions], dtype=np.int64)
    batch = DocumentBatch(proposals, lists, concepts, scores, documents)
    of_document = compute_features(DOCUMENT_GROUPS, batch)
    of_query = np.concatenate([proposal.features for proposal in proposals]) if proposals else of_document[:, :0]
    return proposals, ListInput(np.hstack([of_query, of_document]), scores, lists)


def mark_right(proposals: Sequence[Proposal], right: Sequence[frozenset[str]], lists: Lists) -> np.ndarray:
    """Mark the right rows: the right candidates, or NIL where there is none.

    proposals (Sequence[Proposal]): The candidates of each mention.
    right (Sequence[frozenset[str]]): The right ids of each mention.
    lists (Lists): Which candidates are whose.
    RETURNS (ndarray): Whether each row of `Lists.with_nil` is right; bool.
    """
    found = [id_ in ids for proposal, ids in zip(proposals, right, strict=True) for id_ in proposal.ids]
    is_right = np.array(found, dtype=bool)
    return lists.with_nil(is_right, ~lists.best(is_right, empty=False))
