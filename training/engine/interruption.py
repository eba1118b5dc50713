"""Ctrl-C ends a run between steps, after the current step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StepInterrupted(Exception):
    """Raised when the user interrupts a step that has not changed anything yet."""


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
    """Record Ctrl-C and termination signals instead of stopping within a step.

    YIELDS (Interruption): Set when a signal arrives. Only the main thread receives signals.
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
