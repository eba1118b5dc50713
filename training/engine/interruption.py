"""Ctrl-C between steps: a step that has begun is finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StepInterrupted(Exception):
    """A step was given up, before it changed anything, because the user asked the run to end."""


class Interruption:
    """Whether the user has asked the run to end."""

    def __init__(self) -> None:
        self.is_wanted = False

    def ask(self, *_: Any) -> None:
        """Ask the run to end. The second request stops it at once."""
        if self.is_wanted:
            raise KeyboardInterrupt
        self.is_wanted = True


@contextmanager
def watch_signals() -> Iterator[Interruption]:
    """Note Ctrl-C and requests to terminate, instead of stopping within a step.

    YIELDS (Interruption): Asked when a signal arrives. Threads other than the main one receive none.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, interruption.ask) for number in SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
