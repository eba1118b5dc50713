"""Gold documents of spaCy: made of the texts and mentions of a corpus, with ids as a terminology writes them, split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import (
    DOC_ID,
    LABEL,
    OVERLAPPING,
    AnnotatedText,
    Annotation,
    ExchangeReport,
    make_doc,
)
from spacy_sapbert.exchange.fields import ID_SEPARATOR
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.codes import Key, make_key

from ..data.mentions import EQUAL_IDS, Mention
from .reading import CorpusParts

# Between a document's name and the number of a piece of it.
PIECE = "#"


def name_document(doc: Doc) -> str:
    """Name the document that a text is, or is a piece of: texts with equal names belong together in a split."""
    return str(doc.user_data.get(DOC_ID, "")).partition(PIECE)[0]


def list_gold_spans(doc: Doc) -> list[Span]:
    """List the entities with an id, and the mentions that overlap them."""
    return [span for span in (*doc.ents, *doc.spans.get(OVERLAPPING, ())) if span.kb_id_]


def make_gold_docs(
    corpus: CorpusParts, part: str, tokenize: Callable[[str], Doc], report: ExchangeReport
) -> Iterator[Doc]:
    """Make the documents of a part of a corpus, with their names in `user_data`.

    Gold mentions are entities, with their ids in `kb_id_`: several with "|" between them, or "NIL". Of mentions that
    overlap, the longest is an entity; the others are in the span group `OVERLAPPING`. A mention that begins or ends
    inside a token is extended to whole tokens. Without its whole text, each mention is a document, with the text around
    it.
    """
    texts = corpus.texts.get(part, {})
    whole: dict[str, list[Mention]] = {doc_id: [] for doc_id in texts}
    documents = []
    for number, mention in enumerate(corpus.mentions.get(part, ()), 1):
        if mention.doc_id in texts:
            whole[mention.doc_id].append(mention)
        else:
            name = f"{mention.doc_id}{PIECE}{number}" if mention.doc_id else f"{part}-{number}"
            documents.append((name, *_stand_alone(mention)))
    documents += [(doc_id, text, whole[doc_id]) for doc_id, text in texts.items()]
    for doc_id, text, mentions in documents:
        annotations = []
        for mention in mentions:
            place = mention.place or f"document {doc_id}"
            if mention.start is None or mention.end is None:
                report.leave_out("mentions in several pieces", f"{place}: {mention.text!r:.60}")
                continue
            kb_id = ID_SEPARATOR.join(mention.ids) or NIL
            annotations.append(Annotation(mention.start, mention.end, mention.type or LABEL, kb_id, place))
        yield make_doc(AnnotatedText(doc_id, text, annotations), tokenize, report, inside_tokens="expand")


def _stand_alone(mention: Mention) -> tuple[str, list[Mention]]:
    """Make a text of a mention whose document is not known: the text around it, or the mention itself."""
    if mention.start is None or mention.window_start is None or not mention.window:
        return mention.text, [replace(mention, start=0, end=len(mention.text), fragments=[])]
    start = mention.start - mention.window_start
    return mention.window, [replace(mention, start=start, end=start + len(mention.text))]


class KnownIds:
    """The ids of a terminology, with and without prefixes. Codes of its concepts are other ids of them. Prefixes of one
    source are equal: "HPO:HP:0001649" is "HP:0001649".

    joined (bool): Concepts with several equal ids keep all of them in one, as the linker writes them.
    """

    def __init__(self, terminology: Terminology, *, joined: bool = False) -> None:
        self._exact: dict[Key | str, dict[str, None]] = {}
        self._plain: dict[str, dict[str, None]] = {}
        self._find_id = terminology.find_id
        for id_, codes in terminology.concepts.select("id", "codes").rows():
            # A dictionary writes the equal ids of a concept as one; an id with a bar in it would look like two.
            for written in (id_, *id_.split(EQUAL_IDS), *codes):
                own = {written if EQUAL_IDS in id_ and not joined else id_: None}
                self._exact.setdefault(make_key(written) or written, {}).update(own)
                self._plain.setdefault(_take_prefix_off(written), {}).update(own)

    def resolve(self, ids: Iterable[str]) -> list[str]:
        """List the distinct concepts that ids of a corpus stand for; none for unknown ids. An id that is not there as
        written is looked up without the prefix ("MESH:D003924", "D003924"), on both sides."""
        concepts: dict[str, None] = {}
        for id_ in ids:
            exact = (self._exact.get(make_key(one) or one) for one in (id_, self._find_id(id_)) if one)
            concepts |= next(filter(None, exact), self._plain.get(_take_prefix_off(id_), {}))
        return list(concepts)


def _take_prefix_off(id_: str) -> str:
    return id_.rpartition(":")[2]


def split_documents(docs: Sequence[Doc], shares: Mapping[str, float], *, seed: int = 0) -> dict[str, list[Doc]]:
    """Split documents at random into parts of given shares. All pieces of a document come into one part, and the draw
    does not depend on the order of the documents."""
    names = sorted({name_document(doc) for doc in docs})
    parts = {part: share for part, share in shares.items() if share}
    if min(shares.values()) < 0 or abs(sum(shares.values()) - 1) > 1e-6 or len(names) < len(parts):
        listed = ", ".join(f"{part} {share:g}" for part, share in shares.items())
        raise ValueError(
            f"Can't split {len(names)} documents into {listed}: shares are 0 or more, sum up to 1, and each part needs "
            "a document. Correct the shares, or give more documents."
        )
    ends = np.round(np.cumsum(list(parts.values())) * len(names)).astype(int)
    # Each part gets one document at least.
    least = np.arange(len(ends)) + 1
    most = least + len(names) - len(ends)
    ends = np.minimum(np.maximum(ends, least), most)
    order = np.random.default_rng(seed).permutation(len(names))
    drawn = np.split(order, ends[:-1])
    part_of = {names[row]: part for part, rows in zip(parts, drawn, strict=True) for row in rows}
    return {part: [doc for doc in docs if part_of[name_document(doc)] == part] for part in parts}


def draw_mentions(docs: Sequence[Doc], n: int, *, seed: int = 0) -> list[Doc]:
    """Draw documents with `n` annotated mentions (0 for all): whole ones, and a last one with as many of its first
    mentions as are missing. A larger draw has all mentions of a smaller one."""
    if not n:
        return list(docs)
    drawn: list[Doc] = []
    for place in np.random.default_rng(seed).permutation(len(docs)):
        doc = docs[place]
        if n > 0 and list_gold_spans(doc):
            if n < len(doc.ents):
                doc = doc.copy()
                doc.ents = list(doc.ents)[:n]
            n -= len(doc.ents)
            drawn.append(doc)
    return drawn
