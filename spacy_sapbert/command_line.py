"""How command lines end: a user's mistake is one line that says what to do, a bug keeps its traceback. And how they
show what comes from files."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

TRACEBACK = "SPACY_SAPBERT_TRACEBACK"
HINT = f"To see where in the code an error comes from, set {TRACEBACK}=1."
# Modules whose messages are written for users. A script is "__main__".
OWN = ("spacy_sapbert", "training", "__main__")
# What spaCy puts before each of its messages.
CODE = re.compile(r"\[E\d{3,4}\] ")
# How shells know that Ctrl+C has ended a command.
INTERRUPTED = 130
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def show_example(command: str) -> str:
    """Write the last lines of a command's help. The command has a line of its own, to be copied."""
    return f"Example:\n\npython -m {command}"


def show_controls(text: str) -> str:
    r"""Write control characters as in Python, such as \x1b: a terminal would obey those of a file."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def run_app(app: Callable[[], object], install: str, status: int = 1) -> None:
    """Run a command line. `install` says how to install what it needs, `status` is how a user's mistake ends it."""
    try:
        app()
    except KeyboardInterrupt:
        _end_interrupted()
    except SystemExit as end:
        # Typer makes it of Ctrl+C, and says nothing.
        if end.code == INTERRUPTED:
            _end_interrupted()
        raise
    except Exception as error:
        message = _explain(error, install)
        if message is None or os.environ.get(TRACEBACK, "0") not in ("", "0"):
            raise
        lines = (line.strip() for line in message.splitlines())
        sys.stderr.write(f"Error: {show_controls(' '.join(filter(None, lines)))}\n")
        raise SystemExit(status) from error


def _end_interrupted() -> NoReturn:
    sys.stderr.write("Interrupted.\n")
    raise SystemExit(INTERRUPTED) from None


def _explain(error: Exception, install: str) -> str | None:
    """Say what the user can do; None if the error is a bug."""
    if isinstance(error, OSError) and error.strerror:
        # From the system: no such file, no permission, no space left, a file where a folder should be.
        file = "A file" if error.filename is None else error.filename
        return f"{file}: {error.strerror}. Check the path, your permissions and the free space on the disk."
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] not in OWN:
        return f"The package {error.name} is not installed. {install}"
    if not isinstance(error, (OSError, ValueError, ImportError, RuntimeError)) or error.__traceback__ is None:
        return None
    return str(error) if CODE.match(str(error)) or _is_own(error.__traceback__) else None


def _is_own(trace: TracebackType) -> bool:
    """Say if a `raise` in our own code raised the error: Python's and other libraries' messages help no user."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    module, file = trace.tb_frame.f_globals.get("__name__", ""), trace.tb_frame.f_code.co_filename
    return module.partition(".")[0] in OWN and linecache.getline(file, trace.tb_lineno).lstrip().startswith("raise ")
