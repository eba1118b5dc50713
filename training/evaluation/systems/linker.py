"""The pipeline component `sapbert_linker` as a system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc, Span, SpanGroup

from spacy_sapbert.encoder.shim import EncoderShim, make_huggingface_loader
from spacy_sapbert.terminology import TerminologyBuilder

from ..tasks import CorpusTask
from .base import System
from .blocks import pad

MENTIONS = "mentions"


class LinkerSystem(System):
    """The pipeline `sapbert_linker` over a terminology of the dictionary, with its approximate search.

    Each query is a document and its only mention. The linker returns one name of each concept, so names and concepts
    have the same ranks.

    encoder (str): Folder or hub name of the encoder.
    ids (Sequence[str]): The concept of each name of the dictionary that is going to be searched.
    k (int): Concepts proposed for a query.
    """

    def __init__(self, encoder: str, ids: Sequence[str] = (), *, k: int = 10) -> None:
        self.encoder = encoder
        self.ids = ids
        self.k = k
        self.index: dict[str, Any] = {}
        self._identity: dict[str, Any] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name encoder and number of candidates. See `System.identity`."""
        if self._identity is None:
            shim = EncoderShim({}, "auto")
            shim.load(self.encoder)
            self._identity = {"kind": "linker", "encoder": f"{shim.fingerprint} {shim.dtype}", "k": self.k}
        return self._identity

    def bind(self, task: CorpusTask) -> System:
        """Give the linker the ids of the task's dictionary. See `System.bind`."""
        bound = LinkerSystem(self.encoder, task.linking.ids, k=self.k)
        bound._identity = self.identity
        return bound

    def describe_search(self) -> dict[str, Any]:
        """Describe the index, with its recall as measured when it was built. See `System.describe_search`."""
        return {"search": self.index["scoring"], "recall": self.index["recall"].get("at_1")}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names with a pipeline that is built for them, at most `self.k`. See `Searcher.search`."""
        builder = TerminologyBuilder()
        row_of: dict[tuple[str, str], int] = {}
        for row, (concept, name) in enumerate(zip(self.ids, names, strict=True)):
            builder.add_name(concept, name)
            row_of.setdefault((concept, name), row)
        nlp = spacy.blank("en")
        linker: Any = nlp.add_pipe("sapbert_linker", config={"k": min(self.k, k), "spans_key": MENTIONS})
        linker.initialize(terminology=builder.build(), encoder=make_huggingface_loader(self.encoder))
        self.index = {**linker.index.configuration, "recall": linker.index.recall}
        docs = nlp.pipe(_make_doc(nlp.make_doc(query)) for query in queries)
        found = []
        for doc in docs:
            candidates = linker.get_candidates(doc.spans[MENTIONS][0]) if len(doc.spans[MENTIONS]) else []
            rows = [row_of[candidate["concept_id"], candidate["name"]] for candidate in candidates][:k]
            scores = [candidate["score"] for candidate in candidates][:k]
            found.append((np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32)))
        return pad(found, k)


def _make_doc(doc: Doc) -> Doc:
    spans = [Span(doc, 0, len(doc))] if len(doc) else []
    doc.spans[MENTIONS] = SpanGroup(doc, name=MENTIONS, spans=spans)
    return doc
