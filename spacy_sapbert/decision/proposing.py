"""From mentions to proposals: the linkers' candidates with the features of the query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..candidates import Candidate, encode_texts, find_candidates, merge_candidates
from ..linker_settings import LinkerSettings
from ..queries import Query, QueryMaker
from ..retrieval.cache import LRUCache
from .concepts import ConceptTable
from .features.base import QueryBatch
from .features.listing import QUERY_GROUPS, compute_features
from .lists import Lists, Proposal
from .memory import AnnotationMemory, Recollection

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
    table (ConceptTable): The concepts of the first linker's terminology.
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
            find_candidates((query for of in asked for query in of[place]), source.settings, source.snapshot)
            for place, source in enumerate(self._sources)
        ]
        forms = [list(dict.fromkeys(query.text for queries in of for query in queries)) for of in asked]
        recollections = self._recall(forms, left_out)
        candidates: list[Candidate] = []
        scores: list[np.ndarray] = []
        lengths = []
        for of, recollection in zip(asked, recollections, strict=True):
            ranked = [
                _rank(queries, found[place], source.settings)
                for place, (queries, source) in enumerate(zip(of, self._sources, strict=True))
            ]
            joined = _join(ranked)
            if recollection is not None:
                self._add(joined, of, recollection)
            candidates += joined
            lengths.append(len(joined))
            scores.append(_align(joined, ranked))
        facts = [self._table.get_facts(candidate["concept_id"]) for candidate in candidates]
        lists = Lists(lengths)
        batch = QueryBatch(forms, candidates, lists, np.concatenate(scores), facts, recollections)
        features = compute_features(QUERY_GROUPS, batch)
        numbers = np.array([self._table.get_number(candidate["id"]) for candidate in candidates], dtype=np.int64)
        first = np.ascontiguousarray(batch.scores[:, 0])
        places = [slice(start, end) for start, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)]
        return [Proposal(candidates[at], numbers[at], first[at], features[at]) for at in places]

    def _recall(self, forms: Sequence[list[str]], left_out: Sequence[int | None]) -> list[Recollection | None]:
        if self._memory is None:
            return [None] * len(forms)
        texts = [of[0] if of else "" for of in forms]
        settings, snapshot, _ = self._sources[0]
        known = encode_texts([*dict.fromkeys(texts)], snapshot, settings.batch_size)
        # A string without a known token is near to nothing.
        nowhere = np.zeros(snapshot.encoder.width, dtype=np.float32)
        vectors = np.stack([known.get(text, nowhere) for text in texts])
        return [*self._memory.recall(texts, vectors, left_out)]

    def _add(self, joined: list[Candidate], asked: QueryKey, recollection: Recollection) -> None:
        """Add concepts that similar mentions are annotated with, if the linker may link to them."""
        settings, snapshot, _ = self._sources[0]
        if settings.output_source is not None or not asked[0]:
            return
        known = {candidate["id"] for candidate in joined}
        query = asked[0][0]
        retriever = snapshot.retriever
        for id_ in recollection.list_added():
            if id_ in known or id_ not in retriever.terminology:
                continue
            row = retriever.terminology.row(id_)
            names = slice(*retriever.terminology.name_offsets[row : row + 2].tolist())
            if not query.filter.is_open and not retriever.allow(query.filter).names[names].any():
                continue
            _, canonical_name, types = (column[row] for column in retriever.concept_columns)
            joined.append(
                {
                    "id": id_,
                    "concept_id": id_,
                    "score": joined[-1]["score"] if joined else 0.0,
                    "name": canonical_name,
                    "canonical_name": canonical_name,
                    "types": types.to_list(),
                    "mention": query.text,
                }
            )


def _rank(queries: Iterable[Query], found: dict[Query, list[Candidate]], settings: LinkerSettings) -> list[Candidate]:
    """Merge what one linker found for the forms of a mention, as the linker does, but without copies."""
    candidates: list[Candidate] = []
    for query in queries:
        candidates = merge_candidates(candidates, found[query], settings.k) if candidates else found[query]
    threshold = round(settings.threshold, 6)
    return [candidate for candidate in candidates if round(candidate["score"], 6) >= threshold]


def _join(ranked: Sequence[list[Candidate]]) -> list[Candidate]:
    """Join the candidates of several linkers: the first one's order, then what others found as well."""
    if len(ranked) == 1:
        return [*ranked[0]]
    distinct: dict[str, Candidate] = {}
    for candidates in ranked:
        for candidate in candidates:
            distinct.setdefault(candidate["id"], candidate)
    return [*distinct.values()]


def _align(joined: Sequence[Candidate], ranked: Sequence[list[Candidate]]) -> np.ndarray:
    """Return each candidate's score by each linker, or the lowest one of a linker that did not find it."""
    scores = np.empty((len(joined), len(ranked)), dtype=np.float32)
    for place, candidates in enumerate(ranked):
        found = {candidate["id"]: candidate["score"] for candidate in candidates}
        lowest = min(found.values(), default=0.0)
        # Rounded, so that names with equal vectors have equal scores.
        scores[:, place] = [round(found.get(candidate["id"], lowest), 6) for candidate in joined]
    return scores
