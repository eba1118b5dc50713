"""Caches: each has a limit, and threads and forked processes can share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar, cast

from .forking import EditLock, free_in_children

Value = TypeVar("Value")
# For other settings, as `find` takes them, or other pipelines with the same linker.
KEPT_DERIVED = 8


class LRUCache(Generic[Value]):
    """Map keys to the most recently used values, `size` of them. Threads can share a cache."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = free_in_children(Lock())

    def get(self, key: Hashable) -> Value | None:
        """Return a value and mark it as used."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Store a value. If the cache is full, drop the least recently used value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self.size:
                self._values.popitem(last=False)

    def __reduce__(self) -> tuple[type[LRUCache[Value]], tuple[int]]:
        # Locks cannot be pickled, and a copy can fill its own cache.
        return type(self), (self.size,)


class Derived:
    """What components have made of a snapshot, each for its settings. Pipelines and threads can share a component,
    because nothing of this is kept in the component. Keys are compared by identity first, so long settings cost
    nothing."""

    def __init__(self) -> None:
        self._made: dict[str, list[tuple[Hashable, Any]]] = {}
        self._lock = EditLock()

    def get(self, kind: str, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return what was made for a key, or make it. The last few of each kind are kept."""
        for known, value in self._made.get(kind, ()):
            if known == key:
                return cast(Value, value)
        with self._lock:
            # Another thread may have been first.
            for known, value in self._made.get(kind, ()):
                if known == key:
                    return cast(Value, value)
            value = make()
            self._made[kind] = [(key, value), *self._made.get(kind, ())][:KEPT_DERIVED]
        return value

    def clear(self) -> None:
        """Forget everything, so that memory is free at once: much of it holds the snapshot itself."""
        self._made = {}

    def __reduce__(self) -> tuple[type[Derived], tuple[()]]:
        return type(self), ()
