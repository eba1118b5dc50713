"""From mentions to proposals: the linkers' candidates with the features of the query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..candidates import encode_texts, find_hits
from ..linker_settings import LinkerSettings
from ..queries import Query, QueryMaker
from ..retrieval.cache import LRUCache
from ..retrieval.hits import Hits
from .concepts import ConceptTable
from .features.base import QueryBatch
from .features.listing import QUERY_GROUPS, compute_features
from .listed import Listed, join, rank
from .lists import Lists, Proposal
from .memory import AnnotationMemory
from .recollections import Recollections

if TYPE_CHECKING:
    from ..linker import SapbertLinker
    from ..snapshot import Snapshot

# The queries of a mention by each linker. Mentions with the same key have the same candidates.
QueryKey = tuple[tuple[Query, ...], ...]


class Mention(NamedTuple):
    """A mention to decide on.

    span (Span): The mention.
    document (int): The number of its document in the batch.
    queries (QueryKey): What is looked up for it.
    left_out (int | None): The key of the document whose annotations do not count: its own, while training.
    """

    span: Span
    document: int
    queries: QueryKey
    left_out: int | None = None


class Source(NamedTuple):
    """One linker, as it is at one moment.

    settings (LinkerSettings): Its settings, with as many candidates as the reranker takes.
    snapshot (Snapshot): Its encoder, terminology and index.
    make (QueryMaker): Makes its queries.
    """

    settings: LinkerSettings
    snapshot: Snapshot
    make: QueryMaker

    @classmethod
    def of(cls, linker: SapbertLinker, n_candidates: int) -> Source:
        """Fix a linker.

        linker (SapbertLinker): The linker.
        n_candidates (int): Distinct concepts to propose.
        RETURNS (Source): The linker at this moment.
        RAISES (ValueError): If it has no concepts.
        """
        settings = linker.settings.changed(k=n_candidates)
        snapshot = linker.get_snapshot()
        return cls(settings, snapshot, QueryMaker(settings, snapshot.retriever))


class Proposer:
    """Propose candidates with their features. Proposals are cached.

    sources (Sequence[Source]): The linkers.
    table (ConceptTable): What the first linker's terminology says of concepts.
    memory (AnnotationMemory | None): The annotations.
    cache (LRUCache[Proposal]): Proposals by queries and document left out.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        table: ConceptTable,
        memory: AnnotationMemory | None,
        cache: LRUCache[Proposal],
    ) -> None:
        self._sources, self._table, self._memory, self._cache = sources, table, memory, cache

    def ask(self, doc: Doc, *groups: Iterable[Span]) -> list[list[QueryKey | None]]:
        """Make the queries for groups of spans of a document.

        doc (Doc): The document.
        *groups (Iterable[Span]): The spans.
        RETURNS (list[list[QueryKey | None]]): For each group the queries of each span; None for labels that the first
            linker does not link.
        """
        by_linker = [source.make.from_spans(doc, *groups) for source in self._sources]
        return [
            [None if of[0] is None else tuple(tuple(found or ()) for found in of) for of in zip(*group, strict=True)]
            for group in zip(*by_linker, strict=True)
        ]

    def ask_texts(self, texts: Sequence[str]) -> list[QueryKey]:
        """Make the queries for strings.

        texts (Sequence[str]): The strings.
        RETURNS (list[QueryKey]): The queries of each.
        """
        by_linker = [source.make.from_texts(texts) for source in self._sources]
        return [tuple(tuple(found) for found in of) for of in zip(*by_linker, strict=True)]

    def propose(self, mentions: Sequence[Mention]) -> list[Proposal]:
        """Propose candidates.

        mentions (Sequence[Mention]): The mentions.
        RETURNS (list[Proposal]): One for each; equal mentions share one.
        """
        keys = [(mention.queries, self._left_out(mention)) for mention in mentions]
        known = {key: self._cache.get(key) for key in dict.fromkeys(keys)}
        unknown = [key for key, proposal in known.items() if proposal is None]
        if unknown:
            made = self._make([queries for queries, _ in unknown], [left_out for _, left_out in unknown])
            for key, new in zip(unknown, made, strict=True):
                known[key] = new
                self._cache.put(key, new)
        return [proposal for key in keys if (proposal := known[key]) is not None]

    def _left_out(self, mention: Mention) -> int | None:
        key = mention.left_out
        return key if key is not None and self._memory is not None and self._memory.has_document(key) else None

    def _make(self, asked: Sequence[QueryKey], left_out: Sequence[int | None]) -> list[Proposal]:
        found = [
            find_hits({query: None for of in asked for query in of[place]}, source.settings, source.snapshot)
            for place, source in enumerate(self._sources)
        ]
        forms = [list(dict.fromkeys(query.text for queries in of for query in queries)) for of in asked]
        recollections = self._recall(forms, left_out)
        listed = [self._list(of, of_mention, found) for of, of_mention in zip(asked, forms, strict=True)]
        if recollections is not None:
            added = zip(listed, asked, recollections.list_added(), strict=True)
            listed = [self._add(of_mention, queries[0], ids) for of_mention, queries, ids in added]
        lists = Lists([len(of_mention.concepts) for of_mention in listed])
        joined = Listed(*map(np.concatenate, zip(*listed, strict=True)))
        ids = self._table.list_ids(joined.concepts)
        # Rounded, so that names with equal vectors have equal scores.
        scores = joined.scores.round(6).astype(np.float32)
        batch = QueryBatch(
            forms, ids, joined.concepts, joined.names, joined.found_by, lists, scores, recollections, self._table
        )
        features = compute_features(QUERY_GROUPS, batch)
        numbers, first = self._table.number(ids), np.ascontiguousarray(scores[:, 0])
        columns = numbers, joined.concepts, joined.names, joined.found_by, joined.cosines, first, features
        return [
            # Copies, because a view would keep the arrays of all mentions.
            Proposal(of_mention, ids[start:end], {}, *(column[start:end].copy() for column in columns))
            for of_mention, start, end in zip(forms, lists.offsets[:-1], lists.offsets[1:], strict=True)
        ]

    def _list(self, asked: QueryKey, forms: list[str], found: Sequence[dict[Query, Hits]]) -> Listed:
        ranked = [
            rank(queries, forms, of_linker, source.settings, self._table)
            for queries, of_linker, source in zip(asked, found, self._sources, strict=True)
        ]
        return join(ranked, self._table)

    def _recall(self, forms: Sequence[list[str]], left_out: Sequence[int | None]) -> Recollections | None:
        if self._memory is None:
            return None
        texts = [of[0] if of else "" for of in forms]
        settings, snapshot, _ = self._sources[0]
        known = encode_texts([*dict.fromkeys(texts)], snapshot, settings.batch_size)
        # A string without a known token is near to nothing.
        nowhere = np.zeros(snapshot.encoder.width, dtype=np.float32)
        vectors = np.stack([known.get(text, nowhere) for text in texts])
        return self._memory.recall(texts, vectors, left_out)

    def _add(self, listed: Listed, queries: Sequence[Query], ids: Sequence[str]) -> Listed:
        """Add concepts that similar mentions are annotated with, if the linker may link to them."""
        settings, snapshot, _ = self._sources[0]
        if settings.output_source is not None or not queries or not ids:
            return listed
        known = set(listed.concepts.tolist())
        retriever = snapshot.retriever
        added = []
        for id_ in ids:
            if id_ not in retriever.terminology:
                continue
            row = retriever.terminology.row(id_)
            names = slice(*retriever.terminology.name_offsets[row : row + 2].tolist())
            allowed = queries[0].filter
            if row not in known and (allowed.is_open or retriever.allow(allowed).names[names].any()):
                added.append(row)
        return listed.add(added)
