"""Show what long work is doing: a bar on a terminal, a line a minute in a log, nothing for short work.

    with show_progress(total=len(names), description="Encoding names", unit="names") as progress:
        progress.update(len(chunk))
    for step in show_progress(steps, description="Training", unit="steps"): ...
    with show_phase("Arranging the index"): ...
    say("130,203 concepts with 410,322 names: output/terminology")

Everything goes to stderr. The environment variable `TQDM_DISABLE=1` silences bars and lines, not `say`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

# Seconds of work before anything is shown, and between two lines in a log.
SHOW_AFTER = 10.0
LINE_EVERY = 60.0


def say(message: str, *, stream: TextIO | None = None) -> None:
    """Announce what has been made, on a line of its own above any bar.

    message (str): The line, or several.
    stream (TextIO | None): Where to write; stderr by default.
    """
    with tqdm.external_write_mode(file=stream or sys.stderr):
        _write_line(stream or sys.stderr, message)


class Progress:
    """Progress of counted work: iterate over it, or use it as a context manager and call `update`."""

    def __init__(
        self,
        iterable: Iterable[Any] | None,
        *,
        description: str,
        total: int | None,
        unit: str,
        initial: int,
        stream: TextIO,
        clock: Callable[[], float],
    ) -> None:
        self.description = description
        self.total = total
        self.unit = unit
        self.done = initial
        self._iterable = iterable
        self._initial = initial
        self._stream = stream
        self._clock = clock
        self._notes: dict[str, str] = {}
        self._start = clock()
        self._next_line = self._start + SHOW_AFTER
        self._has_written = False
        self._bar = _make_bar(self) if _is_terminal(stream) else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close(finished=error[0] is None)

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in self._iterable or ():
                yield item
                self.update()

    def update(self, n: int = 1) -> None:
        """Count finished work.

        n (int): Units that were finished since the last call.
        """
        self.done += n
        if self._bar is not None:
            self._bar.update(n)
        elif self._clock() >= self._next_line:
            self._write(self._describe())
            self._next_line = self._clock() + LINE_EVERY

    def note(self, **values: str) -> None:
        """Show figures beside the count from now on, such as the loss.

        values (str): The figures by name.
        """
        self._notes = values
        if self._bar is not None:
            self._bar.set_postfix(values, refresh=False)

    def close(self, finished: bool = True) -> None:
        """End the bar, or write the last line if there was an earlier one.

        finished (bool): Whether the work came to its end.
        """
        if self._bar is not None:
            self._bar.close()
        elif self._has_written and finished:
            elapsed = self._clock() - self._start
            count = f"{_format_count(self.done, self.unit)} in {tqdm.format_interval(int(elapsed))}"
            self._write(self._join(count, self._rate(elapsed)))

    def _describe(self) -> str:
        elapsed = self._clock() - self._start
        count = _format_count(self.done, self.unit)
        new = self.done - self._initial
        parts = [count, self._rate(elapsed)]
        if self.total is not None:
            done = count if self.unit == "B" else f"{self.done:,}"
            parts[0] = f"{done} of {_format_count(self.total, self.unit)}"
            if new:
                left = max(0, self.total - self.done) * elapsed / new
                parts.append(f"{tqdm.format_interval(int(left))} left")
        parts += [f"{name} {value}" for name, value in self._notes.items()]
        return self._join(*parts)

    def _join(self, *parts: str) -> str:
        return f"{self.description}: {', '.join(part for part in parts if part)}"

    def _rate(self, elapsed: float) -> str:
        rate = (self.done - self._initial) / elapsed if elapsed > 0 else 0.0
        # Slower than one in twenty seconds: the first digit that is not 0.
        rounded = round(rate, 1 if rate < 10 else None) or float(f"{rate:.1g}")
        return f"{_format_count(rounded, self.unit)}/s" if rate else ""

    def _write(self, line: str) -> None:
        self._has_written = True
        if not _is_silenced():
            _write_line(self._stream, line)


def show_progress(
    iterable: Iterable[Any] | None = None,
    *,
    description: str,
    total: int | None = None,
    unit: str = "items",
    initial: int = 0,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Show how far counted work is: what is done of how many, the rate and the time left.

    iterable (Iterable | None): What to work on, if the result is iterated over.
    description (str): The phase, such as "Encoding names".
    total (int | None): Units in all; by default the iterable's length, if it has one.
    unit (str): What is counted, in the plural; "B" for bytes.
    initial (int): Units that an earlier run has finished.
    stream (TextIO | None): Where to write; stderr by default.
    clock (Callable): Seconds from any start.
    RETURNS (Progress): A context manager with `update`, and an iterable if one was given.
    """
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    stream = stream or sys.stderr
    return Progress(
        iterable, description=description, total=total, unit=unit, initial=initial, stream=stream, clock=clock
    )


@contextmanager
def show_phase(description: str, *, stream: TextIO | None = None) -> Iterator[None]:
    """Name a phase whose steps cannot be counted, once it lasts, and then every minute.

    description (str): The phase, such as "Arranging the index".
    stream (TextIO | None): Where to write; stderr by default.
    """
    stream = stream or sys.stderr
    start = time.monotonic()
    is_over = threading.Event()

    def write(end: str = "") -> None:
        if not _is_silenced():
            say(f"{description}: {tqdm.format_interval(int(time.monotonic() - start))}{end}", stream=stream)

    def write_until_over() -> None:
        wait = SHOW_AFTER
        while not is_over.wait(wait):
            write(" so far")
            wait = LINE_EVERY

    thread = threading.Thread(target=write_until_over, name="spacy-sapbert-phase", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if time.monotonic() - start >= SHOW_AFTER:
        write()


def _make_bar(progress: Progress) -> tqdm[Any]:
    is_bytes = progress.unit == "B"
    return tqdm(
        total=progress.total,
        initial=progress.done,
        desc=progress.description,
        unit="B" if is_bytes else f" {progress.unit}",
        unit_scale=is_bytes,
        delay=SHOW_AFTER,
        file=progress._stream,
    )


def _format_count(n: float, unit: str) -> str:
    return f"{tqdm.format_sizeof(n)}B" if unit == "B" else f"{n:,} {unit}"


def _is_terminal(stream: TextIO) -> bool:
    return hasattr(stream, "isatty") and stream.isatty()


def _is_silenced() -> bool:
    return os.environ.get("TQDM_DISABLE", "") not in ("", "0", "False", "false")


def _write_line(stream: TextIO, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()
