"""Ctrl-C between steps: what a step has begun, it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StepInterrupted(Exception):
    """A step was given up before it changed anything, because somebody wants the run to end."""


class Interruption:
    """Whether somebody wants the run to end."""

    def __init__(self) -> None:
        self.is_wanted = False

    def ask(self, *_: Any) -> None:
        """Ask for an end. The second time is not put off."""
        if self.is_wanted:
            raise KeyboardInterrupt
        self.is_wanted = True


@contextmanager
def watch_signals() -> Iterator[Interruption]:
    """Take note of Ctrl-C and of a request to terminate, instead of stopping in the middle of something.

    YIELDS (Interruption): Asked when a signal comes. In other threads than the main one, none does.
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
