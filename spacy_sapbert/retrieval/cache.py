"""A cache that drops the least recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from ..forking import free_in_children

Value = TypeVar("Value")


class LRUCache(Generic[Value]):
    """Map keys to the most recently used values. Threads can share a cache.

    size (int): Values kept; 0 keeps none.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = free_in_children(Lock())

    def __len__(self) -> int:
        """Return the number of values held."""
        return len(self._values)

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

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()

    def __reduce__(self) -> tuple[type[LRUCache[Value]], tuple[int]]:
        # Locks cannot be pickled, and a copy can fill its own cache.
        return type(self), (self.size,)
