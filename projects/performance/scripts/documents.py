"""Documents made of mentions, with the entities set, so that linking them is all that is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

# About as many as an abstract has.
MENTIONS_A_DOCUMENT = 10
LABEL = "ENTITY"


def make_documents(mentions: Sequence[str]) -> DocBin:
    """Make documents with a sentence for each mention, in the order given.

    mentions (Sequence[str]): The mentions.
    RETURNS (DocBin): The documents, with the mentions as entities.
    """
    nlp = spacy.blank("en")
    starts = range(0, len(mentions), MENTIONS_A_DOCUMENT)
    return DocBin(docs=[_make_document(nlp, mentions[i : i + MENTIONS_A_DOCUMENT]) for i in starts])


def read_documents(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Read documents.

    path (Path): A file written by `DocBin.to_disk`.
    vocab (Vocab): The vocabulary of the pipeline that they are meant for.
    YIELDS (Doc): The documents.
    """
    yield from DocBin().from_disk(path).get_docs(vocab)


def _make_document(nlp: Language, mentions: Sequence[str]) -> Doc:
    text = ""
    offsets = []
    for mention in mentions:
        # Spaces on both sides make the mention a sequence of whole tokens.
        text += "It was thought of "
        offsets.append((len(text), len(text) + len(mention)))
        text += f"{mention} at first. "
    doc = nlp.make_doc(text)
    doc.set_ents([doc.char_span(start, end, LABEL, alignment_mode="expand") for start, end in offsets])
    return doc
