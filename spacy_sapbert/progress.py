"""Show what long work is doing: a bar on a terminal, a line a minute in a log, nothing for short work. Everything goes
to stderr. The environment variable `TQDM_DISABLE=1` silences bars and lines, not `say`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

# Seconds of work before anything is shown, and between two lines in a log.
SHOW_AFTER = 10.0
LINE_EVERY = 60.0


def say(message: str, *, stream: TextIO | None = None) -> None:
    """Announce what has been made, on a line of its own above any bar."""
    tqdm.write(message, file=stream or sys.stderr)


class Progress(tqdm):  # type: ignore[misc]
    """A bar of tqdm: iterate over it, or use it as a context manager and call `update`."""

    def note(self, **values: str) -> None:
        """Show figures beside the count from now on, such as the loss."""
        self.set_postfix(values, refresh=False)


class _Log(Progress):
    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:
        # Each state on a line of its own, instead of over the last one.
        return lambda text: print(text, file=file, flush=True) if text else None


def show_progress(
    iterable: Iterable[Any] | None = None, *, description: str, unit: str = "items", **given: Any
) -> Progress:
    """Show how far counted work is. The unit is a plural, or "B" for bytes; `total` and `initial` are tqdm's."""
    options = {"desc": description, "unit": f" {unit}", "delay": SHOW_AFTER, "disable": _is_silenced(), **given}
    if unit == "B":
        options |= {"unit": unit, "unit_scale": True}
    if sys.stderr.isatty():
        return Progress(iterable, **options)
    return _Log(iterable, mininterval=LINE_EVERY, maxinterval=LINE_EVERY, leave=False, **options)


@contextmanager
def show_phase(description: str) -> Iterator[None]:
    """Name a phase whose steps cannot be counted, once it lasts, and say in the end how long it took."""
    start, is_shown = time.monotonic(), not _is_silenced()
    timer = threading.Timer(SHOW_AFTER, say, [f"{description} …"])
    timer.daemon = True
    if is_shown:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if is_shown and time.monotonic() - start >= SHOW_AFTER:
        say(f"{description}: {tqdm.format_interval(int(time.monotonic() - start))}")


def _is_silenced() -> bool:
    return os.environ.get("TQDM_DISABLE", "") not in ("", "0", "False", "false")
