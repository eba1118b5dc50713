"""How command lines end: a user's mistake is one line that says what to do, a bug keeps its traceback. And how they
show what comes from files."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from spacy.language import Language

TRACEBACK = "SPACY_SAPBERT_TRACEBACK"
HINT = f"To see where in the code an error comes from, set {TRACEBACK}=1."
# Modules whose messages are written for users. A script is "__main__".
OWN = ("spacy_sapbert", "training", "__main__")
# What spaCy puts before each of its messages.
CODE = re.compile(r"\[E\d{3,4}\] ")
# Its messages on factories and functions that nothing has registered. Behind the first sentence, it lists all that are.
MISSING = re.compile(r"\[(?:E002|E893)\] (.*?)\.\s")

# For commands that take a pipeline: see `load_pipeline`.
CodeOption = Annotated[
    Path | None, typer.Option(help="Python to import first, which registers components of other packages")
]
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


def import_code(file: Path | None) -> None:
    """Import Python that registers what a pipeline needs, as spaCy's commands do with `--code`."""
    from spacy.util import import_file

    if file is None:
        return
    if file.suffix != ".py":
        raise ValueError(f"--code is {file}, but has to be a file of Python, .py.")
    try:
        import_file("python_code", file)
    except ModuleNotFoundError as error:
        raise ImportError(f"{file} imports {error.name}, which is not installed. Install its package.") from error


def load_pipeline(name: str | Path, code: Path | None = None) -> Language:
    """Load what `spacy.load` loads, the folder of a saved pipeline or an installed package, after importing `code`."""
    import spacy
    from spacy.util import is_package

    if not is_package(str(name)) and not (Path(name) / "config.cfg").is_file():
        raise FileNotFoundError(
            f"There is no pipeline {name}, seen from {Path.cwd()}. Give the folder of a saved one, or the name of an "
            "installed package."
        )
    import_code(code)
    try:
        # spaCy looks for packages by text, and for folders by paths.
        return spacy.load(str(name))
    except ValueError as error:
        if (missing := MISSING.match(str(error))) is None:
            raise
        raise ValueError(
            f"{name}: {missing[1]}. Install the package that registers it. If it does so only when it "
            "is imported, as negspacy does with 'negex', give --code FILE, Python with the line `import "
            "negspacy.negation`."
        ) from error


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
    # The modules beside a script are its own as well.
    script = getattr(sys.modules["__main__"], "__file__", None)
    is_own = module.partition(".")[0] in OWN or (script is not None and Path(file).parent == Path(script).parent)
    return is_own and linecache.getline(file, trace.tb_lineno).lstrip().startswith("raise ")
