"""The candidates of mentions with their features: made for many at once, and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..caches import LRUCache
from ..candidates import ROW, Candidates, Mentions
from ..ragged import pack_lists, take_lists, unpack_lists
from .features import QUERY, ConceptFacts, compute_document_features, compute_query_features
from .memory import AnnotationMemory, Lookup, Recollections
from .network import ListInput, Lists
from .prior import BEFORE_TRAINING, PRIOR

if TYPE_CHECKING:
    from ..candidates import ConceptFilter, Matched
    from ..snapshot import FixedLinker

# The place of the score that a network starts from, counted from the end.
PRIOR_SCORE = [*PRIOR].index("prior") - len(PRIOR)
# Mentions whose candidates are looked up and compared together.
MADE_AT_ONCE = 512


class MentionKey(NamedTuple):
    """What the candidates of a mention and most of their features depend on."""

    forms: tuple[str, ...]
    filter: int  # its number
    match: Matched  # what the matcher has found
    left_out: int | None  # the key of the document whose annotations do not count: its own, while training


class FeaturedCandidates(NamedTuple):
    """Candidates with those features that no document changes."""

    candidates: Candidates
    features: np.ndarray

    def take_mentions(self, numbers: np.ndarray) -> FeaturedCandidates:
        """Take the rows of some mentions, in any order, a mention as often as it is wanted."""
        if np.array_equal(numbers, np.arange(len(self.candidates))):
            return self
        rows, _ = take_lists(self.candidates.offsets, numbers)
        return FeaturedCandidates(self.candidates.take_mentions(numbers), self.features[rows])


class CandidateTable:
    """What a linker proposes for mentions, `n_candidates` deep, and which concepts similar mentions are annotated with.

    Before training, a candidate's features are those of `BEFORE_TRAINING`. Threads can share a table.
    """

    def __init__(
        self, linker: FixedLinker, n_candidates: int, memory: AnnotationMemory | None, size: int, *, is_trained: bool
    ) -> None:
        self._linker, self._n_candidates, self._memory = linker, n_candidates, memory
        self._is_trained = is_trained
        self.facts = ConceptFacts(linker.snapshot.retriever, linker.settings.output_source)
        self._filters: list[ConceptFilter] = []
        # For filters by their numbers, which concepts of the memory may become candidates.
        self._allowed: dict[int, np.ndarray] = {}
        n_features = len(QUERY if is_trained else BEFORE_TRAINING)
        self._row = np.dtype([*ROW.descr, ("features", np.float32, (n_features,))])
        self._cache = LRUCache[bytes](size)
        if memory is not None:
            self._of_memory = self.facts.number_ids(memory.concepts)
            order = np.argsort(self._of_memory, kind="stable")
            order = order[self._of_memory[order] >= 0]
            self._in_memory = Lookup(self._of_memory[order], order)

    def make_keys(self, mentions: Mentions, left_out: Sequence[int] | None = None) -> list[MentionKey]:
        """Make the keys of mentions. Those with equal ones have the same candidates."""
        # By identity first: nearly all mentions share one filter, and comparing long lists of ids takes time.
        filters = {id(allowed): allowed for allowed in mentions.filters}
        numbers = {key: self._number_filter(allowed) for key, allowed in filters.items()}
        own: Sequence[int | None] = [None] * len(mentions)
        if left_out is not None and self._memory is not None:
            own = [key if self._memory.has_document(key) else None for key in left_out]
        return [
            MentionKey(forms, numbers[id(allowed)], match, key)
            for forms, allowed, match, key in zip(mentions.forms, mentions.filters, mentions.matches, own, strict=True)
        ]

    def _number_filter(self, allowed: ConceptFilter) -> int:
        if allowed not in self._filters:
            self._filters.append(allowed)
        return self._filters.index(allowed)

    def look_up(self, keys: Sequence[MentionKey]) -> FeaturedCandidates:
        """Get the candidates of mentions. Equal ones are made once."""
        known = {key: self._cache.get(key) for key in keys}
        missing = [key for key, packed in known.items() if packed is None]
        for start in range(0, len(missing), MADE_AT_ONCE):
            asked = missing[start : start + MADE_AT_ONCE]
            found, features = self._make(asked)
            for key, packed in zip(
                asked, pack_lists([*found.columns, features], found.offsets, self._row), strict=True
            ):
                known[key] = packed
                self._cache.put(key, packed)
        (*columns, features), offsets = unpack_lists([packed or b"" for packed in known.values()], self._row)
        table = FeaturedCandidates(Candidates([key.forms for key in known], offsets, *columns), features)
        places = {key: place for place, key in enumerate(known)}
        return table.take_mentions(np.array([places[key] for key in keys], dtype=np.int64))

    def read(self, keys: Sequence[MentionKey], documents: Sequence[int]) -> tuple[Candidates, ListInput, np.ndarray]:
        """Read what the network sees of mentions, each once for a document. Return the place of each mention too."""
        distinct: dict[tuple[int, MentionKey], int] = {}
        places = [distinct.setdefault(pair, len(distinct)) for pair in zip(documents, keys, strict=True)]
        found, features = self.look_up([key for _, key in distinct])
        lists = Lists(found.lengths)
        prior = np.ascontiguousarray(features[:, PRIOR_SCORE])
        if self._is_trained:
            numbers = self.facts.number(found.concept)
            document = np.array([number for number, _ in distinct], dtype=np.int64)
            # The first feature is the cosine.
            of_document = compute_document_features(lists, features[:, 0], numbers, document)
            features = np.hstack([features, of_document])
        return found, ListInput(features, prior, lists), np.array(places, dtype=np.int64)

    def _make(self, keys: Sequence[MentionKey]) -> FeaturedCandidates:
        mentions = Mentions()
        for key in keys:
            mentions.add(key.forms, self._filters[key.filter], key.match)
        found = self._linker.look_up(mentions, self._n_candidates)
        said = None
        if self._memory is not None:
            recalled = self._recall(keys, self._memory)
            found = self._add(found, np.array([key.filter for key in keys]), recalled)
            said = recalled, self._in_memory.get(self.facts.number(found.concept), -1)
        # Rounded, so that names with equal vectors have equal scores.
        scores = found.score.round(6).astype(np.float32)
        if not self._is_trained:
            return FeaturedCandidates(found, self.facts.compute_prior(found, scores))
        return FeaturedCandidates(found, compute_query_features(found, scores, self.facts, said))

    def _recall(self, keys: Sequence[MentionKey], memory: AnnotationMemory) -> Recollections:
        texts = [key.forms[0] if key.forms else "" for key in keys]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        vectors = self._linker.snapshot.encode([*places], self._linker.settings.batch_size)
        return memory.recall(texts, vectors[[places[text] for text in texts]], [key.left_out for key in keys])

    def _add(self, found: Candidates, filters: np.ndarray, said: Recollections) -> Candidates:
        """Add concepts that similar mentions are annotated with, if the linker may link to them. They have the lowest
        score of the mention's candidates."""
        # A code does not say which of its concepts was meant.
        if self._linker.settings.output_source is not None:
            return found
        mention, place = said.list_added()
        concept = self._of_memory[place]
        n_concepts = len(self._linker.snapshot.retriever.terminology)
        known = np.isin(mention * n_concepts + concept, found.mention * n_concepts + found.concept)
        is_allowed = np.zeros(len(mention), dtype=bool)
        for number in np.unique(filters).tolist():
            of_filter = filters[mention] == number
            is_allowed[of_filter] = self._allow(number)[place[of_filter]]
        is_new = (concept >= 0) & ~known & is_allowed
        mention, concept = mention[is_new], concept[is_new]
        lowest = np.zeros(len(found))
        filled = found.lengths > 0
        lowest[filled] = found.score[found.offsets[1:][filled] - 1]
        order = np.argsort(np.concatenate([found.mention, mention]), kind="stable")
        none = np.zeros(len(mention), dtype=np.int64)
        columns = {
            "concept": np.concatenate([found.concept, concept]),
            "name": np.concatenate([found.name, none - 1]),
            "form": np.concatenate([found.form, none]),
            "score": np.concatenate([found.score, lowest[mention]]),
        }
        mention = np.concatenate([found.mention, mention])[order]
        return Candidates.of_rows(found.forms, mention, **{name: column[order] for name, column in columns.items()})

    def _allow(self, number: int) -> np.ndarray:
        """Tell which concepts of the memory a filter allows."""
        if number not in self._allowed:
            retriever, rows = self._linker.snapshot.retriever, self._of_memory
            names, offsets = retriever.allow(self._filters[number]).names, retriever.terminology.name_offsets
            self._allowed[number] = np.array(
                [row >= 0 and bool(names[offsets[row] : offsets[row + 1]].any()) for row in rows.tolist()], dtype=bool
            )
        return self._allowed[number]
