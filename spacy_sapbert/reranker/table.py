"""The candidates of mentions with their features: made for many at once, and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..candidates import ROW, Candidates, MentionToLink
from ..forking import LRUCache
from ..ragged import pack_lists, sum_lists, unpack_lists
from .features import QUERY, ConceptFacts, compute_document_features, compute_query_features
from .memory import AnnotationMemory, Learned, Recalled
from .network import ListInput, Lists
from .prior import BEFORE_TRAINING, compute_prior

if TYPE_CHECKING:
    from ..candidates import ConceptFilter, Matched
    from ..snapshot import FixedLinker
    from .settings import RerankerSettings

# Mentions whose candidates are looked up and compared together.
MADE_AT_ONCE = 1024


class MentionKey(NamedTuple):
    """What the candidates of a mention and most of their features depend on."""

    forms: tuple[str, ...]
    filter: int  # its number
    match: Matched  # what the matcher has found
    left_out: int | None  # the key of the document whose annotations do not count: its own, while training


class CandidateTable:
    """What a linker proposes for mentions, `n_candidates` deep, and which concepts similar mentions are annotated with.

    Before training, a candidate's features are those of `BEFORE_TRAINING`. Threads can share a table.
    """

    def __init__(self, linker: FixedLinker, settings: RerankerSettings, learned: Learned) -> None:
        from .second import SecondReader

        retriever = linker.snapshot.retriever
        second = learned.second
        self._linker = linker
        self._n_candidates = settings.n_candidates
        self._memory = learned.memory if settings.priors else None
        self._is_trained = learned.is_trained
        self._second = None if second is None else SecondReader(second, retriever)
        self._features = [*(QUERY if self._is_trained else BEFORE_TRAINING)]
        self._filters: list[ConceptFilter] = []
        # For filters by their numbers, which concepts of the memory may become candidates.
        self._allowed: dict[int, list[bool]] = {}
        # The candidates of a mention are remembered as the bytes of such rows, without what a document changes.
        alike = ("alike", np.int64, (2,))
        features = ("features", np.float32, (len(self._features),))
        self._row = np.dtype([*ROW.descr, alike, features])
        self._cache = LRUCache[bytes](settings.cache_size)
        self._retriever = retriever
        self._facts = ConceptFacts(retriever)
        self._source = linker.settings.output_source
        terminology = retriever.terminology
        concepts = [] if self._memory is None else self._memory.concepts
        # The rows of the memory's concepts, and their places there by the ids that candidates have.
        self._of_memory: list[int] = terminology.find_rows(concepts).tolist()
        if self._source is None:
            concepts = [terminology.find_id(concept) or concept for concept in concepts]
        self._in_memory = {concept: place for place, concept in reversed([*enumerate(concepts)])}

    def make_keys(self, mentions: Sequence[MentionToLink], left_out: Sequence[int] | None = None) -> list[MentionKey]:
        """Make the keys of mentions. Those with equal ones have the same candidates."""
        # By identity first: nearly all mentions share one filter, and comparing long lists of ids takes time.
        filters = {id(mention.filter): mention.filter for mention in mentions}
        numbers = {key: self._number_filter(allowed) for key, allowed in filters.items()}
        documents: Sequence[int | None] = [None] * len(mentions)
        if left_out is not None and self._memory is not None:
            documents = [key if self._memory.has_document(key) else None for key in left_out]
        return [
            MentionKey(mention.forms, numbers[id(mention.filter)], mention.match, document)
            for mention, document in zip(mentions, documents, strict=True)
        ]

    def _number_filter(self, allowed: ConceptFilter) -> int:
        if allowed not in self._filters:
            self._filters.append(allowed)
        return self._filters.index(allowed)

    def look_up(self, keys: Sequence[MentionKey]) -> tuple[Candidates, np.ndarray, np.ndarray]:
        """Get the candidates of mentions, which of them are alike, and the features that no document changes. Equal
        mentions are looked up once."""
        packed = {key: self._cache.get(key) for key in dict.fromkeys(keys)}
        missing = [key for key, rows in packed.items() if rows is None]
        for start in range(0, len(missing), MADE_AT_ONCE):
            block = missing[start : start + MADE_AT_ONCE]
            for key, rows in zip(block, self._make(block), strict=True):
                packed[key] = rows
                self._cache.put(key, rows)
        (*columns, alike, features), offsets = unpack_lists([packed[key] or b"" for key in keys], self._row)
        candidates = Candidates([key.forms for key in keys], offsets, *columns)
        return candidates, alike, features

    def read(self, keys: Sequence[MentionKey], documents: Sequence[int]) -> tuple[Candidates, ListInput, np.ndarray]:
        """Read what the network sees of mentions, each once for a document. Return the place of each mention too."""
        distinct: dict[tuple[int, MentionKey], int] = {}
        places = [distinct.setdefault(pair, len(distinct)) for pair in zip(documents, keys, strict=True)]
        candidates, alike, features = self.look_up([key for _, key in distinct])
        lists = Lists(candidates.lengths)
        prior = self._take(features, "prior")
        if self._is_trained:
            numbers = self._retriever.number_ids(candidates.concept, self._source)
            of_mentions = np.array([document for document, _ in distinct], dtype=np.int64)
            of_documents = compute_document_features(lists, self._take(features, "cosine"), numbers, of_mentions)
            features = np.hstack([features, of_documents])
        return candidates, ListInput(features, prior, lists, alike), np.array(places, dtype=np.int64)

    def _take(self, features: np.ndarray, name: str) -> np.ndarray:
        return np.ascontiguousarray(features[:, self._features.index(name)])

    def list_ids(self, concepts: np.ndarray) -> list[str]:
        """List the ids that candidates with these concepts have."""
        # Many candidates share a concept.
        distinct, places = np.unique(concepts, return_inverse=True)
        ids = [self._retriever.get_id(concept, self._source) for concept in distinct.tolist()]
        return [ids[place] for place in places.tolist()]

    def _make(self, keys: Sequence[MentionKey]) -> list[bytes]:
        mentions = [MentionToLink(key.forms, self._filters[key.filter], key.match) for key in keys]
        candidates = self._linker.look_up(mentions, self._n_candidates)
        remembered = None
        if self._memory is not None:
            recalled = self._recall(keys, self._memory)
            candidates = self._add(candidates, keys, recalled)
            places = [self._in_memory.get(id_, -1) for id_ in self.list_ids(candidates.concept)]
            remembered = self._memory.describe(recalled, map(places.__getitem__, candidates.slices))
        # Rounded, so that names with equal vectors have equal scores.
        scores = candidates.score.round(6).astype(np.float32)
        second = None if self._second is None else self._second.read(candidates, scores)
        prior = compute_prior(candidates, scores, self._facts.list_names, self._facts.bridged, second)
        if self._is_trained:
            features = compute_query_features(candidates, scores, self._facts, prior, remembered)
        else:
            features = np.stack([prior[name] for name in BEFORE_TRAINING], axis=1)
        columns = [*candidates.columns, prior["alike"], features]
        return pack_lists(columns, candidates.offsets, self._row)

    def _recall(self, keys: Sequence[MentionKey], memory: AnnotationMemory) -> list[Recalled]:
        texts = [key.forms[0] if key.forms else "" for key in keys]
        left_out = [key.left_out for key in keys]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors = self._linker.snapshot.encode([*places], self._linker.settings.batch_size)
        rows = [places[text] for text in texts]
        return memory.recall(texts, vectors[rows], left_out)

    def _add(self, candidates: Candidates, keys: Sequence[MentionKey], recalled: Sequence[Recalled]) -> Candidates:
        """Add concepts that similar mentions are annotated with, if the linker may link to them. They have the lowest
        score of the mention's candidates."""
        # A code does not say which of its concepts was meant.
        if self._source is not None:
            return candidates
        added = []
        for number, (key, of_mention, rows) in enumerate(zip(keys, recalled, candidates.slices, strict=True)):
            concepts = candidates.concept[rows].tolist()
            lowest = candidates.score[rows.stop - 1] if concepts else 0.0
            allowed = self._allow(key.filter)
            more = [self._of_memory[place] for place in of_mention.list_added() if allowed[place]]
            added += [(number, concept, lowest) for concept in more if concept not in concepts]
        if not added:
            return candidates
        mention, concept, score = map(np.array, zip(*added, strict=True))
        new = Candidates.of_rows(candidates.forms, mention, concept, np.full(len(added), -1), score)
        return candidates.followed_by(new)

    def _allow(self, number: int) -> list[bool]:
        """Tell which concepts of the memory a filter allows."""
        if number not in self._allowed:
            names = self._retriever.allow(self._filters[number]).names
            n_allowed = sum_lists(names, self._retriever.terminology.name_offsets)
            self._allowed[number] = [row >= 0 and bool(n_allowed[row]) for row in self._of_memory]
        return self._allowed[number]
