"""What threads and forked processes share: locks and caches.

In a forked process, locks that others held are free, and computing uses one thread. A fork copies memory, but only the
thread that forks. A child that waits for any other thread of its parent, whether for a lock or for a share of a
computation, waits forever."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Generic, TypeVar, cast
from weakref import WeakSet

# Values of a column that are remembered when they are read one by one.
KEPT_STRINGS = 1 << 16
# What components keep for other settings, as `find` takes them, or other pipelines with the same linker.
KEPT_DERIVED = 8
AnyLock = TypeVar("AnyLock")
Value = TypeVar("Value")
_locks: WeakSet[Any] = WeakSet()
_parent = os.getpid()
# On Linux, each thread's name.
_THREAD_NAMES = "self/task/*/comm"
_polars_thread = re.compile(r"polars-\d")
# Whether polars has threads that a child forked now would lack, and whether this process is such a child.
_has_polars_threads = False
_lacks_polars_threads = False
# Whether Python's garbage collector rests while a batch is worked on.
_is_paused = False


def free_in_children(lock: AnyLock) -> AnyLock:
    """Free a lock in forked processes, even if another thread held it, and return it. What it protects must be usable
    wherever the other thread stopped."""
    _locks.add(lock)
    return lock


class kept_property(cached_property[Value], Generic[Value]):  # noqa: N801  # a decorator
    """A property that is computed once. Python's own holds a lock of the class while it computes, up to 3.11."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        super().__init__(function)
        if lock := getattr(self, "lock", None):
            free_in_children(lock)


class EditLock:
    """Let one thread at a time change an object, and as often as it likes. Copies of the object have locks of their
    own, because locks cannot be pickled."""

    def __init__(self) -> None:
        self._lock = free_in_children(RLock())

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[EditLock], tuple[()]]:
        return type(self), ()


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


def is_forked() -> bool:
    """Return whether this process was forked after the plugin was imported, so that it may start no threads."""
    return os.getpid() != _parent


def check_polars(task: str) -> None:
    """Refuse a task for which polars would wait forever: nothing starts its threads again in a forked process."""
    if _lacks_polars_threads:
        raise RuntimeError(
            f"Can't {task} in this process: polars had started its threads before the process was forked, and a fork "
            f"lacks them, so it would wait forever. Either {task} before you fork, or start processes by the method "
            '"spawn" or "forkserver".'
        )


def _prepare_parent() -> None:
    global _has_polars_threads
    _has_polars_threads = "polars" in sys.modules and _finds_polars_threads()


def _finds_polars_threads() -> bool:
    """Return whether polars has started its threads; where the system does not say, it may have."""
    names = list(Path("/proc").glob(_THREAD_NAMES))
    for name in names:
        # A thread may end meanwhile.
        with suppress(OSError):
            if _polars_thread.match(name.read_text()):
                return True
    return not names


def _prepare_child() -> None:
    """Compute with one thread, because the parent's threads do not exist here, and free its locks."""
    global _lacks_polars_threads
    _lacks_polars_threads |= _has_polars_threads
    for lock in list(_locks):
        # As the modules threading and logging do with theirs.
        lock._at_fork_reinit()
    if _is_paused:
        gc.enable()
    # Not imported here: a process that has not used it yet has no threads of it.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Keep Python from looking for unreachable cycles while a batch makes thousands of objects that mostly stay. A full
    look at the objects of spaCy and PyTorch takes a third of a second. Such looks took a quarter of the time of
    linking."""
    global _is_paused
    was_enabled = gc.isenabled()
    gc.disable()
    _is_paused |= was_enabled
    try:
        yield
    finally:
        # In several threads, the first one that came enables it again, maybe before the others end.
        if was_enabled:
            _is_paused = False
            gc.enable()


# Windows has no forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare_parent, after_in_child=_prepare_child)
