"""What a reranker works with for some linkers, checked once and used until one of them changes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import Errors, Warnings
from ..retrieval.cache import LRUCache
from .concepts import ConceptTable
from .gold import GoldIds
from .learned import Learned
from .lists import Proposal
from .proposing import Proposer, Source
from .settings import RerankerSettings

if TYPE_CHECKING:
    from ..linker import SapbertLinker


class Context:
    """Linkers at one moment, with the table of their concepts and the cache of proposals.

    name (str): The name of the reranker, for messages.
    linkers (Sequence[SapbertLinker]): The linkers.
    settings (RerankerSettings): The reranker's settings.
    learned (Learned): What the reranker has learned.
    RAISES (ValueError): If the linkers do not fit together, or are not those that it was trained with.
    """

    def __init__(
        self, name: str, linkers: Sequence[SapbertLinker], settings: RerankerSettings, learned: Learned
    ) -> None:
        self._linkers = [*linkers]
        self._parts = self._list_parts(settings, learned)
        self.sources = [Source.of(linker, settings.n_candidates) for linker in linkers]
        self._check(name, learned)
        terminology = self.sources[0].snapshot.retriever.terminology
        self.gold = GoldIds(terminology, self.sources[0].settings.output_source)
        cache: LRUCache[Proposal] = LRUCache(settings.cache_size)
        memory = learned.memory if settings.priors else None
        self.table = ConceptTable(self.sources[0].snapshot.retriever, self.sources[0].settings.output_source)
        self.proposer = Proposer(self.sources, self.table, memory, cache)

    def fits(self, linkers: Sequence[SapbertLinker], settings: RerankerSettings, learned: Learned) -> bool:
        """Tell whether this context is still right.

        linkers (Sequence[SapbertLinker]): The linkers.
        settings (RerankerSettings): The reranker's settings.
        learned (Learned): What the reranker has learned.
        RETURNS (bool): False if anything has been replaced.
        """
        if len(linkers) != len(self._linkers) or any(a is not b for a, b in zip(linkers, self._linkers, strict=True)):
            return False
        parts = self._list_parts(settings, learned)
        return all(new is old for new, old in zip(parts, self._parts, strict=True))

    def _list_parts(self, settings: RerankerSettings, learned: Learned) -> list[object]:
        parts: list[object] = [settings, learned.memory, learned.encoders]
        for linker in self._linkers:
            parts += [linker.settings, linker.retriever, linker.encoder.content]
        return parts

    def _check(self, name: str, learned: Learned) -> None:
        """Check that the linkers have one terminology, and are those that the reranker was trained with."""
        terminologies = [source.snapshot.retriever.terminology for source in self.sources]
        for linker, terminology in zip(self._linkers, terminologies, strict=True):
            if terminology is not terminologies[0] and terminology.fingerprint != terminologies[0].fingerprint:
                reason = f"the linkers '{self._linkers[0].name}' and '{linker.name}' have different terminologies"
                raise ValueError(Errors.E451.format(name=name, reason=reason))
        encoders = tuple(source.snapshot.encoder.fingerprint for source in self.sources)
        if learned.encoders and encoders != learned.encoders:
            found, expected = (", ".join(key[:8] for key in keys) for keys in (encoders, learned.encoders))
            reason = f"it was trained with the encoders {expected}, but its linkers have {found}"
            raise ValueError(Errors.E451.format(name=name, reason=reason))
        memory = learned.memory
        if memory is None or not memory.concepts or learned.terminology == terminologies[0].fingerprint:
            return
        if self.sources[0].settings.output_source is not None:
            return
        n_missing = sum(concept not in terminologies[0] for concept in memory.concepts)
        if 2 * n_missing > len(memory.concepts):
            reason = f"{n_missing} of the {len(memory.concepts)} concepts of its annotations are not in the terminology"
            raise ValueError(Errors.E451.format(name=name, reason=reason))
        warnings.warn(Warnings.W451.format(name=name, missing=n_missing, n=len(memory.concepts)), stacklevel=2)
