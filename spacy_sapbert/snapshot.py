"""What a linker works with, as one object that is replaced as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .errors import Errors
from .forking import free_in_children
from .retrieval.cache import LRUCache

if TYPE_CHECKING:
    from .encoder.shim import EncoderShim
    from .retrieval.retriever import Retriever

# More distinct strings than a batch of documents has; 8 MB with vectors of 256 numbers.
RECENT_VECTORS = 8192


@dataclass(frozen=True)
class Snapshot:
    """Encoder, terminology, index and cache of a linker at one moment.

    A search works with one snapshot from its first line to its last. Whatever changes a linker makes another snapshot
    aside and puts it in place at the end, so no search sees half of a change.

    name (str): The name of the linker, for messages.
    encoder (EncoderShim): The encoder.
    built (Retriever | None): Terminology and index, built with this encoder; None before `initialize`.
    cache (LRUCache): Candidates that were found with them, by `k` and query.
    vectors (LRUCache): Vectors of the last strings, which a reranker behind the linker looks up again.
    """

    name: str
    encoder: EncoderShim
    built: Retriever | None
    cache: LRUCache[Any]
    vectors: LRUCache[Any]

    @classmethod
    def create(cls, name: str, encoder: EncoderShim, built: Retriever | None, cache_size: int) -> Snapshot:
        """Create a snapshot with empty caches.

        name (str): The name of the linker.
        encoder (EncoderShim): The encoder.
        built (Retriever | None): Terminology and index.
        cache_size (int): Mentions whose candidates are remembered; 0 remembers no vectors either.
        RETURNS (Snapshot): The snapshot.
        """
        return cls(name, encoder, built, LRUCache(cache_size), LRUCache(min(RECENT_VECTORS, cache_size)))

    @property
    def retriever(self) -> Retriever:
        """Return terminology and index together.

        RETURNS (Retriever): The retriever.
        RAISES (ValueError): If the linker has not been initialized.
        """
        if self.built is None:
            raise ValueError(Errors.E401.format(name=self.name))
        return self.built

    def replaced(self, *, encoder: EncoderShim | None = None, retriever: Retriever | None = None) -> Snapshot:
        """Make a snapshot with other parts.

        encoder (EncoderShim | None): Another encoder; None keeps the present one.
        retriever (Retriever | None): Another retriever; None for a linker without concepts.
        RETURNS (Snapshot): The new one, with an empty cache. A search that goes on adds to the old cache.
        RAISES (ValueError): If the index was built with another encoder.
        """
        new = Snapshot.create(self.name, encoder or self.encoder, retriever, self.cache.size)
        # An encoder that is loaded later is checked then, by the first search.
        if retriever is not None and new.encoder.is_loaded:
            new.check_encoder()
        return new

    def fixed(self) -> Snapshot:
        """Make the snapshot that one search works with.

        RETURNS (Snapshot): This one, with an encoder that stays the same even if `linker.encoder.load` is called.
        RAISES (ValueError): If the linker has no concepts, or its encoder was exchanged.
        """
        fixed = replace(self, encoder=self.encoder.fixed())
        fixed.check_encoder()
        return fixed

    def check_encoder(self) -> None:
        """Check that the index was built with the encoder.

        RAISES (ValueError): If it was built with another one, or there is no index or no encoder.
        """
        index, encoder = self.retriever.index.fingerprint, self.encoder.fingerprint
        if index != encoder:
            raise ValueError(Errors.E402.format(name=self.name, index=index[:8], encoder=encoder[:8]))


class EditLock:
    """Let one thread at a time change a linker. The thread that has the lock may take it again.

    A copy of a linker has a lock of its own, because locks cannot be pickled.
    """

    def __init__(self) -> None:
        self._lock = free_in_children(RLock())

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[EditLock], tuple[()]]:
        return type(self), ()
