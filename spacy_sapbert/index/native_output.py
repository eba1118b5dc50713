"""Keep the log lines of native libraries from the user's screen."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TextIO

STDERR = 2
# What the logging library of ScaNN writes: severity, date, time, thread, file and line.
LOG_LINE = re.compile(rb"^(?:[IWEF]\d{4} \S+ +\d+ \S+:\d+\]|WARNING: All log messages before absl::)")
_lock = threading.Lock()
_captures: list[_Capture] = []


class _Capture:
    """Standard error of the process, written to a file while calls need it."""

    def __init__(self) -> None:
        self.calls = 0
        self.has_failed = False
        sys.stderr.flush()
        self._screen = os.dup(STDERR)
        self._file = TemporaryFile()
        os.dup2(self._file.fileno(), STDERR)
        # Python's own messages go to the screen at once, unless they go elsewhere anyway (notebooks, tests).
        is_screen = _get_descriptor(sys.stderr) == STDERR
        self._own = os.fdopen(os.dup(self._screen), "w", buffering=1, errors="backslashreplace") if is_screen else None
        self.stream: TextIO = self._own or sys.stderr

    def end(self) -> None:
        sys.stderr.flush()
        os.dup2(self._screen, STDERR)
        self._file.seek(0)
        for line in self._file:
            if self.has_failed or not LOG_LINE.match(line):
                os.write(STDERR, line)
        self._file.close()
        os.close(self._screen)
        if self._own is not None:
            self._own.close()


@contextmanager
def hide_native_log() -> Iterator[TextIO]:
    """Hide the log lines that native code writes to standard error during a call. They are shown if the call fails.

    Other lines are shown after the call. Several threads may do this at once: the first call redirects, the last one
    restores.

    YIELDS (TextIO): The screen, for messages that should be seen at once.
    """
    with _lock:
        if not _captures:
            try:
                _captures.append(_Capture())
            except (OSError, AttributeError):
                # The process has no standard error.
                pass
        capture = _captures[0] if _captures else None
        if capture is not None:
            capture.calls += 1
    try:
        yield sys.stderr if capture is None else capture.stream
    except BaseException:
        if capture is not None:
            capture.has_failed = True
        raise
    finally:
        with _lock:
            if capture is not None:
                capture.calls -= 1
                if not capture.calls:
                    _captures.remove(capture)
                    capture.end()


def _get_descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
